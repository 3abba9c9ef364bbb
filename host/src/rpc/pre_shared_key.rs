//! Tickets that a client issues to itself with the secret of a service.

use core::pin::Pin;
use std::collections::HashMap;

use selfsame_codec::rpc::{Input, Output, ServerConfig};
use selfsame_codec::{BatchReader, Code, Malformed};
use zeroize::Zeroizing;

use super::address::RpcAddress;
use super::endpoint::UNKNOWN;
use super::engine::Engine;
use super::network::network_bytes;
use super::socket::DATAGRAM_BYTES;
use super::ticket::{RpcKeys, RpcTicket, RpcTickets};
use crate::error::Error;
use crate::id::PeerId;
use crate::keys::{Seed, random_bytes};

/// How long a ticket is good, in seconds; servers renew it with their answers.
const TICKET_LIFE_S: u32 = 3600;

/// Tickets for services whose secrets a client has, without a mesh.
///
/// All who have the secret of a service are equally trusted: each of them can call as anybody, answer as the service, and open all
/// calls.
///
/// ```no_run
/// # async fn example(key: selfsame_host::Seed) -> Result<(), Box<dyn core::error::Error>> {
/// use selfsame_host::rpc::{PreSharedKey, RpcAddress, RpcClient, RpcOptions};
///
/// let tickets = PreSharedKey::new("twiitr")?.service("check", key, "192.0.2.1:7400".parse::<RpcAddress>()?);
/// let client = RpcClient::with_tickets(tickets);
/// let answer = client.call("check", b"ping", RpcOptions::new().idempotent()).await?;
/// # Ok(())
/// # }
/// ```
pub struct PreSharedKey {
    network: Vec<u8>,
    services: HashMap<String, (Seed, RpcAddress)>,
    caller: PeerId,
    allows_private: bool,
}

impl PreSharedKey {
    /// No services yet, in a network of this name. Servers are told that a random id is calling.
    ///
    /// # Errors
    /// [`Error::Input`] when the name is not usable, [`Error::Io`] when the system has no random bytes.
    pub fn new(network: &str) -> Result<Self, Error> {
        Ok(Self {
            network: network_bytes(network)?,
            services: HashMap::new(),
            caller: PeerId(random_bytes()?),
            allows_private: false,
        })
    }

    /// Adds a service: the key that its servers have as ticket key, and where a server or a router is.
    #[must_use]
    pub fn service(mut self, name: &str, key: Seed, address: impl Into<RpcAddress>) -> Self {
        self.services.insert(name.into(), (key, address.into()));
        self
    }

    /// The id that servers are told is calling. It proves nothing: whoever has the key can call as anybody.
    #[must_use]
    pub fn caller(mut self, id: PeerId) -> Self {
        self.caller = id;
        self
    }

    /// Whether servers and routers may be at private addresses, and lead there; they may not unless this says otherwise.
    #[must_use]
    pub fn allow_private(mut self, allows_private: bool) -> Self {
        self.allows_private = allows_private;
        self
    }

    /// Has a server of the module, which ends at once, issue a ticket. Each has a nonce of fresh random bytes, so that no two clients have
    /// the same.
    fn issue(&self, service: &str) -> Result<RpcTicket, Error> {
        let Some((key, address)) = self.services.get(service) else {
            let text = format!("there is no key of {service}: add the service to the pre-shared keys");
            return Err(Error::core(Code::NoProvider.as_u16(), &text));
        };
        let config = ServerConfig {
            network: &self.network,
            service: service.as_bytes(),
            ticket_secrets: key.bytes(),
            entropy: random_bytes()?,
            datagram_bytes: DATAGRAM_BYTES,
            streams: false,
            ticket_life_s: TICKET_LIFE_S,
            replay: 0,
            not_before_ms: 0,
            router_secret: &[],
        };
        let mut engine = Engine::new(config.encode())?;
        engine.give(&Input::IssueTicket {
            tag: 0,
            caller: self.caller.0,
            endpoint: UNKNOWN,
        });
        let outputs = Zeroizing::new(engine.step()?);
        let grant = issued(&outputs).map_err(|Malformed| Error::version_skew())?;
        Ok(RpcTicket {
            grant,
            addresses: vec![address.clone()],
            carries_http: None,
        })
    }
}

impl core::fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("PreSharedKey(..)")
    }
}

impl RpcTickets for PreSharedKey {
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        let issued = self.issue(service).map(RpcKeys::Ticket);
        Box::pin(async { issued })
    }

    fn allows_private(&self) -> bool {
        self.allows_private
    }
}

fn issued(outputs: &[u8]) -> Result<Zeroizing<Vec<u8>>, Malformed> {
    for item in BatchReader::new(outputs)? {
        if let Output::Issued { grant, .. } = Output::decode(item)? {
            return Ok(Zeroizing::new(grant.to_vec()));
        }
    }
    Err(Malformed)
}
