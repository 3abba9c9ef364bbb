//! The router: picks the server of a request, which then answers the client directly (R2P2, target selection apart from data).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::{BatchWriter, Code};
use selfsame_sodium::random::Random;

use crate::endpoint::Endpoint;
use crate::forward::{FEEDBACK, FORWARD_BYTES, Forward, RouterKey, Tag, tag_of};
use crate::outbox::send;
use crate::wire::{
    Credential, Datagram, Policy, RequestHead, ticket_nonce, write_redirect, write_router_drop,
};

mod pool;
use pool::Pool;
pub use pool::Selection;

const RANDOM: &str = "selfsame/1 rpc router random";

/// How long a request counts against its server without feedback.
const LEASE_US: u64 = 1_000_000;
/// Requests that wait for a server: of all sources, and of one.
const MAX_QUEUED: usize = 4096;
const MAX_QUEUED_OF_SOURCE: usize = 512;

/// What a router is made of.
#[derive(Clone, Copy)]
pub struct RouterConfig {
    /// The secret that routers and replicas of the service share.
    pub secret: [u8; 32],
    /// Fresh random bytes.
    pub entropy: [u8; 32],
    /// How servers are chosen.
    pub selection: Selection,
    /// Tells clients where to go in place of passing requests on: answers from an address that a client has not written to do not pass
    /// its NAT.
    pub redirects: bool,
}

/// A router of one service.
#[derive(Debug)]
pub struct Router {
    now_us: u64,
    key: RouterKey,
    random: Random,
    redirects: bool,
    pool: Pool,
    queue: VecDeque<Queued>,
    passed_on: Vec<u8>,
}

/// A request that waits for a server.
#[derive(Debug)]
struct Queued {
    client: Endpoint,
    tag: Tag,
    request: Vec<u8>,
}

impl Router {
    /// A router that knows no server yet.
    #[must_use]
    pub fn new(config: &RouterConfig) -> Self {
        Self {
            now_us: 0,
            key: RouterKey::new(&config.secret),
            random: Random::new(RANDOM, &config.entropy),
            redirects: config.redirects,
            pool: Pool::new(config.selection),
            queue: VecDeque::new(),
            passed_on: Vec::new(),
        }
    }

    /// Tells the time, in microseconds since 1970.
    pub fn tick(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// Replaces the servers.
    pub fn set_servers(&mut self, servers: impl Iterator<Item = Endpoint>, out: &mut BatchWriter) {
        self.pool.set(servers);
        self.dispatch(out);
    }

    /// Takes a datagram: a request of a client or feedback of a server; another one is dropped.
    pub fn datagram(&mut self, source: &Endpoint, bytes: &[u8], out: &mut BatchWriter) {
        if bytes.first() == Some(&FEEDBACK) {
            if let Ok(feedback) = self.key.read_feedback(bytes)
                && self.pool.end(source, &feedback.tag, feedback.running)
            {
                self.dispatch(out);
            }
        } else if let Ok(Datagram::Request { head, .. }) = Datagram::read(bytes) {
            self.request(source, &head, bytes, out);
        }
    }

    /// Does what is due.
    pub fn wake(&mut self, out: &mut BatchWriter) {
        self.pool.expire(self.now_us);
        self.dispatch(out);
    }

    /// Returns when to wake it.
    #[must_use]
    pub fn wake_at_us(&self) -> Option<u64> {
        self.pool.expires_at_us()
    }

    fn request(&mut self, client: &Endpoint, head: &RequestHead<'_>, bytes: &[u8], out: &mut BatchWriter) {
        let Some(tag) = tag_of(bytes) else { return };
        if self.pool.is_empty() {
            return drop_request(client, head, tag, Code::NoProvider, out);
        }
        // One that comes again goes to the same server, which knows whether it has carried it out.
        if let Some(server) = self.pool.holder(&tag) {
            return self.send(client, head, bytes, server, out);
        }
        match head.flags.policy() {
            Policy::Replicated => {
                let servers: Vec<Endpoint> = self.pool.endpoints().collect();
                for server in servers {
                    self.pass_on(client, bytes, server, out);
                }
            }
            Policy::Fixed => {
                if let Some(at) = self.pool.fixed(session_number(head)) {
                    self.give(at, client, head, bytes, out);
                }
            }
            Policy::LoadBalance | Policy::ReplicatedRead => match self.pool.choose(&mut self.random) {
                Some(at) => self.give(at, client, head, bytes, out),
                None => self.enqueue(client, head, tag, bytes, out),
            },
        }
    }

    /// Lets a request wait until a server has room for it.
    fn enqueue(
        &mut self,
        client: &Endpoint,
        head: &RequestHead<'_>,
        tag: Tag,
        bytes: &[u8],
        out: &mut BatchWriter,
    ) {
        if self.queue.iter().any(|queued| queued.tag == tag) {
            return;
        }
        let source = client.prefix();
        let of_source = self
            .queue
            .iter()
            .filter(|queued| queued.client.prefix() == source);
        if self.queue.len() >= MAX_QUEUED || of_source.count() >= MAX_QUEUED_OF_SOURCE {
            return drop_request(client, head, tag, Code::TooManyRequests, out);
        }
        self.queue.push_back(Queued {
            client: *client,
            tag,
            request: bytes.to_vec(),
        });
    }

    /// Forwards requests that wait, as far as servers have room.
    fn dispatch(&mut self, out: &mut BatchWriter) {
        while !self.queue.is_empty()
            && let Some(at) = self.pool.choose(&mut self.random)
            && let Some(Queued { client, request, .. }) = self.queue.pop_front()
        {
            if let Ok(Datagram::Request { head, .. }) = Datagram::read(&request) {
                self.give(at, &client, &head, &request, out);
            }
        }
    }

    /// Gives a request to a server, which is to say when it is done with it.
    fn give(
        &mut self,
        at: usize,
        client: &Endpoint,
        head: &RequestHead<'_>,
        bytes: &[u8],
        out: &mut BatchWriter,
    ) {
        // Nobody tells a router of requests that it did not pass on.
        let until_us = if self.redirects {
            self.now_us
        } else {
            self.now_us + LEASE_US
        };
        let server = self.pool.begin(at, tag_of(bytes).unwrap_or_default(), until_us);
        self.send(client, head, bytes, server, out);
    }

    /// Passes a request on, or tells its client where to go.
    fn send(
        &mut self,
        client: &Endpoint,
        head: &RequestHead<'_>,
        bytes: &[u8],
        server: Endpoint,
        out: &mut BatchWriter,
    ) {
        if !self.redirects {
            return self.pass_on(client, bytes, server, out);
        }
        self.passed_on.clear();
        let tag = tag_of(bytes).unwrap_or_default();
        write_redirect(head, &tag, &server, &mut self.passed_on);
        send(client, &self.passed_on, out);
    }

    fn pass_on(&mut self, client: &Endpoint, request: &[u8], server: Endpoint, out: &mut BatchWriter) {
        self.passed_on.clear();
        self.passed_on.reserve(FORWARD_BYTES + request.len());
        let forward = Forward {
            client: *client,
            server,
            request,
        };
        self.key.write_forward(forward, &mut self.passed_on);
        send(&server, &self.passed_on, out);
    }
}

/// Returns a number that all requests of a session have.
fn session_number(head: &RequestHead<'_>) -> u64 {
    match head.credential {
        Credential::Ticket(ticket) => crate::keys::session_of(&ticket_nonce(ticket)),
        Credential::Session(session) => session,
    }
}

/// Tells a client that its request is not passed on.
fn drop_request(client: &Endpoint, head: &RequestHead<'_>, tag: Tag, code: Code, out: &mut BatchWriter) {
    let mut datagram = Vec::new();
    write_router_drop(head, &tag, code.as_u16(), &mut datagram);
    send(client, &datagram, out);
}
