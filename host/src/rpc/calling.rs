//! The thread of a client: hands calls to the instance, and their outcomes to the callers.

use core::net::SocketAddr;
use std::collections::HashMap;

use selfsame_codec::Malformed;
use selfsame_codec::rpc::{Input, Output};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::client::RpcAnswer;
use super::endpoint::{address_of, endpoint_of};
use super::engine::Engine;
use super::thread::Role;
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
}

/// The state of a client's thread.
pub(super) struct ClientRole<F> {
    waiting: HashMap<u32, oneshot::Sender<Result<RpcAnswer, Error>>>,
    allows_private: bool,
    request_ticket: F,
}

impl<F: Fn(u32) + Send> ClientRole<F> {
    /// A client without calls; `request_ticket` is told the number of a service whose calls wait for a ticket.
    pub(super) fn new(allows_private: bool, request_ticket: F) -> Self {
        Self {
            waiting: HashMap::new(),
            allows_private,
            request_ticket,
        }
    }

    fn end(&mut self, call: u32, outcome: Result<RpcAnswer, Error>) {
        if let Some(answer) = self.waiting.remove(&call) {
            // Nobody waits any more if the caller has gone away.
            _ = answer.send(outcome);
        }
    }
}

impl<F: Fn(u32) + Send + 'static> Role for ClientRole<F> {
    type Order = ClientOrder;

    fn take(&mut self, order: ClientOrder, engine: &mut Engine) {
        match order {
            ClientOrder::Call(new) => {
                engine.give(&Input::Call {
                    call: new.call,
                    service: new.service,
                    target: endpoint_of(new.target),
                    options: new.options,
                    timeout_ms: new.timeout_ms,
                    payload: &new.payload,
                });
                self.waiting.insert(new.call, new.answer);
            }
            ClientOrder::Cancel(call) => {
                if self.waiting.remove(&call).is_some() {
                    engine.give(&Input::Cancel { call });
                }
            }
            ClientOrder::UseTicket(service, grant) => engine.give(&Input::UseTicket {
                service,
                grant: &grant,
            }),
        }
    }

    fn permits(&self, target: SocketAddr) -> bool {
        // Routers and servers name others to go to.
        self.allows_private || is_public(target.ip())
    }

    fn follow(&mut self, output: &Output<'_>, _: &mut Engine) -> Result<(), Malformed> {
        match *output {
            Output::Done {
                call,
                source,
                payload,
            } => {
                let server = address_of(&source);
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
