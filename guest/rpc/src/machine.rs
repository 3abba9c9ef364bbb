//! Client, server and router behind the boundary.

use selfsame_codec::rpc::{self, ENDPOINT_BYTES, Input, Output};
use selfsame_codec::{BatchReader, BatchWriter, Code};

use crate::client::{Client, NewCall};
use crate::endpoint::Endpoint;
use crate::router::{Router, RouterConfig, Selection};
use crate::server::{Replay, Server, ServerConfig};
use crate::ticket::Grant;
use crate::transfer::MAX_MESSAGE_BYTES;

/// Smallest datagram that every path carries (RFC 8200, section 5: a packet of 1280 bytes, its headers and ours of a tunnel).
const MIN_DATAGRAM_BYTES: u32 = 512;
/// The largest: over streams the longest message fits one, with all that precedes it.
const MAX_DATAGRAM_BYTES: u32 = MAX_MESSAGE_BYTES as u32 + 1024;
/// Memory that is kept for the next batch.
const KEPT_BYTES: usize = 1 << 18;
/// The largest time: there is nothing to be woken for.
const NEVER: u64 = u64::MAX;

/// A client, a server or a router.
#[derive(Debug)]
pub struct Machine {
    role: Role,
    out: BatchWriter,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a host makes one of them, and there is one in a module's slot"
)]
enum Role {
    Client(Client),
    Server(Server),
    Router(Router),
}

impl Machine {
    /// What a configuration describes.
    ///
    /// # Errors
    /// [`Code::BadConfig`] when it describes none of them.
    pub fn new(config: &[u8]) -> Result<Self, Code> {
        let role = client(config)
            .or_else(|| server(config))
            .or_else(|| router(config));
        let role = role.ok_or(Code::BadConfig)?;
        Ok(Self {
            role,
            out: BatchWriter::new(),
        })
    }

    /// Takes the time, in microseconds since 1970, and a batch of inputs; the batch of outputs.
    pub fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.out.clear(KEPT_BYTES);
        let Some((now_us, items)) = batch.split_first_chunk() else {
            refused(0, Code::BadInput, &mut self.out);
            return self.out.as_bytes();
        };
        self.role.tick(u64::from_le_bytes(*now_us));
        let Ok(items) = BatchReader::new(items) else {
            refused(0, Code::BadInput, &mut self.out);
            return self.out.as_bytes();
        };
        for (at, item) in items.enumerate() {
            let taken = match Input::decode(item) {
                Ok(input) => self.role.take(input, &mut self.out),
                Err(_) => Err(Code::BadInput),
            };
            if let Err(code) = taken {
                refused(at as u32, code, &mut self.out);
            }
        }
        let unix_us = self.role.end_batch(&mut self.out).unwrap_or(NEVER);
        Output::Wake { unix_us }.encode(&mut self.out);
        self.out.as_bytes()
    }
}

impl Role {
    fn tick(&mut self, now_us: u64) {
        match self {
            Self::Client(client) => client.tick(now_us),
            Self::Server(server) => server.tick(now_us),
            Self::Router(router) => router.tick(now_us),
        }
    }

    fn take(&mut self, input: Input<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        match self {
            Self::Client(client) => take_as_client(client, input, out),
            Self::Server(server) => take_as_server(server, input, out),
            Self::Router(router) => take_as_router(router, input, out),
        }
    }

    /// Ends a batch; when the next is due at the latest.
    fn end_batch(&mut self, out: &mut BatchWriter) -> Option<u64> {
        match self {
            Self::Client(client) => {
                client.wake(out);
                client.end_batch(out);
                client.wake_at_us()
            }
            Self::Server(server) => {
                server.wake(out);
                server.end_batch(out);
                server.wake_at_us()
            }
            Self::Router(router) => {
                router.wake(out);
                router.wake_at_us()
            }
        }
    }
}

fn take_as_client(client: &mut Client, input: Input<'_>, out: &mut BatchWriter) -> Result<(), Code> {
    match input {
        Input::Datagram { source, bytes } => client.datagram(&Endpoint(source), bytes, out),
        Input::Call {
            call,
            service,
            target,
            options,
            timeout_ms,
            payload,
        } => {
            let new = NewCall {
                service,
                target: Endpoint(target),
                options,
                timeout_ms,
                payload,
            };
            client.call(call, new, out)?;
        }
        Input::Cancel { call } => client.cancel(call, out),
        Input::UseTicket { service, grant: [] } => client.use_ticket(service, None, out),
        Input::UseTicket { service, grant } => {
            let grant = Grant::decode(grant).map_err(|_| Code::BadInput)?;
            client.use_ticket(service, Some(grant), out);
        }
        _ => return Err(Code::BadInput),
    }
    Ok(())
}

fn take_as_server(server: &mut Server, input: Input<'_>, out: &mut BatchWriter) -> Result<(), Code> {
    match input {
        Input::Datagram { source, bytes } => server.datagram(&Endpoint(source), bytes, out),
        Input::Answer { call, payload } => server.answer(call, payload, out)?,
        Input::Refuse { call, code } => {
            let code = Code::from_u16(code).ok_or(Code::BadInput)?;
            server.refuse(call, code, out);
        }
        Input::IssueTicket {
            tag,
            caller,
            endpoint,
        } => {
            let grant = server.issue(&caller, &Endpoint(endpoint)).encode();
            Output::Issued {
                tag,
                grant: &grant[..],
            }
            .encode(out);
        }
        Input::SetTicketKeys { secrets } => server.set_ticket_secrets(secrets).ok_or(Code::BadInput)?,
        _ => return Err(Code::BadInput),
    }
    Ok(())
}

fn take_as_router(router: &mut Router, input: Input<'_>, out: &mut BatchWriter) -> Result<(), Code> {
    match input {
        Input::Datagram { source, bytes } => router.datagram(&Endpoint(source), bytes, out),
        Input::SetServers { endpoints } => {
            let (endpoints, []) = endpoints.as_chunks() else {
                return Err(Code::BadInput);
            };
            router.set_servers(endpoints.iter().map(|endpoint| Endpoint(*endpoint)), out);
        }
        _ => return Err(Code::BadInput),
    }
    Ok(())
}

fn client(config: &[u8]) -> Option<Role> {
    let config = rpc::ClientConfig::decode(config).ok()?;
    Some(Role::Client(Client::new(datagram_bytes(config.datagram_bytes)?)))
}

fn server(config: &[u8]) -> Option<Role> {
    let config = rpc::ServerConfig::decode(config).ok()?;
    Some(Role::Server(Server::new(&ServerConfig {
        network: config.network,
        service: config.service,
        ticket_secrets: config.ticket_secrets,
        router_secret: match config.router_secret {
            [] => None,
            secret => Some(secret.try_into().ok()?),
        },
        entropy: config.entropy,
        datagram_bytes: datagram_bytes(config.datagram_bytes)?,
        streams: config.streams,
        ticket_life_s: config.ticket_life_s,
        replay: if config.replay == 1 {
            Replay::Idempotent
        } else {
            Replay::Bound
        },
        not_before_ms: config.not_before_ms,
    })?))
}

fn router(config: &[u8]) -> Option<Role> {
    let config = rpc::RouterConfig::decode(config).ok()?;
    Some(Role::Router(Router::new(&RouterConfig {
        secret: config.secret,
        entropy: config.entropy,
        selection: match config.selection {
            0 => Selection::Random,
            1 => Selection::RoundRobin,
            2 => Selection::ShortestQueue,
            3 => Selection::Bounded(config.bound),
            4 => Selection::PowerOfTwo,
            5 => Selection::Probed,
            _ => return None,
        },
        redirects: config.redirects,
    })))
}

fn datagram_bytes(bytes: u32) -> Option<usize> {
    (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES)
        .contains(&bytes)
        .then_some(bytes as usize)
}

fn refused(input: u32, code: Code, out: &mut BatchWriter) {
    let code = code.as_u16();
    Output::Refused { input, code }.encode(out);
}

const _: () = assert!(ENDPOINT_BYTES == Endpoint::BYTES);
