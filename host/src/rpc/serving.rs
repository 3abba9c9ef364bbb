//! The thread of a server: asks the handler, and has its answers sealed.

use alloc::sync::Arc;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use futures_util::FutureExt as _;
use selfsame_codec::rpc::{IDEMPOTENT, Input, Output};
use selfsame_codec::{Code, Malformed};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::answering::{Handler, Outcome, RpcRefusal, RpcRequest};
use super::endpoint::{UNKNOWN, address_of};
use super::engine::{Engine, MAX_MESSAGE_BYTES};
use super::socket::DATAGRAM_BYTES;
use super::thread::{OrderSender, Role};
use crate::id::PeerId;
use crate::shares::Shares;
use crate::transport::network_of;

/// Most bytes of long requests until their calls end, of all sources and of one.
pub(super) const MAX_HELD_BYTES: usize = 8 * MAX_MESSAGE_BYTES;
pub(super) const SOURCE_HELD_BYTES: usize = 2 * MAX_MESSAGE_BYTES;

/// An order for the thread of a server.
pub(super) enum ServerOrder {
    Answer {
        call: u32,
        outcome: Outcome,
    },
    IssueTicket {
        caller: PeerId,
        answer: oneshot::Sender<Vec<u8>>,
    },
    SetTicketKeys(Zeroizing<Vec<u8>>),
}

/// The state of a server's thread.
pub(super) struct ServerRole {
    handler: Handler,
    sender: OrderSender<ServerOrder>,
    /// Callers that wait for tickets, which are issued in the order of the requests.
    tickets: VecDeque<oneshot::Sender<Vec<u8>>>,
    /// The memory of long requests: of short ones the module bounds the number.
    held: Arc<Shares<IpAddr>>,
}

impl ServerRole {
    pub(super) fn new(handler: Handler, sender: OrderSender<ServerOrder>) -> Self {
        Self {
            handler,
            sender,
            tickets: VecDeque::new(),
            held: Shares::new(SOURCE_HELD_BYTES, MAX_HELD_BYTES),
        }
    }

    /// Asks the handler: one that is ready at once answers in this step, others in the runtime.
    fn serve(&mut self, call: u32, request: RpcRequest, engine: &mut Engine) {
        let deadline = request.deadline;
        let held = if request.payload.len() > DATAGRAM_BYTES as usize {
            let network = network_of(request.source.ip());
            let Some(held) = self.held.take(network, request.payload.len()) else {
                return answer(call, &Err(RpcRefusal(Code::TooManyRequests)), engine);
            };
            Some(held)
        } else {
            None
        };
        let mut answering = (self.handler)(request);
        if let Some(outcome) = (&mut answering).now_or_never() {
            return answer(call, &outcome, engine);
        }
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let outcome = match tokio::time::timeout_at(deadline.into(), answering).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RpcRefusal(Code::Deadline)),
            };
            drop(held);
            sender.send(ServerOrder::Answer { call, outcome });
        });
    }
}

impl Role for ServerRole {
    type Order = ServerOrder;

    fn take(&mut self, order: ServerOrder, engine: &mut Engine) {
        match order {
            ServerOrder::Answer { call, outcome } => answer(call, &outcome, engine),
            ServerOrder::IssueTicket { caller, answer } => {
                self.tickets.push_back(answer);
                engine.give(&Input::IssueTicket {
                    tag: 0,
                    caller: caller.0,
                    endpoint: UNKNOWN,
                });
            }
            ServerOrder::SetTicketKeys(secrets) => engine.give(&Input::SetTicketKeys { secrets: &secrets }),
        }
    }

    fn follow(&mut self, output: &Output<'_>, engine: &mut Engine) -> Result<(), Malformed> {
        match *output {
            Output::Serve {
                call,
                caller,
                source,
                options,
                timeout_ms,
                payload,
            } => {
                let request = RpcRequest {
                    payload: payload.to_vec(),
                    caller: PeerId(caller),
                    source: address_of(&source),
                    is_idempotent: options & IDEMPOTENT != 0,
                    deadline: Instant::now() + Duration::from_millis(u64::from(timeout_ms)),
                };
                self.serve(call, request, engine);
            }
            // The handler goes on, and its answer is dropped.
            Output::Cancelled { .. } => {}
            Output::Issued { grant, .. } => {
                // Nobody waits any more if the caller has gone away.
                _ = self.tickets.pop_front().map(|answer| answer.send(grant.to_vec()));
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }
}

fn answer(call: u32, outcome: &Outcome, engine: &mut Engine) {
    match outcome {
        Ok(payload) if payload.len() > MAX_MESSAGE_BYTES => {
            let length = payload.len();
            tracing::error!(
                length,
                "an answer has at most {MAX_MESSAGE_BYTES} bytes: its call fails"
            );
            engine.give(&Input::Refuse {
                call,
                code: Code::HandlerFailed.as_u16(),
            });
        }
        Ok(payload) => engine.give(&Input::Answer { call, payload }),
        Err(RpcRefusal(code)) => engine.give(&Input::Refuse {
            call,
            code: code.as_u16(),
        }),
    }
}
