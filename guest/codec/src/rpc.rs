//! The boundary between `rpc.wasm` and its host: the same framing as a core's, other items.

use alloc::vec::Vec;

use crate::batch::items;
use crate::cbor::{Decoder, Encoder};
use crate::field::Malformed;

/// Version of the boundary, returned by the export `abi_version`; none of a core's.
pub const ABI_VERSION: u32 = 0x0002_0002;

/// Length of an endpoint: an IPv6 or IPv4-mapped address, and a big-endian port.
pub const ENDPOINT_BYTES: usize = 18;

/// Set in the options of a call that may be carried out again; the bits below it are the policy.
pub const IDEMPOTENT: u8 = 0b100;

items! {
    /// What a host tells an RPC module
    ///
    /// A batch begins with the time, in microseconds since 1970; one before the last counts as that.
    /// Numbers of calls, services and tags are of who begins them: the host's in a client, the module's in a server.
    pub enum Input {
        /// A datagram arrived.
        2 Datagram { source: [u8; ENDPOINT_BYTES], bytes: &'a [u8] }
        /// Call a service at an endpoint; answered by `Done` or `Failed`. Options: the policy, and [`IDEMPOTENT`].
        16 Call { call: u32, service: u32, target: [u8; ENDPOINT_BYTES], options: u8, timeout_ms: u32, payload: &'a [u8] }
        /// Give up a call: no answer follows, and its server is told.
        17 Cancel { call: u32 }
        /// Use a ticket for a service, as `Issued` gave it; empty when there is none to be had: calls that wait for one fail.
        18 UseTicket { service: u32, grant: &'a [u8] }
        /// Answer a call.
        32 Answer { call: u32, payload: &'a [u8] }
        /// Refuse a call that was not carried out.
        33 Refuse { call: u32, code: u16 }
        /// Issue a ticket to a peer that a core's session has authenticated, at an endpoint; answered by `Issued`.
        34 IssueTicket { tag: u32, caller: [u8; 32], endpoint: [u8; ENDPOINT_BYTES] }
        /// Replace all ticket keys by those of 1 to 3 secrets, 32 bytes each: each opens tickets, and the first issues them. Secret.
        35 SetTicketKeys { secrets: &'a [u8] }
        /// Route to these servers from now on, 18 bytes each.
        48 SetServers { endpoints: &'a [u8] }
    }
}

items! {
    /// What an RPC module asks of its host
    pub enum Output {
        /// Send a datagram.
        1 Send { target: [u8; ENDPOINT_BYTES], bytes: &'a [u8] }
        /// The last item of a batch: step it again by this time; the largest number is never.
        2 Wake { unix_us: u64 }
        /// A call was answered, by the server at an endpoint.
        16 Done { call: u32, source: [u8; ENDPOINT_BYTES], payload: &'a [u8] }
        /// A call failed.
        17 Failed { call: u32, code: u16 }
        /// Calls of a service wait for a ticket; answered by `UseTicket`.
        18 TicketWanted { service: u32 }
        /// Carry out a call: of which peer, from which endpoint, with which options, and how long the caller waits.
        32 Serve { call: u32, caller: [u8; 32], source: [u8; ENDPOINT_BYTES], options: u8, timeout_ms: u32, payload: &'a [u8] }
        /// The caller has given a call up; an answer to it is not sent.
        33 Cancelled { call: u32 }
        /// A ticket with its secret, for a session of the core. Secret.
        34 Issued { tag: u32, grant: &'a [u8] }
        /// An input of this batch was refused; `input` is its position.
        35 Refused { input: u32, code: u16 }
    }
}

/// What `create` of an RPC module is given to make a client
///
/// ```cddl
/// config = [version: 1, client: 1, datagram: uint]
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Largest datagram that it sends.
    pub datagram_bytes: u32,
}

/// What `create` of an RPC module is given to make a server
///
/// ```cddl
/// config = [version: 1, server: 2, network: bytes, service: bytes, secrets: bytes .size (32..96), entropy: bytes .size 32,
///           datagram: uint, streams: bool, life: uint, replay: uint, not-before: uint, router: bytes]
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServerConfig<'a> {
    /// Name of the network.
    pub network: &'a [u8],
    /// The service.
    pub service: &'a [u8],
    /// Secrets that its replicas share, 1 to 3 of 32 bytes, as `SetTicketKeys` has them. Secret.
    pub ticket_secrets: &'a [u8],
    /// Fresh random bytes. Secret.
    pub entropy: [u8; 32],
    /// Largest datagram that it sends.
    pub datagram_bytes: u32,
    /// Whether datagrams come over streams, which prove where they come from.
    pub streams: bool,
    /// Seconds for which its tickets are good.
    pub ticket_life_s: u32,
    /// 0: each call is bound to one replica and carried out once. 1: calls that are declared idempotent are carried out at once.
    pub replay: u8,
    /// Of requests that were sent before (milliseconds since 1970), an earlier life of this replica may have carried out some.
    pub not_before_ms: u64,
    /// The secret that its routers share, 32 bytes or none. Secret.
    pub router_secret: &'a [u8],
}

/// What `create` of an RPC module is given to make a router
///
/// ```cddl
/// config = [version: 1, router: 3, secret: bytes .size 32, entropy: bytes .size 32, selection: uint, bound: uint, redirects: bool]
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RouterConfig {
    /// The secret that routers and replicas of the service share. Secret.
    pub secret: [u8; 32],
    /// Fresh random bytes. Secret.
    pub entropy: [u8; 32],
    /// 0 random, 1 round robin, 2 shortest queue, 3 the same with a bound, 4 the better of two, 5 the better of three by what they say.
    pub selection: u8,
    /// Most requests at a server, with a bound.
    pub bound: u16,
    /// Whether clients are told where to go, in place of passing their requests on.
    pub redirects: bool,
}

const VERSION: u64 = 1;
const CLIENT: u64 = 1;
const SERVER: u64 = 2;
const ROUTER: u64 = 3;
/// Longest name of a network and of a service.
const MAX_NAME_BYTES: usize = 63;
/// The secrets of the current, the next and the previous ticket key.
const MAX_SECRETS_BYTES: usize = 3 * 32;

impl ClientConfig {
    /// The encoding that `create` takes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(3)
            .uint(VERSION)
            .uint(CLIENT)
            .uint(u64::from(self.datagram_bytes));
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of a client of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(3)?;
        if decoder.uint()? != VERSION || decoder.uint()? != CLIENT {
            return Err(Malformed);
        }
        let config = Self {
            datagram_bytes: decoder.u32()?,
        };
        decoder.finish()?;
        Ok(config)
    }
}

impl<'a> ServerConfig<'a> {
    /// The encoding that `create` takes. Secret.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(12)
            .uint(VERSION)
            .uint(SERVER)
            .bytes(self.network)
            .bytes(self.service)
            .bytes(self.ticket_secrets)
            .bytes(&self.entropy)
            .uint(u64::from(self.datagram_bytes))
            .bool(self.streams)
            .uint(u64::from(self.ticket_life_s))
            .uint(u64::from(self.replay))
            .uint(self.not_before_ms)
            .bytes(self.router_secret);
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of a server of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(12)?;
        if decoder.uint()? != VERSION || decoder.uint()? != SERVER {
            return Err(Malformed);
        }
        let config = Self {
            network: decoder.bytes(MAX_NAME_BYTES)?,
            service: decoder.bytes(MAX_NAME_BYTES)?,
            ticket_secrets: decoder.bytes(MAX_SECRETS_BYTES)?,
            entropy: decoder.fixed()?,
            datagram_bytes: decoder.u32()?,
            streams: decoder.bool()?,
            ticket_life_s: decoder.u32()?,
            replay: decoder.uint_max(1)? as u8,
            not_before_ms: decoder.uint()?,
            router_secret: decoder.bytes(32)?,
        };
        decoder.finish()?;
        Ok(config)
    }
}

impl RouterConfig {
    /// The encoding that `create` takes. Secret.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(7)
            .uint(VERSION)
            .uint(ROUTER)
            .bytes(&self.secret)
            .bytes(&self.entropy)
            .uint(u64::from(self.selection))
            .uint(u64::from(self.bound))
            .bool(self.redirects);
        out
    }

    /// Reads what `create` was given.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no configuration of a router of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(7)?;
        if decoder.uint()? != VERSION || decoder.uint()? != ROUTER {
            return Err(Malformed);
        }
        let config = Self {
            secret: decoder.fixed()?,
            entropy: decoder.fixed()?,
            selection: decoder.uint_max(u64::from(u8::MAX))? as u8,
            bound: decoder.uint_max(u64::from(u16::MAX))? as u16,
            redirects: decoder.bool()?,
        };
        decoder.finish()?;
        Ok(config)
    }
}

/// Says nothing of the secrets
impl core::fmt::Debug for RouterConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RouterConfig")
            .field("selection", &self.selection)
            .field("bound", &self.bound)
            .field("redirects", &self.redirects)
            .finish_non_exhaustive()
    }
}

/// Says nothing of the secrets
impl core::fmt::Debug for ServerConfig<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("datagram_bytes", &self.datagram_bytes)
            .field("streams", &self.streams)
            .field("ticket_life_s", &self.ticket_life_s)
            .field("replay", &self.replay)
            .field("not_before_ms", &self.not_before_ms)
            .finish_non_exhaustive()
    }
}
