//! Calls of services: discovery, choice of a provider, connection, stream.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::http::{MAX_HEAD, RequestHead};
use selfsame_codec::{Class, Code, Output, Policy};

use super::Node;
use super::connect::Waiter;
use super::streams::INITIAL_CREDIT;
use super::timers::Timer;
use crate::channel::{Frame, Open, Service};
use crate::gather::Gather as _;
use crate::hex;
use crate::identity::PeerId;
use crate::mesh::{Name, Wish};
use selfsame_sorted_map::Map;

/// Most providers that one call tries to reach.
const MAX_TRIES: usize = 4;
/// Providers that a call tries before it has all sibling objects looked up: one member may have named all of them.
const TRIES_OF_ONE: usize = 2;
/// How long a provider may take until a session with it is up before another one is tried beside it.
const HEDGE_MS: u64 = 250;
/// Most providers that one call waits for at a time.
const MAX_DIALLED: usize = 2;
/// The ring was not asked.
const NOWHERE: u8 = 0;
/// The ring was asked at all sibling objects of the name.
const EVERYWHERE: u8 = 2;
/// Most providers that a request may have failed at before: more than any service is retried at.
const MAX_TRIED: usize = 16;
/// Most calls that have no stream yet.
const MAX_CALLS: usize = 1024;
/// Longest key of a sticky choice: longer ones can be hashed.
const MAX_KEY: usize = 256;
/// How long until an answer must begin unless the application says otherwise.
const DEFAULT_TIMEOUT_MS: u32 = 30_000;

/// What an application asks for
pub(super) struct Request<'a> {
    pub(super) tag: u32,
    pub(super) name: Name,
    pub(super) target: Target<'a>,
    pub(super) timeout_ms: u32,
    pub(super) head: &'a [u8],
}

/// Who may answer a request
pub(super) enum Target<'a> {
    /// Any provider of the name that is not among the ids of those that failed already.
    Provider {
        key: &'a [u8],
        tried: &'a [u8],
        policy: Policy,
    },
    /// This one.
    Peer(PeerId),
}

struct Call {
    name: Name,
    head: Vec<u8>,
    key: Vec<u8>,
    policy: Policy,
    /// The one peer that is called, in place of any provider.
    peer: Option<PeerId>,
    /// Who was tried, for this call and for the request before.
    tried: Vec<PeerId>,
    /// With whom sessions are being made for this call.
    dialled: Vec<PeerId>,
    /// When another provider is tried beside them; 0 for never.
    hedge_ms: u64,
    /// Why those that were tried for this call did not answer.
    failures: Vec<(PeerId, Code)>,
    /// How far the ring was asked for this call: not, up to the first sibling object with a provider, at all of them.
    looked: u8,
    /// Whether the call goes on when the ring has answered.
    waits: bool,
    deadline_ms: u64,
}

impl Call {
    fn wish(&self) -> Wish<'_> {
        Wish {
            key: &self.key,
            policy: self.policy,
            tried: &self.tried,
        }
    }
}

/// Calls that have no stream yet, by the tag of their command
#[derive(Default)]
pub(super) struct Calls {
    table: Map<u32, Call>,
}

impl Node {
    /// The commands `Call` and `CallPeer`.
    pub(super) fn call(&mut self, request: Request<'_>) -> Result<(), Code> {
        let Request {
            tag,
            name,
            target,
            timeout_ms,
            head,
        } = request;
        if head.len() > MAX_HEAD {
            return Err(Code::TooLarge);
        }
        RequestHead::check(head).map_err(|_| Code::BadInput)?;
        if self.calls.table.len() >= MAX_CALLS {
            return Err(Code::TooManyRequests);
        }
        let (key, policy, peer, tried) = match target {
            Target::Provider { key, tried, policy } => {
                let tried = self.admit(&name, key, tried)?;
                (key, policy, None, tried)
            }
            Target::Peer(peer) => (&[][..], Policy::Random, Some(peer), Vec::new()),
        };
        let timeout_ms = if timeout_ms == 0 {
            DEFAULT_TIMEOUT_MS
        } else {
            timeout_ms
        };
        let deadline_ms = self.now_ms.saturating_add(timeout_ms.into());
        let call = Call {
            name,
            head: head.to_vec(),
            key: key.to_vec(),
            policy,
            peer,
            tried,
            dialled: Vec::new(),
            hedge_ms: 0,
            failures: Vec::new(),
            looked: NOWHERE,
            waits: false,
            deadline_ms,
        };
        self.calls.table.insert(tag, call);
        self.timers.set(deadline_ms, Timer::Call(tag));
        self.advance_call(tag);
        Ok(())
    }

    /// Reads who failed a request before, and takes a retry from the budget if anybody did.
    fn admit(&mut self, name: &Name, key: &[u8], tried: &[u8]) -> Result<Vec<PeerId>, Code> {
        let (tried, rest) = tried.as_chunks::<32>();
        if !rest.is_empty() {
            return Err(Code::BadInput);
        }
        if key.len() > MAX_KEY || tried.len() > MAX_TRIED {
            return Err(Code::TooLarge);
        }
        if tried.is_empty() {
            self.mesh.first_try(name, self.now_ms);
        } else if !self.mesh.retry(name, self.now_ms) {
            return Err(Code::RetryBudget);
        }
        Ok(tried.iter().copied().map(PeerId).gather())
    }

    fn advance_call(&mut self, tag: u32) {
        let Some(call) = self.calls.table.get(&tag) else {
            return;
        };
        if let Some(peer) = call.peer {
            if call.tried.is_empty() {
                self.try_provider(tag, peer);
            } else {
                self.end_call(tag, Code::NoProvider);
            }
            return;
        }
        if call.failures.len() >= MAX_TRIES {
            self.end_call(tag, Code::NoProvider);
            return;
        }
        let may_look = call.looked == NOWHERE || !call.tried.is_empty() && call.looked < EVERYWHERE;
        let wish = call.wish();
        let chosen = self.mesh.choose(&call.name, &wish, &mut self.random, self.now_ms);
        let is_to_look = may_look && call.failures.len() == TRIES_OF_ONE;
        match chosen.filter(|_| !is_to_look) {
            Some(peer) => {
                let is_old = if call.tried.is_empty() {
                    self.mesh.is_due(&call.name, self.now_ms)
                } else {
                    self.mesh.is_doubtful(&call.name, self.now_ms)
                };
                let has_failed = !call.tried.is_empty();
                let name = (is_old && may_look).then(|| call.name.clone());
                self.try_provider(tag, peer);
                name.into_iter()
                    .for_each(|name| _ = self.discover(name, has_failed));
            }
            None if may_look => self.discover_for(tag),
            None => self.end_call(tag, Code::NoProvider),
        }
    }

    fn try_provider(&mut self, tag: u32, peer: PeerId) {
        let Some(call) = self.calls.table.get_mut(&tag) else {
            return;
        };
        call.tried.push(peer);
        if peer == self.identity.id() {
            self.call_self(tag);
            return;
        }
        call.dialled.push(peer);
        self.mesh.started(peer, self.now_ms);
        self.connect(peer, Waiter::Call { tag, peer });
        if let Some(call) = self.calls.table.get_mut(&tag).filter(|call| call.peer.is_none()) {
            self.timers.clear(call.hedge_ms, Timer::Hedge(tag));
            call.hedge_ms = self.now_ms + HEDGE_MS;
            self.timers.set(call.hedge_ms, Timer::Hedge(tag));
        }
    }

    /// Those that a call waits for take their time, or one of them has failed: another one that is known is tried beside them.
    pub(super) fn hedge_call(&mut self, tag: u32) {
        let Some(call) = self.calls.table.get(&tag) else {
            return;
        };
        let tries = call.failures.len() + call.dialled.len();
        if call.dialled.is_empty() || call.dialled.len() >= MAX_DIALLED || tries >= MAX_TRIES {
            return;
        }
        let wish = call.wish();
        let chosen = self.mesh.choose(&call.name, &wish, &mut self.random, self.now_ms);
        if let Some(peer) = chosen {
            // Calls to come need not wait for them, too, until they are reached.
            call.dialled
                .iter()
                .for_each(|slow| self.mesh.unreachable(*slow, self.now_ms));
            self.try_provider(tag, peer);
        }
    }

    /// Has the ring asked for a call that knows of no provider that it has not tried; the call goes on when it has answered.
    fn discover_for(&mut self, tag: u32) {
        if let Some(call) = self.calls.table.get_mut(&tag) {
            let has_failed = !call.tried.is_empty();
            call.waits = true;
            // The ring may answer at once.
            call.looked = NOWHERE + 1 + u8::from(has_failed);
            let name = call.name.clone();
            self.discover(name, has_failed);
        }
    }

    /// The ring was asked for the providers of a name: calls that wait for them go on, or end with what it said.
    pub(super) fn discovered(&mut self, name: &Name, is_wide: bool, why: Option<Code>) {
        let waits = |call: &Call| call.waits && (is_wide || call.looked < EVERYWHERE) && call.name == *name;
        let mut waiting = Vec::new();
        for (tag, call) in self.calls.table.iter_mut().filter(|(_, call)| waits(call)) {
            call.waits = false;
            waiting.push(*tag);
        }
        for tag in waiting {
            match why {
                None => self.advance_call(tag),
                Some(code) => self.end_call(tag, code),
            }
        }
    }

    /// A provider is connected: the stream opens.
    pub(super) fn call_reached(&mut self, tag: u32, peer: PeerId, index: u32) {
        let Some(call) = self.calls.table.get(&tag) else {
            return;
        };
        let handle = self.streams.reserve();
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let stream = match connection.streams.open(handle) {
            Ok(stream) => stream,
            Err(code) => {
                self.call_failed(tag, peer, code);
                return;
            }
        };
        self.streams.insert_remote(handle, index, stream);
        let name = call.name.clone();
        let open = Open {
            stream,
            service: Service {
                owner: name.0,
                name: &name.1,
            },
            head: &call.head.clone(),
        };
        self.queue(index, &Frame::Open(open));
        self.opened(tag, handle, peer);
        self.watch(index);
    }

    /// Tells the application of the stream of its call, which is over with that, and awaits the answer.
    fn opened(&mut self, tag: u32, handle: u32, peer: PeerId) {
        let Some(call) = self.take_call(tag) else {
            return;
        };
        self.await_answer(handle, peer, call.deadline_ms);
        self.out.push(&Output::StreamOpened {
            stream: handle,
            tag,
            peer: peer.0,
            service: &call.name.1,
            head: &[],
        });
        self.out.push(&Output::StreamCredit {
            stream: handle,
            bytes: INITIAL_CREDIT,
        });
    }

    /// A provider that was tried gives no stream.
    pub(super) fn call_failed(&mut self, tag: u32, peer: PeerId, why: Code) {
        let Some(call) = self.calls.table.get_mut(&tag) else {
            return;
        };
        call.failures.push((peer, why));
        let before = call.dialled.len();
        call.dialled.retain(|other| *other != peer);
        if call.dialled.len() < before {
            self.mesh.left(&peer);
        }
        if call.dialled.is_empty() {
            self.advance_call(tag);
        } else {
            self.hedge_call(tag);
        }
    }

    /// This node serves the name itself.
    fn call_self(&mut self, tag: u32) {
        let Some(call) = self.calls.table.get(&tag) else {
            return;
        };
        if !self.serves(call.name.0.as_ref(), &call.name.1) {
            self.call_failed(tag, self.identity.id(), Code::NoService);
            return;
        }
        let (caller, callee) = self.streams.add_local();
        let peer = self.identity.id();
        self.out.push(&Output::StreamOpened {
            stream: callee,
            tag: 0,
            peer: peer.0,
            service: &call.name.1,
            head: &call.head,
        });
        self.out.push(&Output::StreamCredit {
            stream: callee,
            bytes: INITIAL_CREDIT,
        });
        self.opened(tag, caller, peer);
    }

    pub(super) fn call_timed_out(&mut self, tag: u32) {
        self.end_call(tag, Code::Deadline);
    }

    /// Ends a call without a stream, with why providers that were tried did not answer: the last one, or the last that has no room.
    fn end_call(&mut self, tag: u32, why: Code) {
        let Some(call) = self.take_call(tag) else {
            return;
        };
        // Of one that is there and has no room more can be done than of one that is not there.
        let mut latest = call.failures.iter().rev().map(|(_, code)| *code);
        let full = latest.clone().find(|code| code.class() == Class::Limit);
        let last = full.or_else(|| latest.next());
        let code = if why == Code::Deadline {
            why
        } else {
            last.unwrap_or(why)
        };
        self.out.push(&Output::Failed {
            tag,
            code: code.as_u16(),
            detail: &describe(&call.failures),
        });
    }

    fn take_call(&mut self, tag: u32) -> Option<Box<Call>> {
        let call = self.calls.table.remove(&tag)?;
        self.timers.clear(call.deadline_ms, Timer::Call(tag));
        self.timers.clear(call.hedge_ms, Timer::Hedge(tag));
        call.dialled.iter().for_each(|peer| self.mesh.left(peer));
        Some(call)
    }

    /// Gives up a call that has no stream yet; says whether there was one.
    pub(super) fn cancel_call(&mut self, tag: u32) -> bool {
        self.take_call(tag).is_some()
    }

    pub(super) fn serves(&self, owner: Option<&crate::identity::PublicKey>, name: &str) -> bool {
        self.ring.answers_to(owner, name, self.now_ms)
    }
}

/// Who was tried and why each did not answer, as the host reads it: `id=code`, separated by spaces.
fn describe(failures: &[(PeerId, Code)]) -> String {
    let mut text = String::new();
    for (peer, code) in failures {
        if !text.is_empty() {
            text.push(' ');
        }
        hex::push(&mut text, &peer.0);
        text.push('=');
        push_decimal(&mut text, code.as_u16());
    }
    text
}

fn push_decimal(text: &mut String, number: u16) {
    if number >= 10 {
        push_decimal(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}
