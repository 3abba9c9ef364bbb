//! A thread with an instance of the module and what carries its datagrams, and how other threads give it orders.

use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mio::Waker;
use selfsame_codec::rpc::Output;
use selfsame_codec::{BatchReader, Malformed};
use tokio::runtime::Handle as Runtime;

use super::endpoint::address_of;
use super::engine::{Engine, unix_us};
use super::way::Way;
use crate::error::Error;

/// The part of a thread that clients and servers differ in.
pub(super) trait Role: Send + 'static {
    /// An order of another thread.
    type Order: Send + 'static;

    /// Turns an order into inputs.
    fn take(&mut self, order: Self::Order, engine: &mut Engine);

    /// Whether datagrams may be sent to an address.
    fn permits(&self, _target: SocketAddr) -> bool {
        true
    }

    /// Carries an output out; datagrams and times are not among them.
    fn follow(&mut self, output: &Output<'_>, engine: &mut Engine) -> Result<(), Malformed>;
}

/// Gives a thread orders.
pub(super) struct OrderSender<T> {
    /// `None` ends the thread.
    orders: mpsc::Sender<Option<T>>,
    waker: Arc<Waker>,
}

impl<T> Clone for OrderSender<T> {
    fn clone(&self) -> Self {
        Self {
            orders: self.orders.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}

impl<T> fmt::Debug for OrderSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderSender(..)")
    }
}

impl<T> OrderSender<T> {
    /// Gives an order; a thread that has ended drops it.
    pub(super) fn send(&self, order: T) {
        self.send_or_end(Some(order));
    }

    fn send_or_end(&self, order: Option<T>) {
        if self.orders.send(order).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "a thread of the RPC cannot be woken");
        }
    }
}

/// A running thread, which ends when this is dropped.
pub(super) struct RpcThread<T> {
    sender: OrderSender<T>,
    handle: Option<JoinHandle<()>>,
}

impl<T> RpcThread<T> {
    /// Starts a thread of the Tokio runtime that this is called in.
    pub(super) fn start<R: Role<Order = T>>(
        way: impl Way,
        engine: Engine,
        make_role: impl FnOnce(OrderSender<T>) -> R,
    ) -> io::Result<Self>
    where
        T: Send + 'static,
    {
        let (orders, receiver) = mpsc::channel();
        let waker = way.waker();
        let sender = OrderSender { orders, waker };
        let runner = Runner {
            way,
            engine,
            role: make_role(sender.clone()),
            orders: receiver,
            wake_us: u64::MAX,
        };
        let runtime = Runtime::current();
        let run = move || {
            // Handlers begin here, and use its sockets and timers.
            let _entered = runtime.enter();
            if let Err(error) = runner.run() {
                tracing::error!(%error, "a thread of the RPC has ended: make its client or server anew");
            }
        };
        let handle = thread::Builder::new().name("selfsame-rpc".into()).spawn(run)?;
        Ok(Self {
            sender,
            handle: Some(handle),
        })
    }

    pub(super) fn sender(&self) -> &OrderSender<T> {
        &self.sender
    }
}

impl<T> fmt::Debug for RpcThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RpcThread(..)")
    }
}

impl<T> Drop for RpcThread<T> {
    fn drop(&mut self) {
        self.sender.send_or_end(None);
        // It has logged why if it ended before.
        _ = self.handle.take().map(JoinHandle::join);
    }
}

struct Runner<R: Role, W> {
    way: W,
    engine: Engine,
    role: R,
    orders: mpsc::Receiver<Option<R::Order>>,
    wake_us: u64,
}

impl<R: Role, W: Way> Runner<R, W> {
    fn run(mut self) -> Result<(), Error> {
        let failed = |error| Error::io("the socket of the RPC", error);
        loop {
            self.way.receive(&mut self.engine).map_err(failed)?;
            if !self.take_orders() {
                return Ok(());
            }
            if self.engine.has_inputs() || unix_us() >= self.wake_us {
                self.step()?;
            }
            // What came meanwhile, datagrams and orders, ends the wait at once.
            let longest = Duration::from_micros(self.wake_us.saturating_sub(unix_us()));
            let longest = (self.wake_us < u64::MAX).then_some(longest);
            self.way.wait(longest).map_err(failed)?;
        }
    }

    /// Takes orders of other threads; whether to go on.
    fn take_orders(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            let Some(order) = order else { return false };
            self.role.take(order, &mut self.engine);
        }
        true
    }

    /// Steps the instance until it has no more inputs, such as answers of calls that are ready at once.
    fn step(&mut self) -> Result<(), Error> {
        loop {
            let outputs = self.engine.step()?;
            self.follow(&outputs).map_err(|Malformed| Error::version_skew())?;
            if !self.engine.has_inputs() {
                self.way.flush();
                return Ok(());
            }
        }
    }

    fn follow(&mut self, outputs: &[u8]) -> Result<(), Malformed> {
        for item in BatchReader::new(outputs)? {
            match Output::decode(item)? {
                Output::Send { target, bytes } => {
                    let target = address_of(&target);
                    if self.role.permits(target) {
                        self.way.send(target, bytes);
                    }
                }
                Output::Wake { unix_us } => self.wake_us = unix_us,
                Output::Refused { code, .. } => {
                    tracing::error!(code, "the module of the RPC refused an input");
                }
                output => {
                    self.way.follow(&output);
                    self.role.follow(&output, &mut self.engine)?;
                }
            }
        }
        Ok(())
    }
}
