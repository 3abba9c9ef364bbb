//! Calls of services: discovery, choice of a provider, connection, stream.

use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_codec::reply::{ProviderView, encode_providers};
use selfsame_codec::{Code, Output};

use super::Node;
use super::connect::Waiter;
use super::ring_driver::Purpose;
use super::streams::INITIAL_CREDIT;
use crate::channel::{Frame, MAX_DATA, Open, Service};
use crate::identity::PeerId;
use crate::map::Map;
use crate::mesh::Name;
use crate::ring::Provider;

/// Most providers that one call tries.
const MAX_TRIES: usize = 4;
/// Most calls that have no stream yet.
const MAX_CALLS: usize = 1024;

enum Target {
    /// Any provider of the name.
    Provider,
    /// This one.
    Peer(PeerId),
}

struct Call {
    name: Name,
    head: Vec<u8>,
    target: Target,
    tried: Vec<PeerId>,
    /// Whether the ring was asked for this call; what was known before may be stale.
    discovered: bool,
    last: Code,
}

/// Calls that have no stream yet, by the tag of their command
#[derive(Default)]
pub(super) struct Calls {
    table: Map<u32, Box<Call>>,
}

impl Node {
    /// The commands `Call` and `CallPeer`.
    pub(super) fn call(
        &mut self,
        tag: u32,
        name: Name,
        head: &[u8],
        peer: Option<PeerId>,
    ) -> Result<(), Code> {
        if head.len() > MAX_DATA {
            return Err(Code::TooLarge);
        }
        if self.calls.table.len() >= MAX_CALLS {
            return Err(Code::TooManyRequests);
        }
        let target = peer.map_or(Target::Provider, Target::Peer);
        let call = Call {
            name,
            head: head.to_vec(),
            target,
            tried: Vec::new(),
            discovered: false,
            last: Code::NoProvider,
        };
        self.calls.table.insert(tag, Box::new(call));
        self.advance_call(tag);
        Ok(())
    }

    fn advance_call(&mut self, tag: u32) {
        let Some(call) = self.calls.table.get(&tag) else {
            return;
        };
        if let Target::Peer(peer) = call.target {
            if call.tried.is_empty() {
                self.try_provider(tag, peer)
            } else {
                self.end_call(tag)
            }
            return;
        }
        if call.tried.len() >= MAX_TRIES {
            self.end_call(tag);
            return;
        }
        let chosen = self
            .mesh
            .providers(&call.name, self.now_ms)
            .and_then(|providers| {
                self.mesh
                    .choose(providers, &call.tried, &mut self.random, self.now_ms)
            });
        match chosen {
            Some(peer) => self.try_provider(tag, peer),
            None if call.discovered => self.end_call(tag),
            None => self.discover(tag),
        }
    }

    fn try_provider(&mut self, tag: u32, peer: PeerId) {
        let Some(call) = self.calls.table.get_mut(&tag) else {
            return;
        };
        call.tried.push(peer);
        if peer == self.identity.id() {
            self.call_self(tag);
        } else {
            self.connect(peer, Waiter::Call(tag));
        }
    }

    fn discover(&mut self, tag: u32) {
        let Some(call) = self.calls.table.get_mut(&tag) else {
            return;
        };
        call.discovered = true;
        let name = call.name.clone();
        self.mesh.forget(&name);
        if !self.ring_driver.is_discovering(&name) {
            let command = self.ring_command(Purpose::Discover(name.clone()));
            self.ring_with(|ring, cx| ring.find(cx, command, name.0, &name.1));
        }
    }

    /// The ring found providers, for a command or for calls.
    pub(super) fn found(&mut self, command: u32, providers: Vec<Provider>) {
        match self.ring_driver.take_purpose(command) {
            Some(Purpose::Command(tag)) => {
                let body = encode_providers(&providers.iter().map(view).collect::<Vec<_>>());
                self.reply(tag, &body);
            }
            Some(Purpose::Discover(name)) => {
                for record in providers.iter().filter_map(|provider| provider.record.clone()) {
                    self.ring_with(|ring, cx| ring.learn(cx, record));
                }
                self.mesh.learn(name.clone(), providers, self.now_ms);
                for tag in self.calls_waiting_for(&name) {
                    self.advance_call(tag);
                }
            }
            Some(Purpose::Join(_)) | None => {}
        }
    }

    pub(super) fn discovery_failed(&mut self, name: &Name, why: Code) {
        for tag in self.calls_waiting_for(name) {
            if let Some(call) = self.calls.table.get_mut(&tag) {
                if call.tried.is_empty() {
                    call.last = why;
                }
                self.end_call(tag);
            }
        }
    }

    /// Calls for which the ring was asked and no provider is being tried.
    fn calls_waiting_for(&self, name: &Name) -> Vec<u32> {
        let waits = |call: &Call| call.discovered && call.name == *name;
        self.calls
            .table
            .iter()
            .filter(|(_, call)| waits(call))
            .map(|(tag, _)| *tag)
            .collect()
    }

    /// A provider is connected: the stream opens.
    pub(super) fn call_reached(&mut self, tag: u32, index: u32) {
        let Some(call) = self.calls.table.remove(&tag) else {
            return;
        };
        let handle = self.streams.reserve();
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let peer = connection.session.peer();
        let stream = match connection.streams.open(handle) {
            Ok(stream) => stream,
            Err(code) => {
                self.fail(tag, code);
                return;
            }
        };
        self.mesh.trust(&peer);
        self.streams.insert_remote(handle, index, stream);
        let service = Service {
            owner: call.name.0,
            name: &call.name.1,
        };
        self.queue(
            index,
            &Frame::Open(Open {
                stream,
                service,
                head: &call.head,
            }),
        );
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
        self.watch(index);
    }

    pub(super) fn call_failed(&mut self, tag: u32, why: Code) {
        if let Some(call) = self.calls.table.get_mut(&tag) {
            call.last = why;
            self.advance_call(tag);
        }
    }

    /// This node serves the name itself.
    fn call_self(&mut self, tag: u32) {
        let Some(call) = self.calls.table.remove(&tag) else {
            return;
        };
        if !self.serves(call.name.0.as_ref(), &call.name.1) {
            self.fail(tag, Code::NoService);
            return;
        }
        let (caller, callee) = self.streams.add_local();
        let peer = self.identity.id().0;
        let name = &call.name.1;
        self.out.push(&Output::StreamOpened {
            stream: callee,
            tag: 0,
            peer,
            service: name,
            head: &call.head,
        });
        self.out.push(&Output::StreamOpened {
            stream: caller,
            tag,
            peer,
            service: name,
            head: &[],
        });
        for stream in [callee, caller] {
            self.out.push(&Output::StreamCredit {
                stream,
                bytes: INITIAL_CREDIT,
            });
        }
    }

    fn end_call(&mut self, tag: u32) {
        if let Some(call) = self.calls.table.remove(&tag) {
            self.fail(tag, call.last);
        }
    }

    /// Gives up a call that has no stream yet; says whether there was one.
    pub(super) fn cancel_call(&mut self, tag: u32) -> bool {
        self.calls.table.remove(&tag).is_some()
    }

    pub(super) fn serves(&self, owner: Option<&crate::identity::PublicKey>, name: &str) -> bool {
        self.ring
            .services()
            .iter()
            .any(|service| service.owner.as_ref() == owner && service.name == name)
    }
}

fn view(provider: &Provider) -> ProviderView<'_> {
    ProviderView {
        peer: provider.peer.0,
        version: &provider.version,
        weight: provider.weight,
        node: provider.record.as_ref().map(super::status::view),
    }
}
