//! A router: picks the server of each request, which then answers the client directly.

use core::net::SocketAddr;

use selfsame_codec::Malformed;
use selfsame_codec::rpc::{ENDPOINT_BYTES, Input, Output, RouterConfig};

use super::endpoint::endpoint_of;
use super::engine::Engine;
use super::socket::Socket;
use super::thread::{Role, RpcThread};
use crate::error::Error;
use crate::keys::{Seed, random_bytes};

/// Requests at a server while others wait: enough to keep it busy on a network whose round trips are shorter than the calls.
const BOUND: u16 = 3;

/// How a router picks a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RpcSelection {
    /// Any.
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests.
    ShortestQueue,
    /// The same, with at most so many; others wait at the router (JBSQ).
    Bounded(u16),
    /// The better of two that are drawn.
    PowerOfTwo,
    /// Of three that are drawn the one that said last that it carries out the fewest calls.
    Probed,
}

impl Default for RpcSelection {
    /// Bounded by 3.
    fn default() -> Self {
        Self::Bounded(BOUND)
    }
}

impl RpcSelection {
    /// Returns the number on the boundary, and the bound.
    fn encoded(self) -> (u8, u16) {
        match self {
            Self::Random => (0, 0),
            Self::RoundRobin => (1, 0),
            Self::ShortestQueue => (2, 0),
            Self::Bounded(bound) => (3, bound),
            Self::PowerOfTwo => (4, 0),
            Self::Probed => (5, 0),
        }
    }
}

/// What a router is made of.
#[derive(Clone)]
pub struct RpcRouterBuilder {
    key: Seed,
    selection: RpcSelection,
    redirects: bool,
}

impl RpcRouterBuilder {
    /// How it picks a server; [`RpcSelection::default`] unless this says otherwise.
    #[must_use]
    pub fn selection(mut self, selection: RpcSelection) -> Self {
        self.selection = selection;
        self
    }

    /// Tells clients which server to send their requests to, in place of passing them on: where answers from a server that a client has
    /// not written to do not reach it, such as behind a NAT.
    #[must_use]
    pub fn redirects(mut self) -> Self {
        self.redirects = true;
        self
    }

    /// Binds the address and routes requests to servers until it is dropped.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be bound.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(self, address: SocketAddr, servers: &[SocketAddr]) -> Result<RpcRouter, Error> {
        let failed = |error| Error::io(address, error);
        let (selection, bound) = self.selection.encoded();
        let config = RouterConfig {
            secret: *self.key.bytes(),
            entropy: random_bytes()?,
            selection,
            bound,
            redirects: self.redirects,
        };
        let socket = Socket::bind(address).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let mut engine = Engine::new(config.encode())?;
        RouterRole.take(RouterOrder::to(servers), &mut engine);
        let thread = RpcThread::start(socket, engine, |_| RouterRole);
        Ok(RpcRouter {
            address: local,
            thread: thread.map_err(failed)?,
        })
    }
}

/// A router of one service; ends when it is dropped.
#[derive(Debug)]
pub struct RpcRouter {
    address: SocketAddr,
    thread: RpcThread<RouterOrder>,
}

impl RpcRouter {
    /// A router of a service; it and the servers share the key.
    #[must_use]
    pub fn builder(key: Seed) -> RpcRouterBuilder {
        RpcRouterBuilder {
            key,
            selection: RpcSelection::default(),
            redirects: false,
        }
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the servers; their addresses are where clients reach them, too.
    pub fn set_servers(&self, servers: &[SocketAddr]) {
        self.thread.sender().send(RouterOrder::to(servers));
    }
}

/// Endpoints of servers, one after the other.
pub(super) struct RouterOrder(Vec<u8>);

impl RouterOrder {
    fn to(servers: &[SocketAddr]) -> Self {
        Self(servers.iter().copied().flat_map(endpoint_of).collect())
    }
}

struct RouterRole;

impl Role for RouterRole {
    type Order = RouterOrder;

    fn take(&mut self, RouterOrder(endpoints): RouterOrder, engine: &mut Engine) {
        debug_assert!(endpoints.len().is_multiple_of(ENDPOINT_BYTES));
        engine.give(&Input::SetServers {
            endpoints: &endpoints,
        });
    }

    fn follow(&mut self, _: &Output<'_>, _: &mut Engine) -> Result<(), Malformed> {
        // It sends datagrams, and nothing else.
        Err(Malformed)
    }
}
