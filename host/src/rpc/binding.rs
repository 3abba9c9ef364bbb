//! Requests over streams, HTTP and WebSocket, that have no answer yet, and the datagrams that they bring and take back.

use alloc::sync::{Arc, Weak};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use mio::Waker;
use selfsame_codec::rpc::{Input, Output};
use tokio::sync::{oneshot, watch};

use super::arrivals::{ArrivalSender, Arrivals};
use super::datagram::{RequestId, is_acknowledgement};
use super::endpoint::{address_of, endpoint_of};
use super::engine::Engine;
use super::socket_responses::SocketResponses;
use super::way::Way;
use crate::lock::lock;
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
    /// To POSTs, and to the sockets that have brought it.
    answer: oneshot::Sender<Option<Bytes>>,
    answered: Answered,
    sockets: Vec<Weak<SocketResponses>>,
}

/// The requests without an answer, each of which a port stands for.
#[derive(Default)]
pub(super) struct Exchanges {
    table: Mutex<Table>,
    /// Whether the thread that answers has ended.
    has_ended: watch::Sender<bool>,
}

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
    /// Begins with a request of a POST; `None` if there are too many.
    pub(super) fn begin(&self, id: RequestId) -> Option<Begun> {
        let mut table = self.lock();
        if let Some((_, exchange)) = table.served(&id) {
            return Some(Begun::Again(exchange.answered.clone()));
        }
        let port = table.free_port()?;
        let answered = table.insert(port, id).answered.clone();
        Some(Begun::New(port, answered))
    }

    /// Begins with a request of a socket, where its responses go; the port from which the instance gets it, also again: it then says that
    /// it has it. `None` if there are too many.
    pub(super) fn begin_on(&self, id: RequestId, socket: &Arc<SocketResponses>) -> Option<u16> {
        let mut table = self.lock();
        let served = table.served(&id).map(|(port, _)| port);
        let port = served.or_else(|| table.free_port())?;
        if !socket.begin(id, port) {
            return None;
        }
        let exchange = match served {
            Some(_) => table.by_port.get_mut(&port)?,
            None => table.insert(port, id),
        };
        exchange.sockets.retain(|known| known.strong_count() > 0);
        if !exchange
            .sockets
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(socket))
        {
            exchange.sockets.push(Arc::downgrade(socket));
        }
        Some(port)
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

    /// Tells the sockets of a request that it has arrived.
    fn acknowledge(&self, port: u16, datagram: &[u8]) {
        if let Some(exchange) = self.lock().by_port.get(&port) {
            for socket in exchange.sockets.iter().filter_map(Weak::upgrade) {
                socket.respond(Bytes::copy_from_slice(datagram));
            }
        }
    }

    /// Ends all requests with an error, and takes no more.
    pub(super) fn end(&self) {
        *self.lock() = Table::default();
        self.has_ended.send_replace(true);
    }

    /// Whether nothing is answered any more.
    pub(super) fn is_over(&self) -> bool {
        *self.has_ended.borrow()
    }

    /// Waits until nothing is answered any more.
    pub(super) async fn ended(&self) {
        // The sender is here.
        _ = self.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Table {
    /// Returns a port that no request has; `None` if there are too many.
    fn free_port(&mut self) -> Option<u16> {
        if self.by_port.len() >= MAX_EXCHANGES {
            return None;
        }
        // There are fewer requests than ports.
        loop {
            self.last_port = self.last_port % u16::MAX + 1;
            if !self.by_port.contains_key(&self.last_port) {
                return Some(self.last_port);
            }
        }
    }

    /// Returns the request whose call is carried out, with its port.
    fn served(&self, id: &RequestId) -> Option<(u16, &Exchange)> {
        let port = *self.by_id.get(id)?;
        let exchange = self.by_port.get(&port)?;
        exchange.call.is_some().then_some((port, exchange))
    }

    fn insert(&mut self, port: u16, id: RequestId) -> &mut Exchange {
        let (answer, answered) = oneshot::channel();
        self.by_id.entry(id).or_insert(port);
        self.by_port
            .entry(port)
            .insert_entry(Exchange {
                id,
                call: None,
                answer,
                answered: answered.shared(),
                sockets: Vec::new(),
            })
            .into_mut()
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
        for socket in exchange.sockets.iter().filter_map(Weak::upgrade) {
            if let Some(datagram) = &datagram {
                socket.respond(datagram.clone());
            }
            socket.end_request(&exchange.id, port);
        }
        // Nobody waits any more if the connections are gone.
        _ = exchange.answer.send(datagram);
    }
}

/// Carries the datagrams of a server in requests over HTTP and WebSocket.
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
        // A POST stays open until there is an answer.
        if is_acknowledgement(datagram) {
            self.exchanges.acknowledge(target.port(), datagram);
        } else {
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
        self.exchanges.end();
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
        exchanges.end();
        assert_eq!(outcome(answered), Some(Err(())));
    }
}
