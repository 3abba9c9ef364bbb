//! The server: opens requests, lets each be carried out at most once, and seals the answers.

use alloc::vec::Vec;

use selfsame_codec::BatchWriter;
use selfsame_sodium::random::Random;
use selfsame_sorted_map::Set;

use crate::endpoint::Endpoint;
use crate::forward::{FORWARD, Feedback, Forwarded, RouterKey, Tag, tag_of};
use crate::outbox::{DueAcknowledgements, send};
use crate::ticket::{Grant, TicketContent};
use crate::wire::Datagram;

mod session;

mod sessions;
use sessions::Sessions;

mod keys;
use keys::TicketKeys;

mod call;
use call::Calls;

mod request;

mod answer;

const RANDOM: &str = "selfsame/1 rpc server random";

/// When requests are carried out that no replica life is named in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Never: each is carried out once, by the replica that it is bound to, or not at all.
    Bound,
    /// At once if the caller declares the call idempotent: a copy may be carried out once by each other replica for some seconds.
    Idempotent,
}

/// What a server is made of.
#[derive(Clone, Copy)]
pub struct ServerConfig<'a> {
    /// Name of the network.
    pub network: &'a [u8],
    /// Name of the service.
    pub service: &'a [u8],
    /// Secrets that all replicas of the service share, 1 to 3: the first issues tickets.
    pub ticket_secrets: &'a [u8],
    /// The secret that its routers share, if it has some.
    pub router_secret: Option<[u8; 32]>,
    /// Fresh random bytes.
    pub entropy: [u8; 32],
    /// Largest datagram that it sends.
    pub datagram_bytes: usize,
    /// Whether datagrams come over streams, which prove where they come from.
    pub streams: bool,
    /// How long its tickets are good, in seconds.
    pub ticket_life_s: u32,
    /// When early data is carried out.
    pub replay: Replay,
    /// Of requests that were sent before, in milliseconds since 1970, an earlier life of this replica may have carried out some.
    pub not_before_ms: u64,
}

/// One replica of a service.
#[derive(Debug)]
pub struct Server {
    now_us: u64,
    network: Vec<u8>,
    service: Vec<u8>,
    datagram_bytes: usize,
    streams: bool,
    ticket_life_s: u32,
    replay: Replay,
    not_before_ms: u64,
    random: Random,
    keys: TicketKeys,
    router_key: Option<RouterKey>,
    sessions: Sessions,
    calls: Calls,
    /// Calls whose packets time out.
    timers: Set<(u64, u32)>,
    /// Calls of which packets of the request are to be acknowledged.
    due: DueAcknowledgements,
    /// How the request that is looked at came, if through a router.
    forwarded: Option<Forwarded>,
    /// Routers that wait for feedback, and the tags of their requests.
    feedback: Vec<(Endpoint, Tag)>,
    /// What was opened last, and what was sealed last; kept for their memory.
    opened: Vec<u8>,
    sealed: Vec<u8>,
}

impl Server {
    /// A replica that knows no client yet; `None` unless there are 1 to 3 ticket secrets.
    #[must_use]
    pub fn new(config: &ServerConfig<'_>) -> Option<Self> {
        Some(Self {
            now_us: 0,
            network: config.network.into(),
            service: config.service.into(),
            datagram_bytes: config.datagram_bytes,
            streams: config.streams,
            ticket_life_s: config.ticket_life_s,
            replay: config.replay,
            not_before_ms: config.not_before_ms,
            random: Random::new(RANDOM, &config.entropy),
            keys: TicketKeys::new(config.ticket_secrets, config.network, config.service)?,
            router_key: config.router_secret.as_ref().map(RouterKey::new),
            sessions: Sessions::default(),
            calls: Calls::default(),
            timers: Set::new(),
            due: DueAcknowledgements::default(),
            forwarded: None,
            feedback: Vec::new(),
            opened: Vec::new(),
            sealed: Vec::new(),
        })
    }

    /// Tells the time, in microseconds since 1970.
    pub fn tick(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// Replaces all ticket keys by those of 1 to 3 secrets; `None` if there are others.
    pub fn set_ticket_secrets(&mut self, secrets: &[u8]) -> Option<()> {
        self.keys = TicketKeys::new(secrets, &self.network, &self.service)?;
        Some(())
    }

    /// Issues a ticket to a peer that a session of the core has authenticated, at an endpoint.
    pub fn issue(&mut self, caller: &[u8; 32], endpoint: &Endpoint) -> Grant {
        let nonce = self.random.bytes();
        self.ticket(*caller, endpoint, &nonce)
    }

    /// Issues a ticket with a nonce.
    fn ticket(&self, caller: [u8; 32], endpoint: &Endpoint, nonce: &[u8; 24]) -> Grant {
        let key = self.keys.current();
        let issued_s = self.now_s();
        let content = TicketContent {
            caller,
            issued_s,
            expires_s: issued_s.saturating_add(self.ticket_life_s),
            address_tag: key.address_tag(endpoint),
        };
        key.issue(&content, nonce)
    }

    /// Takes a datagram; one that does not open is dropped.
    pub fn datagram(&mut self, source: &Endpoint, bytes: &[u8], out: &mut BatchWriter) {
        if bytes.first() == Some(&FORWARD) {
            let forward = self.router_key.as_ref().map(|key| key.read_forward(bytes));
            if let Some(Ok(forward)) = forward {
                self.forwarded = tag_of(forward.request).map(|tag| Forwarded {
                    router: *source,
                    tag,
                    server: forward.server,
                });
                self.direct(&forward.client, forward.request, out);
                // It was no new call, so that the router need not wait.
                let unused = self.forwarded.take();
                self.feedback
                    .extend(unused.map(|forwarded| (forwarded.router, forwarded.tag)));
            }
        } else {
            self.direct(source, bytes, out);
        }
    }

    /// Takes a request of a client.
    fn direct(&mut self, client: &Endpoint, bytes: &[u8], out: &mut BatchWriter) {
        if let Ok(Datagram::Request { head, sealed }) = Datagram::read(bytes) {
            self.request(client, &head, sealed, bytes.len(), out);
        }
    }

    /// Does what is due.
    pub fn wake(&mut self, out: &mut BatchWriter) {
        while let Some((at_us, number)) = self
            .timers
            .first()
            .copied()
            .filter(|(at_us, _)| *at_us <= self.now_us)
        {
            self.timers.remove(&(at_us, number));
            self.call_is_due(number, out);
        }
    }

    /// Returns when to wake it.
    #[must_use]
    pub fn wake_at_us(&self) -> Option<u64> {
        self.timers.first().map(|(at_us, _)| *at_us)
    }

    /// Ends a batch: acknowledges packets of requests that arrived in it.
    pub fn end_batch(&mut self, out: &mut BatchWriter) {
        for number in self.due.take() {
            self.acknowledge(number, out);
        }
        self.send_feedback(out);
    }

    /// Tells routers which of their requests are done with.
    fn send_feedback(&mut self, out: &mut BatchWriter) {
        let running = u16::try_from(self.calls.len()).unwrap_or(u16::MAX);
        let Some(key) = &self.router_key else { return };
        for (router, tag) in self.feedback.drain(..) {
            self.sealed.clear();
            key.write_feedback(Feedback { tag, running }, &mut self.sealed);
            send(&router, &self.sealed, out);
        }
    }

    /// Gives up a call whose time is over, or sends its packets.
    fn call_is_due(&mut self, number: u32, out: &mut BatchWriter) {
        match self.calls.get_mut(number) {
            Some(call) if call.deadline_us <= self.now_us => self.remove_call(number),
            Some(_) => self.send_packets(number, out),
            None => {}
        }
    }

    /// Ends a call.
    fn remove_call(&mut self, number: u32) {
        let Some(call) = self.calls.remove(number) else {
            return;
        };
        if let call::Stage::Upload(assembly) = &call.stage {
            self.sessions.release(&call.source, assembly.len());
        }
        let forwarded = call.forwarded.map(|forwarded| (forwarded.router, forwarded.tag));
        self.feedback.extend(forwarded);
        self.sessions.end_call(&call.source);
        if let Some(session) = self.sessions.get_mut(call.session) {
            session.calls.retain(|(counter, _)| *counter != call.counter);
        }
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.now_us / 1_000_000).unwrap_or(u32::MAX)
    }
}
