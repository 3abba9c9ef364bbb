//! A client of any number of services.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use bytes::Bytes;
use selfsame_codec::Code;
use selfsame_codec::rpc::IDEMPOTENT;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use zeroize::Zeroizing;

use super::address::RpcAddress;
use super::calling::{ClientOrder, NewCall};
use super::engine::MAX_MESSAGE_BYTES;
use super::first_calls::FirstCalls;
use super::lines::{Lines, RequestTicket};
use super::session_call::{SessionCall, SessionOutcome, too_large};
use super::thread::OrderSender;
use super::ticket::{RpcKeys, RpcTicket, RpcTickets};
use crate::error::Error;
use crate::lock::lock;

/// How long a call may take unless its options say otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How a call is made.
#[derive(Clone, Debug)]
pub struct RpcOptions {
    timeout: Duration,
    is_idempotent: bool,
    server: Option<RpcAddress>,
    names_replica: bool,
    is_forward_secret: bool,
}

impl Default for RpcOptions {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT,
            is_idempotent: false,
            server: None,
            names_replica: false,
            is_forward_secret: false,
        }
    }
}

impl RpcOptions {
    /// A call that is carried out at most once, within 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Carrying it out twice does no harm: it needs no round trip before.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// Lets the call travel in a session of the mesh, whose keys are agreed by Diffie-Hellman, although the service issues tickets: who
    /// captures a replica later cannot open it.
    #[must_use]
    pub fn forward_secret(mut self) -> Self {
        self.is_forward_secret = true;
        self
    }

    /// How long to wait for the answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    #[cfg(feature = "procedures")]
    pub(super) fn longest(&self) -> Duration {
        self.timeout
    }

    /// The server to call, in place of the one that the ticket came from: any replica of the service opens it.
    #[must_use]
    pub fn server(mut self, address: impl Into<RpcAddress>) -> Self {
        self.server = Some(address.into());
        self
    }

    /// Has the answer name the replica that gave it, for calls that must go there, too: a client without a ticket then asks for one first.
    /// In a session an answer names the service alone.
    #[must_use]
    pub fn names_replica(mut self) -> Self {
        self.names_replica = true;
        self
    }
}

/// An answer, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcAnswer {
    /// The answer.
    pub payload: Vec<u8>,
    /// The server that carried the call out; in a session of the mesh a provider of `https://NAME.mesh`.
    pub server: RpcAddress,
}

/// Calls services; cheap to clone.
#[derive(Clone)]
pub struct RpcClient {
    shared: Arc<Shared>,
}

struct Shared {
    lines: Lines,
    services: Arc<Services>,
    first_calls: FirstCalls,
    last_call: Mutex<u32>,
}

/// The services by name, and where their tickets come from.
struct Services {
    tickets: Box<dyn RpcTickets>,
    by_name: Mutex<HashMap<String, Arc<ServiceEntry>>>,
    by_number: Mutex<Vec<Arc<ServiceEntry>>>,
}

/// A service that was called before.
struct ServiceEntry {
    name: String,
    number: u32,
    /// When the first call began that brings its ticket.
    bringing_since: Mutex<Option<Instant>>,
    /// Whether its ticket says that it carries no HTTP.
    lacks_http: AtomicBool,
    /// Where it is called, as it said last.
    place: tokio::sync::Mutex<Option<Place>>,
}

/// What a service says of its calls
enum PlacedKeys {
    /// They are sealed with a ticket, at this address.
    Ticket(RpcAddress, RpcTicket),
    /// They travel in sessions of the mesh alone.
    Session,
}

/// Where a service is called
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Server(RpcAddress),
    /// In sessions of the mesh alone.
    Session,
}

impl RpcClient {
    /// A client with tickets from the mesh.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn new(node: crate::Node) -> Self {
        Self::with_tickets(node)
    }

    /// A client with tickets from elsewhere.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn with_tickets(tickets: impl RpcTickets) -> Self {
        let services = Arc::new(Services {
            tickets: Box::new(tickets),
            by_name: Mutex::default(),
            by_number: Mutex::default(),
        });
        let renewing = Arc::clone(&services);
        let request_ticket: RequestTicket = Arc::new(move |number, sender| {
            let services = Arc::clone(&renewing);
            tokio::spawn(async move {
                let grant = services.grant(number).await;
                sender.send(ClientOrder::UseTicket(number, grant));
            });
        });
        let lines = Lines::new(services.tickets.allows_private(), request_ticket);
        Self {
            shared: Arc::new(Shared {
                lines,
                services,
                first_calls: FirstCalls::default(),
                last_call: Mutex::new(0),
            }),
        }
    }

    /// Calls a service by name. A future that is dropped gives the call up.
    ///
    /// # Errors
    /// [`Error::Core`]: `OutcomeUnknown` when a call that is not idempotent may have been carried out; what servers refuse; `TimedOut`;
    /// and why there is no ticket. [`Error::Io`] when there is no socket to be had.
    pub async fn call(&self, service: &str, payload: &[u8], options: RpcOptions) -> Result<RpcAnswer, Error> {
        if payload.len() > MAX_MESSAGE_BYTES {
            return Err(too_large());
        }
        let services = &self.shared.services;
        let deadline = Instant::now() + options.timeout;
        let entry = services.of(service);
        let session_call = || SessionCall {
            service: service.into(),
            payload: Bytes::copy_from_slice(payload),
            is_idempotent: options.is_idempotent,
            deadline,
            takes_ticket: false,
        };
        let place = match (&options.server, options.is_forward_secret) {
            (Some(_), true) => {
                let text =
                    "a call that is forward secret goes to a provider in the mesh: leave out the server";
                return Err(Error::Input(text.into()));
            }
            (Some(server), false) => Place::Server(server.clone()),
            (None, true) => Place::Session,
            (None, false) => {
                if !options.names_replica
                    && let Some(outcome) = self.first_call(&entry, session_call()).await
                {
                    return outcome;
                }
                self.place_of(&entry, deadline).await?
            }
        };
        let outcome = match &place {
            Place::Server(server) => {
                self.call_at(&entry, server, payload, deadline, options.is_idempotent)
                    .await
            }
            Place::Session => services.call_in_session(session_call()).await,
        };
        let Err(error) = &outcome else { return outcome };
        if options.server.is_some() {
            return outcome;
        }
        if place != Place::Session && error.code() == Some(Code::NoProvider) && entry.is_in_session().await {
            // It waited for a ticket of a service that gives out none any more.
            return services.call_in_session(session_call()).await;
        }
        if is_lost(error) {
            // The next call asks where the service is now.
            entry.place.lock().await.take_if(|known| *known == place);
        }
        outcome
    }

    /// Calls a server with a ticket.
    async fn call_at(
        &self,
        entry: &ServiceEntry,
        server: &RpcAddress,
        payload: &[u8],
        deadline: Instant,
        is_idempotent: bool,
    ) -> Result<RpcAnswer, Error> {
        let Shared { lines, services, .. } = &*self.shared;
        server.check_permitted(services.tickets.allows_private())?;
        let (sender, target) = lines.way_to(server)?;
        let (answer, answered) = oneshot::channel();
        let call = self.next_call();
        let left = deadline.saturating_duration_since(Instant::now());
        sender.send(ClientOrder::Call(NewCall {
            call,
            service: entry.number,
            target,
            options: if is_idempotent { IDEMPOTENT } else { 0 },
            timeout_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX),
            payload: payload.to_vec(),
            answer,
        }));
        let mut giving_up = GivingUp {
            sender: &sender,
            call: Some(call),
        };
        let outcome = answered.await;
        giving_up.call = None;
        // The thread has ended.
        outcome.unwrap_or_else(|_| Err(Error::from_code(Code::Disconnected)))
    }

    /// Makes a call of a service whose ticket the client does not have, in a session; one of them brings the ticket. Returns nothing if
    /// the service is to be asked for a ticket first.
    async fn first_call(&self, entry: &ServiceEntry, call: SessionCall) -> Option<Result<RpcAnswer, Error>> {
        let tickets = &self.shared.services.tickets;
        if !tickets.has_sessions() || !entry.is_unknown() {
            return None;
        }
        let first = self.shared.first_calls.begin(&entry.bringing_since)?;
        let call = SessionCall {
            takes_ticket: first.takes_ticket,
            ..call
        };
        match tickets.call_in_session(call).await {
            Ok(SessionOutcome::Answered { payload, keys }) => {
                if let Some(keys) = keys {
                    self.keep(entry, keys);
                }
                Some(answer_of(&entry.name, payload))
            }
            Ok(SessionOutcome::NotTaken(_)) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Keeps what came with an answer, unless a ticket came first or is asked for. Calls go on in sessions if its server cannot be reached.
    fn keep(&self, entry: &ServiceEntry, keys: RpcKeys) {
        let Ok(mut place) = entry.place.try_lock() else {
            return;
        };
        if place.is_some() {
            return;
        }
        let used = match self.shared.services.placed(keys) {
            Ok(placed) => self.use_keys(entry, placed),
            Err(error) => {
                tracing::warn!(%error, service = entry.name, "calls go on in sessions of the mesh");
                Place::Session
            }
        };
        *place = Some(used);
    }

    /// Returns where a service is called: as its first ticket says, which one of the calls that wait for it asks for.
    async fn place_of(&self, entry: &ServiceEntry, deadline: Instant) -> Result<Place, Error> {
        let services = &self.shared.services;
        let asking = async {
            let mut place = entry.place.lock().await;
            if let Some(known) = &*place {
                return Ok(known.clone());
            }
            let placed = services.keys(&entry.name).await?;
            Ok(place.insert(self.use_keys(entry, placed)).clone())
        };
        let late = |_| {
            Err(Error::core(
                Code::TimedOut.as_u16(),
                "there was no ticket in time",
            ))
        };
        timeout_at(deadline.into(), asking).await.unwrap_or_else(late)
    }

    /// Whether a service has tickets that are for HTTP, or may be.
    #[cfg(feature = "procedures")]
    pub(super) async fn carries_http(
        &self,
        service: &str,
        deadline: tokio::time::Instant,
    ) -> Result<bool, Error> {
        let entry = self.shared.services.of(service);
        let place = self.place_of(&entry, deadline.into_std()).await?;
        Ok(place != Place::Session && !entry.lacks_http.load(Ordering::Relaxed))
    }

    fn use_keys(&self, entry: &ServiceEntry, placed: PlacedKeys) -> Place {
        match placed {
            PlacedKeys::Ticket(address, ticket) => {
                entry
                    .lacks_http
                    .store(ticket.carries_http == Some(false), Ordering::Relaxed);
                let lines = &self.shared.lines;
                lines.use_ticket(&address, entry.number, ticket.grant);
                Place::Server(address)
            }
            PlacedKeys::Session => Place::Session,
        }
    }

    fn next_call(&self) -> u32 {
        let mut last = lock(&self.shared.last_call);
        *last = last.wrapping_add(1);
        *last
    }
}

impl core::fmt::Debug for RpcClient {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RpcClient(..)")
    }
}

impl Services {
    fn of(&self, name: &str) -> Arc<ServiceEntry> {
        let mut by_name = lock(&self.by_name);
        if let Some(entry) = by_name.get(name) {
            return Arc::clone(entry);
        }
        let mut by_number = lock(&self.by_number);
        let entry = Arc::new(ServiceEntry {
            name: name.into(),
            number: by_number.len() as u32,
            bringing_since: Mutex::default(),
            lacks_http: AtomicBool::new(false),
            place: tokio::sync::Mutex::default(),
        });
        by_number.push(Arc::clone(&entry));
        by_name.insert(name.into(), Arc::clone(&entry));
        entry
    }

    /// Calls a service in a session of the mesh.
    async fn call_in_session(&self, call: SessionCall) -> Result<RpcAnswer, Error> {
        let service = call.service.clone();
        match self.tickets.call_in_session(call).await? {
            SessionOutcome::Answered { payload, .. } => answer_of(&service, payload),
            SessionOutcome::NotTaken(error) => Err(error),
        }
    }

    /// Asks for the keys of a service's calls.
    async fn keys(&self, name: &str) -> Result<PlacedKeys, Error> {
        self.placed(self.tickets.ticket(name).await?)
    }

    /// Returns the keys of a service's calls, and where a new ticket is used.
    fn placed(&self, keys: RpcKeys) -> Result<PlacedKeys, Error> {
        let RpcKeys::Ticket(ticket) = keys else {
            return Ok(PlacedKeys::Session);
        };
        let address = ticket.usable_address(self.tickets.allows_private())?.clone();
        Ok(PlacedKeys::Ticket(address, ticket))
    }

    /// Returns a new ticket for a service, or nothing.
    async fn grant(&self, number: u32) -> Zeroizing<Vec<u8>> {
        let entry = Arc::clone(&lock(&self.by_number)[number as usize]);
        match self.keys(&entry.name).await {
            Ok(PlacedKeys::Ticket(address, ticket)) => {
                *entry.place.lock().await = Some(Place::Server(address));
                ticket.grant
            }
            Ok(PlacedKeys::Session) => {
                *entry.place.lock().await = Some(Place::Session);
                Zeroizing::default()
            }
            Err(error) => {
                tracing::warn!(%error, service = entry.name, "there is no ticket to be had");
                Zeroizing::default()
            }
        }
    }
}

/// Returns the answer of a call in a session.
fn answer_of(service: &str, payload: Vec<u8>) -> Result<RpcAnswer, Error> {
    let server = format!("https://{service}.mesh").parse()?;
    Ok(RpcAnswer { payload, server })
}

impl ServiceEntry {
    /// Whether nobody has said where it is called, and nobody asks.
    fn is_unknown(&self) -> bool {
        self.place.try_lock().is_ok_and(|place| place.is_none())
    }

    async fn is_in_session(&self) -> bool {
        *self.place.lock().await == Some(Place::Session)
    }
}

/// Whether the server that was called may be gone.
fn is_lost(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(Code::TimedOut | Code::OutcomeUnknown | Code::NoService | Code::ForbiddenAddress)
    )
}

/// Gives a call up when its future is dropped.
struct GivingUp<'a> {
    sender: &'a OrderSender<ClientOrder>,
    call: Option<u32>,
}

impl Drop for GivingUp<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.sender.send(ClientOrder::Cancel(call));
        }
    }
}
