//! Requests over HTTP that have no answer yet, and the datagrams that they bring and take back.

use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use mio::Waker;
use selfsame_codec::rpc::{Input, Output};
use tokio::sync::oneshot;

use super::arrivals::{ArrivalSender, Arrivals};
use super::datagram::{RequestId, is_acknowledgement};
use super::endpoint::{address_of, endpoint_of};
use super::engine::Engine;
use super::way::Way;
use crate::shares::Share;

/// Most requests without an answer, those included whose connections are gone while their calls go on: fewer than ports.
const MAX_EXCHANGES: usize = 32_768;

/// A datagram of a request, with its part of the memory for bodies until the instance has it.
pub(super) struct Arrival {
    pub(super) source: SocketAddr,
    pub(super) bytes: Bytes,
    pub(super) held: Share<IpAddr>,
}

/// The datagram that answers a request, or that there is none; an error when the thread has ended.
pub(super) type Answered = Shared<oneshot::Receiver<Option<Bytes>>>;

/// A request without an answer.
struct Exchange {
    id: RequestId,
    /// The call, while it is carried out.
    call: Option<u32>,
    answer: oneshot::Sender<Option<Bytes>>,
    answered: Answered,
}

/// The requests without an answer, each of which a port stands for.
#[derive(Default)]
pub(super) struct Exchanges(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_port: HashMap<u16, Exchange>,
    by_id: HashMap<RequestId, u16>,
    by_call: HashMap<u32, u16>,
    last_port: u16,
}

/// What a request has led to.
pub(super) enum Begun {
    /// It comes again while its call is carried out, whose answer goes to all connections that brought it.
    Again(Answered),
    /// The datagram is to be given to the instance, from this port.
    New(u16, Answered),
}

impl Exchanges {
    /// Begins with a request; `None` if there are too many.
    pub(super) fn begin(&self, id: RequestId) -> Option<Begun> {
        let mut table = self.lock();
        let known = table.by_id.get(&id).and_then(|port| table.by_port.get(port));
        if let Some(exchange) = known.filter(|exchange| exchange.call.is_some()) {
            return Some(Begun::Again(exchange.answered.clone()));
        }
        if table.by_port.len() >= MAX_EXCHANGES {
            return None;
        }
        let port = table.free_port();
        let (answer, answered) = oneshot::channel();
        let answered = answered.shared();
        let exchange = Exchange {
            id,
            call: None,
            answer,
            answered: answered.clone(),
        };
        table.by_port.insert(port, exchange);
        table.by_id.entry(id).or_insert(port);
        Some(Begun::New(port, answered))
    }

    /// Notes that the call of a request is carried out.
    fn serve(&self, port: u16, call: u32) {
        let mut table = self.lock();
        if let Some(exchange) = table.by_port.get_mut(&port) {
            exchange.call = Some(call);
            table.by_call.insert(call, port);
        }
    }

    /// Ends the request of a call that was given up.
    fn cancel(&self, call: u32) {
        let mut table = self.lock();
        if let Some(port) = table.by_call.get(&call).copied() {
            table.end(port, None);
        }
    }

    /// Ends requests that have led to neither a call nor an answer: they never do.
    fn end_unserved(&self, ports: impl Iterator<Item = u16>) {
        let mut table = self.lock();
        for port in ports {
            if table
                .by_port
                .get(&port)
                .is_some_and(|exchange| exchange.call.is_none())
            {
                table.end(port, None);
            }
        }
    }

    fn answer(&self, port: u16, datagram: Bytes) {
        self.lock().end(port, Some(datagram));
    }

    /// Ends all requests with an error.
    pub(super) fn clear(&self) {
        *self.lock() = Table::default();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn free_port(&mut self) -> u16 {
        // There are fewer requests than ports.
        loop {
            self.last_port = self.last_port % u16::MAX + 1;
            if !self.by_port.contains_key(&self.last_port) {
                return self.last_port;
            }
        }
    }

    fn end(&mut self, port: u16, datagram: Option<Bytes>) {
        let Some(exchange) = self.by_port.remove(&port) else {
            return;
        };
        if self.by_id.get(&exchange.id) == Some(&port) {
            self.by_id.remove(&exchange.id);
        }
        if let Some(call) = exchange.call {
            self.by_call.remove(&call);
        }
        // Nobody waits any more if the connections are gone.
        _ = exchange.answer.send(datagram);
    }
}

/// Carries the datagrams of a server in requests over HTTP.
pub(super) struct HttpPort {
    exchanges: Arc<Exchanges>,
    arrivals: Arrivals<Arrival>,
    /// Of the datagrams that the instance gets in this step.
    taken: Vec<(u16, Share<IpAddr>)>,
}

impl HttpPort {
    /// A port without requests.
    pub(super) fn new(exchanges: Arc<Exchanges>) -> io::Result<Self> {
        Ok(Self {
            exchanges,
            arrivals: Arrivals::new()?,
            taken: Vec::new(),
        })
    }

    pub(super) fn sender(&self) -> ArrivalSender<Arrival> {
        self.arrivals.sender().clone()
    }
}

impl Way for HttpPort {
    fn waker(&self) -> Arc<Waker> {
        self.arrivals.waker()
    }

    fn receive(&mut self, engine: &mut Engine) -> io::Result<()> {
        while let Some(Arrival { source, bytes, held }) = self.arrivals.take() {
            engine.give(&Input::Datagram {
                source: endpoint_of(source),
                bytes: &bytes,
            });
            self.taken.push((source.port(), held));
        }
        Ok(())
    }

    fn send(&mut self, target: SocketAddr, datagram: &[u8]) {
        // The request stays open until there is an answer.
        if !is_acknowledgement(datagram) {
            self.exchanges
                .answer(target.port(), Bytes::copy_from_slice(datagram));
        }
    }

    fn follow(&mut self, output: &Output<'_>) {
        match *output {
            Output::Serve { call, source, .. } => self.exchanges.serve(address_of(&source).port(), call),
            Output::Cancelled { call } => self.exchanges.cancel(call),
            _ => {}
        }
    }

    fn flush(&mut self) {
        self.exchanges
            .end_unserved(self.taken.drain(..).map(|(port, _)| port));
    }

    fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        self.arrivals.wait(longest)
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.exchanges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(exchanges: &Exchanges, id: u8) -> (Option<u16>, Answered) {
        match exchanges.begin([id; 118]).expect("room") {
            Begun::New(port, answered) => (Some(port), answered),
            Begun::Again(answered) => (None, answered),
        }
    }

    fn outcome(answered: Answered) -> Option<Result<Option<Bytes>, ()>> {
        answered.now_or_never().map(|outcome| outcome.map_err(drop))
    }

    #[test]
    fn copy_of_a_request_gets_the_answer_only_while_its_call_is_carried_out() {
        let exchanges = Exchanges::default();
        let (first, answered) = begin(&exchanges, 1);
        let first = first.expect("a port");
        let (second, unserved) = begin(&exchanges, 1);
        let second = second.expect("it is given to the instance, too");
        exchanges.serve(first, 7);
        let (third, again) = begin(&exchanges, 1);
        assert_eq!(third, None);
        exchanges.end_unserved([first, second].into_iter());
        assert_eq!(outcome(unserved), Some(Ok(None)));
        exchanges.answer(first, Bytes::from_static(b"answer"));
        for answered in [answered, again] {
            assert_eq!(outcome(answered), Some(Ok(Some(Bytes::from_static(b"answer")))));
        }
        assert!(begin(&exchanges, 1).0.is_some(), "it is forgotten");
    }

    #[test]
    fn call_that_is_given_up_ends_its_request() {
        let exchanges = Exchanges::default();
        let (port, answered) = begin(&exchanges, 1);
        exchanges.serve(port.expect("a port"), 7);
        exchanges.cancel(8);
        assert_eq!(outcome(answered.clone()), None);
        exchanges.cancel(7);
        assert_eq!(outcome(answered), Some(Ok(None)));
        let table = exchanges.lock();
        assert!(table.by_port.is_empty() && table.by_id.is_empty() && table.by_call.is_empty());
    }

    #[test]
    fn requests_without_an_answer_are_bounded() {
        let exchanges = Exchanges::default();
        let id = |number: u32| {
            let mut id = [0; 118];
            id[..4].copy_from_slice(&number.to_le_bytes());
            id
        };
        for number in 0..MAX_EXCHANGES as u32 {
            assert!(exchanges.begin(id(number)).is_some());
        }
        assert!(exchanges.begin(id(u32::MAX)).is_none());
        exchanges.end_unserved(core::iter::once(1));
        let Some(Begun::New(_, answered)) = exchanges.begin(id(u32::MAX)) else {
            panic!("there is room again");
        };
        exchanges.clear();
        assert_eq!(outcome(answered), Some(Err(())));
    }
}
