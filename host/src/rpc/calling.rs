//! The thread of a client: it has the socket and the instance, and tells who waits.

use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mio::Waker;
use selfsame_codec::rpc::{ClientConfig, Input, Output};
use selfsame_codec::{BatchReader, Code, Malformed};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::client::RpcAnswer;
use super::endpoint::{address_of, endpoint_of};
use super::engine::{Engine, unix_us};
use super::socket::{DATAGRAM_BYTES, Socket};
use crate::error::Error;

/// A call for the thread.
pub(super) struct NewCall {
    pub(super) call: u32,
    pub(super) service: u32,
    pub(super) target: SocketAddr,
    pub(super) options: u8,
    pub(super) timeout_ms: u32,
    pub(super) payload: Vec<u8>,
    pub(super) answer: oneshot::Sender<Result<RpcAnswer, Error>>,
}

/// What the thread is told.
pub(super) enum Order {
    Call(NewCall),
    Cancel(u32),
    /// Empty if there is none.
    UseTicket(u32, Zeroizing<Vec<u8>>),
    Stop,
}

/// Told when calls of a service wait for a ticket.
pub(super) type TicketWanted = Box<dyn Fn(u32) + Send>;

/// The thread of a client; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Caller {
    orders: mpsc::Sender<Order>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Caller {
    /// Binds a socket, of both families where the system has them.
    pub(super) fn start(
        make_wanted: impl FnOnce(mpsc::Sender<Order>, Arc<Waker>) -> TicketWanted,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::io("the socket of the RPC", error);
        let any = |ip: IpAddr| Socket::bind(SocketAddr::from((ip, 0)));
        let socket = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()));
        let socket = socket.map_err(failed)?;
        let waker = Arc::new(socket.waker().map_err(failed)?);
        let config = ClientConfig {
            datagram_bytes: DATAGRAM_BYTES,
        };
        let engine = Engine::new(config.encode())?;
        let (sender, orders) = mpsc::channel();
        let calling = Calling {
            socket,
            engine,
            orders,
            waiting: HashMap::new(),
            wanted: make_wanted(sender.clone(), Arc::clone(&waker)),
            wake_us: u64::MAX,
        };
        let run = move || {
            if let Err(error) = calling.run() {
                tracing::error!(%error, "the thread of an RPC client has ended: make a new client");
            }
        };
        let thread = thread::Builder::new()
            .name("selfsame-rpc-client".into())
            .spawn(run);
        Ok(Self {
            orders: sender,
            waker,
            thread: Some(thread.map_err(failed)?),
        })
    }

    pub(super) fn tell(&self, order: Order) {
        tell(&self.orders, &self.waker, order);
    }
}

/// Tells a thread something; one that has ended does not hear, and what waits for its answer is told so.
pub(super) fn tell(orders: &mpsc::Sender<Order>, waker: &Waker, order: Order) {
    if orders.send(order).is_ok()
        && let Err(error) = waker.wake()
    {
        tracing::error!(%error, "the thread of an RPC client cannot be woken");
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.tell(Order::Stop);
        _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Calling {
    socket: Socket,
    engine: Engine,
    orders: mpsc::Receiver<Order>,
    waiting: HashMap<u32, oneshot::Sender<Result<RpcAnswer, Error>>>,
    wanted: TicketWanted,
    wake_us: u64,
}

impl Calling {
    fn run(mut self) -> Result<(), Error> {
        let failed = |error| Error::io("the socket of the RPC", error);
        loop {
            let engine = &mut self.engine;
            let received = self.socket.receive(|source, bytes| {
                let source = endpoint_of(source);
                engine.give(&Input::Datagram { source, bytes });
            });
            received.map_err(failed)?;
            if !self.take_orders() {
                return Ok(());
            }
            if self.engine.has_inputs() || unix_us() >= self.wake_us {
                let outputs = self.engine.step()?;
                self.follow(&outputs).map_err(|Malformed| Error::version_skew())?;
                self.socket.flush();
                continue;
            }
            let longest = Duration::from_micros(self.wake_us.saturating_sub(unix_us()));
            self.socket
                .wait((self.wake_us < u64::MAX).then_some(longest))
                .map_err(failed)?;
        }
    }

    /// Takes what other threads have said; whether to go on.
    fn take_orders(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Call(new) => self.call(new),
                Order::Cancel(call) => {
                    if self.waiting.remove(&call).is_some() {
                        self.engine.give(&Input::Cancel { call });
                    }
                }
                Order::UseTicket(service, grant) => self.engine.give(&Input::UseTicket {
                    service,
                    grant: &grant,
                }),
                Order::Stop => return false,
            }
        }
        true
    }

    fn call(&mut self, new: NewCall) {
        self.engine.give(&Input::Call {
            call: new.call,
            service: new.service,
            target: endpoint_of(new.target),
            options: new.options,
            timeout_ms: new.timeout_ms,
            payload: &new.payload,
        });
        self.waiting.insert(new.call, new.answer);
    }

    fn follow(&mut self, outputs: &[u8]) -> Result<(), Malformed> {
        for item in BatchReader::new(outputs)? {
            match Output::decode(item)? {
                Output::Send { target, bytes } => self.socket.send(address_of(&target), bytes),
                Output::Wake { unix_us } => self.wake_us = unix_us,
                Output::Done {
                    call,
                    source,
                    payload,
                } => {
                    let server = address_of(&source);
                    let payload = payload.to_vec();
                    self.end(call, Ok(RpcAnswer { payload, server }));
                }
                Output::Failed { call, code } => self.end(call, Err(Error::core(code, ""))),
                Output::TicketWanted { service } => (self.wanted)(service),
                Output::Refused { code, .. } => {
                    tracing::error!(code, "the module of the RPC refused an input")
                }
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }

    fn end(&mut self, call: u32, outcome: Result<RpcAnswer, Error>) {
        if let Some(answer) = self.waiting.remove(&call) {
            // Who has gone away needs none.
            _ = answer.send(outcome);
        }
    }
}

/// Why a call has no answer when the thread has ended.
pub(super) fn ended() -> Error {
    Error::from_code(Code::Disconnected)
}
