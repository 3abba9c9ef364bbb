//! A server: threads that open requests, ask the handler and seal the answers.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use futures_util::FutureExt as _;
use mio::Waker;
use selfsame_codec::rpc::{Input, Output, ServerConfig};
use selfsame_codec::{BatchReader, Code, Malformed};
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

use super::answering::{Handler, Outcome, RpcRefusal, RpcRequest};
use super::endpoint::{UNKNOWN, address_of};
use super::engine::{Engine, unix_us};
use super::socket::{DATAGRAM_BYTES, Socket};
use super::ticket::RpcTicketService;
use crate::error::Error;
use crate::id::PeerId;
use crate::keys::{Seed, random_bytes};

/// How long a ticket is good unless the builder says otherwise.
const TICKET_LIFE: Duration = Duration::from_secs(3600);
/// Datagrams of one step: what arrives meanwhile waits in the kernel.
const MAX_DATAGRAMS: usize = 512;
const IDEMPOTENT_BIT: u8 = 0b100;

/// What a server is made of.
#[derive(Clone)]
pub struct RpcServerBuilder {
    network: String,
    service: String,
    ticket_key: Seed,
    ticket_life: Duration,
    is_idempotent: bool,
    threads: usize,
}

impl RpcServerBuilder {
    /// Calls may be carried out by each replica once: no round trip before the first one, and a copy of a datagram may be carried out by
    /// another replica for some seconds. Without this each call is bound to one replica.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// How long tickets are good; an hour unless this says otherwise.
    #[must_use]
    pub fn ticket_life(mut self, life: Duration) -> Self {
        self.ticket_life = life;
        self
    }

    /// Threads, each with a socket and an instance of its own; one unless this says otherwise. Each sender's datagrams go to one of them.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Binds the address and answers calls until it is dropped. A handler that is ready at once is carried out by the thread that has the
    /// socket: it must not block. Others go on in the Tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be bound, [`Error::Poisoned`] when a name is not usable.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start<H, F>(self, address: SocketAddr, handler: H) -> Result<RpcServer, Error>
    where
        H: Fn(RpcRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<u8>, RpcRefusal>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handler: Handler = Arc::new(move |request| {
            let handler = Arc::clone(&handler);
            let answering = AssertUnwindSafe(async move { handler(request).await });
            // A handler that panics ends its call, not the server.
            let failed = Err(RpcRefusal(Code::HandlerFailed));
            Box::pin(
                answering
                    .catch_unwind()
                    .map(move |outcome| outcome.unwrap_or(failed)),
            )
        });
        let mut server = RpcServer {
            address,
            workers: Vec::new(),
        };
        for _ in 0..self.threads {
            let socket = Socket::bind(server.address).map_err(|error| Error::io(server.address, error))?;
            server.address = socket
                .local_addr()
                .map_err(|error| Error::io(server.address, error))?;
            let engine = Engine::new(self.config()?)?;
            let handle = Worker::start(socket, engine, Arc::clone(&handler));
            server
                .workers
                .push(handle.map_err(|error| Error::io("a thread of the RPC", error))?);
        }
        Ok(server)
    }

    fn config(&self) -> Result<Vec<u8>, Error> {
        let config = ServerConfig {
            network: self.network.as_bytes(),
            service: self.service.as_bytes(),
            ticket_secret: *self.ticket_key.bytes(),
            entropy: random_bytes()?,
            datagram_bytes: DATAGRAM_BYTES,
            ticket_life_s: u32::try_from(self.ticket_life.as_secs()).unwrap_or(u32::MAX),
            replay: u8::from(self.is_idempotent),
            not_before_ms: unix_us() / 1000,
            router_secret: &[],
        };
        Ok(config.encode())
    }
}

/// A replica of a service; ends when it is dropped.
#[derive(Debug)]
pub struct RpcServer {
    address: SocketAddr,
    workers: Vec<WorkerHandle>,
}

impl RpcServer {
    /// A server of a service in a network, whose replicas share the ticket key.
    #[must_use]
    pub fn builder(network: &str, service: &str, ticket_key: Seed) -> RpcServerBuilder {
        RpcServerBuilder {
            network: network.into(),
            service: service.into(),
            ticket_key,
            ticket_life: TICKET_LIFE,
            is_idempotent: false,
            threads: 1,
        }
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What issues tickets to callers from the mesh, to be served under the service's name; `address` is where they reach this server.
    #[must_use]
    pub fn tickets(&self, address: SocketAddr) -> RpcTicketService {
        RpcTicketService::new(self.workers[0].clone_sender(), address)
    }

    /// Replaces all ticket keys: tickets that are out open nothing any more.
    pub fn set_ticket_key(&self, key: &Seed) {
        for worker in &self.workers {
            worker.tell(Order::SetTicketKey(key.clone()));
        }
    }

    /// Makes the next ticket key the current one, and erases the one before the current one: what was sealed under it is secret from then
    /// on even if this replica is captured. All replicas should do so at the same time, no more often than tickets live.
    pub fn rotate_ticket_keys(&self) {
        for worker in &self.workers {
            worker.tell(Order::RotateTicketKeys);
        }
    }
}

/// What a worker is told by other threads.
pub(super) enum Order {
    Answer {
        call: u32,
        outcome: Outcome,
    },
    IssueTicket {
        caller: PeerId,
        answer: oneshot::Sender<Vec<u8>>,
    },
    SetTicketKey(Seed),
    RotateTicketKeys,
    Stop,
}

/// Tells a worker something.
#[derive(Clone, Debug)]
pub(super) struct OrderSender {
    orders: mpsc::Sender<Order>,
    waker: Arc<Waker>,
}

impl OrderSender {
    /// Tells it; one that has ended does not hear.
    pub(super) fn tell(&self, order: Order) {
        if self.orders.send(order).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a thread of the RPC cannot be woken");
        }
    }
}

#[derive(Debug)]
struct WorkerHandle {
    sender: OrderSender,
    thread: Option<JoinHandle<()>>,
}

impl WorkerHandle {
    fn tell(&self, order: Order) {
        self.sender.tell(order);
    }

    fn clone_sender(&self) -> OrderSender {
        self.sender.clone()
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.tell(Order::Stop);
        // It has logged why if it ended before.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread with a socket and an instance.
struct Worker {
    socket: Socket,
    engine: Engine,
    handler: Handler,
    runtime: Runtime,
    sender: OrderSender,
    orders: mpsc::Receiver<Order>,
    /// Who waits for tickets, which are issued in the order in which they were asked for.
    tickets: VecDeque<oneshot::Sender<Vec<u8>>>,
    wake_us: u64,
}

impl Worker {
    fn start(socket: Socket, engine: Engine, handler: Handler) -> io::Result<WorkerHandle> {
        let (sender, orders) = mpsc::channel();
        let sender = OrderSender {
            orders: sender,
            waker: Arc::new(socket.waker()?),
        };
        let worker = Self {
            socket,
            engine,
            handler,
            runtime: Runtime::current(),
            sender: sender.clone(),
            orders,
            tickets: VecDeque::new(),
            wake_us: u64::MAX,
        };
        let run = move || {
            let runtime = worker.runtime.clone();
            // Handlers begin here, and use its sockets and timers.
            let _entered = runtime.enter();
            if let Err(error) = worker.run() {
                tracing::error!(%error, "a thread of the RPC has ended: start the server again");
            }
        };
        let thread = thread::Builder::new().name("selfsame-rpc".into()).spawn(run)?;
        Ok(WorkerHandle {
            sender,
            thread: Some(thread),
        })
    }

    fn run(mut self) -> Result<(), Error> {
        loop {
            self.receive()?;
            if !self.take_orders() {
                return Ok(());
            }
            if self.engine.has_inputs() || unix_us() >= self.wake_us {
                self.step()?;
                self.socket.flush();
                continue;
            }
            let longest = Duration::from_micros(self.wake_us.saturating_sub(unix_us()));
            let longest = (self.wake_us < u64::MAX).then_some(longest);
            self.socket
                .wait(longest)
                .map_err(|error| Error::io("the socket of the RPC", error))?;
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        let engine = &mut self.engine;
        let mut datagrams = 0;
        while datagrams < MAX_DATAGRAMS {
            let received = self.socket.receive(|source, bytes| {
                let source = super::endpoint::endpoint_of(source);
                engine.give(&Input::Datagram { source, bytes });
            });
            match received.map_err(|error| Error::io("the socket of the RPC", error))? {
                0 => break,
                more => datagrams += more,
            }
        }
        Ok(())
    }

    /// Takes what other threads have said; whether to go on.
    fn take_orders(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Answer { call, outcome } => self.answer(call, &outcome),
                Order::IssueTicket { caller, answer } => {
                    self.tickets.push_back(answer);
                    self.engine.give(&Input::IssueTicket {
                        tag: 0,
                        caller: caller.0,
                        endpoint: UNKNOWN,
                    });
                }
                Order::SetTicketKey(key) => self.engine.give(&Input::SetTicketKey { secret: *key.bytes() }),
                Order::RotateTicketKeys => self.engine.give(&Input::RotateTicketKeys {}),
                Order::Stop => return false,
            }
        }
        true
    }

    /// Steps the instance until the calls that are ready at once are answered.
    fn step(&mut self) -> Result<(), Error> {
        loop {
            let outputs = self.engine.step()?;
            self.follow(&outputs).map_err(|Malformed| Error::version_skew())?;
            if !self.engine.has_inputs() {
                return Ok(());
            }
        }
    }

    fn follow(&mut self, outputs: &[u8]) -> Result<(), Malformed> {
        for item in BatchReader::new(outputs)? {
            match Output::decode(item)? {
                Output::Send { target, bytes } => self.socket.send(address_of(&target), bytes),
                Output::Wake { unix_us } => self.wake_us = unix_us,
                Output::Serve {
                    call,
                    caller,
                    source,
                    options,
                    timeout_ms,
                    payload,
                } => {
                    let request = RpcRequest {
                        payload: payload.to_vec(),
                        caller: PeerId(caller),
                        source: address_of(&source),
                        is_idempotent: options & IDEMPOTENT_BIT != 0,
                        deadline: Instant::now() + Duration::from_millis(u64::from(timeout_ms)),
                    };
                    self.serve(call, request);
                }
                // The handler goes on, and what it gives is dropped.
                Output::Cancelled { .. } => {}
                Output::Issued { grant, .. } => {
                    // Who has gone away needs none.
                    _ = self.tickets.pop_front().map(|answer| answer.send(grant.to_vec()));
                }
                Output::Refused { code, .. } => {
                    tracing::error!(code, "the module of the RPC refused an input")
                }
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }

    fn serve(&mut self, call: u32, request: RpcRequest) {
        let deadline = request.deadline;
        let mut answering = (self.handler)(request);
        if let Some(outcome) = (&mut answering).now_or_never() {
            return self.answer(call, &outcome);
        }
        let sender = self.sender.clone();
        self.runtime.spawn(async move {
            let outcome = match tokio::time::timeout_at(deadline.into(), answering).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RpcRefusal(Code::Deadline)),
            };
            sender.tell(Order::Answer { call, outcome });
        });
    }

    fn answer(&mut self, call: u32, outcome: &Outcome) {
        match outcome {
            Ok(payload) => self.engine.give(&Input::Answer { call, payload }),
            Err(RpcRefusal(code)) => self.engine.give(&Input::Refuse {
                call,
                code: code.as_u16(),
            }),
        }
    }
}
