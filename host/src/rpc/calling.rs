//! A thread of a client: hands calls to the instance, and their outcomes to the callers.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;

use selfsame_codec::Code;
use selfsame_codec::Malformed;
use selfsame_codec::rpc::{Input, Output};
use tokio::sync::oneshot;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::address::RpcAddress;
use super::client::RpcAnswer;
use super::endpoint::{address_of, endpoint_of};
use super::engine::Engine;
use super::thread::Role;
use super::url_calls::UrlCalls;
use crate::error::Error;
use crate::transport::is_public;

/// A call for the thread.
pub(super) struct NewCall {
    pub(super) call: u32,
    pub(super) service: u32,
    pub(super) target: SocketAddr,
    pub(super) options: u8,
    pub(super) timeout_ms: u32,
    pub(super) payload: Vec<u8>,
    pub(super) answer: oneshot::Sender<Result<RpcAnswer, Error>>,
}

/// An order for the thread of a client.
pub(super) enum ClientOrder {
    Call(NewCall),
    Cancel(u32),
    /// Uses a ticket for a service; empty if there is none.
    UseTicket(u32, Zeroizing<Vec<u8>>),
    /// Ends calls to a server that may not be dialled.
    Forbid {
        target: SocketAddr,
        why: String,
    },
}

/// A call that is not answered yet.
struct Waiting {
    target: SocketAddr,
    answer: oneshot::Sender<Result<RpcAnswer, Error>>,
}

/// The state of a client's thread.
pub(super) struct ClientRole {
    waiting: HashMap<u32, Waiting>,
    allows_private: bool,
    /// Of calls to URLs.
    urls: Option<Arc<dyn UrlCalls>>,
    request_ticket: Box<dyn Fn(u32) + Send>,
}

impl ClientRole {
    /// A client without calls; `request_ticket` is told the number of a service whose calls wait for a ticket.
    pub(super) fn new(
        allows_private: bool,
        urls: Option<Arc<dyn UrlCalls>>,
        request_ticket: impl Fn(u32) + Send + 'static,
    ) -> Self {
        Self {
            waiting: HashMap::new(),
            allows_private,
            urls,
            request_ticket: Box::new(request_ticket),
        }
    }

    fn begin(&mut self, new: NewCall, engine: &mut Engine) {
        engine.give(&Input::Call {
            call: new.call,
            service: new.service,
            target: endpoint_of(new.target),
            options: new.options,
            timeout_ms: new.timeout_ms,
            payload: &new.payload,
        });
        if let Some(urls) = &self.urls {
            urls.expect_until(Instant::now() + Duration::from_millis(u64::from(new.timeout_ms)));
        }
        let NewCall { target, answer, .. } = new;
        self.waiting.insert(new.call, Waiting { target, answer });
    }

    fn end(&mut self, call: u32, outcome: Result<RpcAnswer, Error>) {
        if let Some(Waiting { answer, .. }) = self.waiting.remove(&call) {
            // Nobody waits any more if the caller has gone away.
            _ = answer.send(outcome);
        }
        if let Some(urls) = &self.urls
            && self.waiting.is_empty()
        {
            urls.give_up();
        }
    }

    /// Gives a call up if it is under way.
    fn cancel(&mut self, call: u32, why: Error, engine: &mut Engine) {
        if self.waiting.contains_key(&call) {
            engine.give(&Input::Cancel { call });
            self.end(call, Err(why));
        }
    }

    fn forbid(&mut self, target: SocketAddr, why: &str, engine: &mut Engine) {
        let calls = self.waiting.iter();
        let calls: Vec<_> = calls
            .filter(|(_, waiting)| waiting.target == target)
            .map(|(call, _)| *call)
            .collect();
        for call in calls {
            self.cancel(call, Error::core(Code::ForbiddenAddress.as_u16(), why), engine);
        }
    }

    fn server_of(&self, source: SocketAddr) -> RpcAddress {
        let address = self.urls.as_ref().and_then(|urls| urls.address_of(source));
        address.unwrap_or(RpcAddress::Udp(source))
    }
}

impl Role for ClientRole {
    type Order = ClientOrder;

    fn take(&mut self, order: ClientOrder, engine: &mut Engine) {
        match order {
            ClientOrder::Call(new) => self.begin(new, engine),
            ClientOrder::Cancel(call) => self.cancel(call, Error::from_code(Code::Cancelled), engine),
            ClientOrder::Forbid { target, why } => self.forbid(target, &why, engine),
            ClientOrder::UseTicket(service, grant) => engine.give(&Input::UseTicket {
                service,
                grant: &grant,
            }),
        }
    }

    fn permits(&self, target: SocketAddr) -> bool {
        // Routers and servers name others to go to. A URL's address is checked when it is dialled.
        self.urls.is_some() || self.allows_private || is_public(target.ip())
    }

    fn follow(&mut self, output: &Output<'_>, _: &mut Engine) -> Result<(), Malformed> {
        match *output {
            Output::Done {
                call,
                source,
                payload,
            } => {
                let server = self.server_of(address_of(&source));
                let payload = payload.to_vec();
                self.end(call, Ok(RpcAnswer { payload, server }));
            }
            Output::Failed { call, code } => self.end(call, Err(Error::core(code, ""))),
            Output::TicketWanted { service } => (self.request_ticket)(service),
            _ => return Err(Malformed),
        }
        Ok(())
    }
}
