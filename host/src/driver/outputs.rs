//! What the core asks for, done at once or handed to whoever does it.

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use selfsame_codec::reply::decode_duplicate;
use selfsame_codec::{BatchReader, Code, EventKind, Input, LogLevel, Output};

use super::refusal::{join_failure, joining};
use super::{Driver, Pending};
use crate::caller::Assurance;
use crate::error::Error;
use crate::event::Event;
use crate::handle::{Control, DialKey, Effect, MessageKey, Waiter};
use crate::id::{NodeKey, PeerId};
use crate::inbox::{Cause, Delivery};
use crate::keys::random_bytes;
use crate::newcomers::Newcomer;
use crate::routed::RoutedMessage;
use crate::serve::Incoming;
use crate::store::{Operation, Request};
use crate::stream::{StreamKey, stream};

/// How many times its own bytes a part of an answer keeps in memory at most.
const MOST_KEPT: usize = 4;

impl Driver {
    /// Does what a batch of outputs asks. `tags` are those of the batch that it answers.
    pub(super) fn dispatch(&mut self, answer: Bytes, tags: &[u32], now_ms: u64) {
        let Ok(items) = BatchReader::new(&answer) else {
            return tracing::error!(
                "an answer of the core does not decode: host and core.wasm differ in version"
            );
        };
        for item in items {
            match Output::decode(item) {
                Ok(output) => self.output(output, &answer, tags, now_ms),
                Err(_) => tracing::error!(kind = item.kind, "an output of the core does not decode"),
            }
        }
    }

    fn output(&mut self, output: Output<'_>, answer: &Bytes, tags: &[u32], now_ms: u64) {
        match output {
            Output::Transmit { path, frame } => {
                if let Some(Some(link)) = self.paths.get_mut(&path) {
                    link.transmit(part_of(answer, frame));
                }
            }
            Output::Dial { dial, address } => {
                let key = DialKey {
                    dial,
                    life: self.life,
                };
                self.dialler.dial(&self.runtime, &self.handle, key, address);
            }
            Output::ClosePath { path } => {
                if let Some(link) = self.paths.get_mut(&path) {
                    *link = None;
                }
            }
            // Paths of a host live as long as its memory.
            Output::Snapshot { .. } => {}
            Output::NeedEntropy {} => self.entropy(),
            Output::StoreGet { tag, key } => self.ask_store(
                tag,
                Operation::Get {
                    key: answer.slice_ref(key),
                },
            ),
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let (start, end) = (answer.slice_ref(start), answer.slice_ref(end));
                self.ask_store(tag, Operation::Scan { start, end, limit });
            }
            Output::StoreCommit {
                tag,
                durable,
                operations,
            } => {
                let operations = answer.slice_ref(operations);
                self.ask_store(tag, Operation::Commit { durable, operations });
            }
            Output::Busy { path, busy } => {
                if let Some(Some(link)) = self.paths.get(&path) {
                    link.busy(busy);
                }
            }
            Output::LookUp { peer, key, remote } => self.look_up(PeerId(peer), NodeKey(key), remote),
            output => self.application_output(output, answer, tags, now_ms),
        }
    }

    /// Has a newcomer looked up, and tells the core what came of it.
    fn look_up(&self, peer: PeerId, key: NodeKey, remote: &str) {
        let Some(newcomers) = &self.newcomers else {
            return tracing::error!("the core asks for a newcomer, which this host does not look up");
        };
        let newcomer = Newcomer {
            peer,
            key,
            source: ip_of(remote),
        };
        let (newcomers, handle, life) = (newcomers.clone(), self.handle.clone(), self.life);
        self.runtime.spawn(async move {
            let code = newcomers.look_up(newcomer).await.err().map_or(0, Code::as_u16);
            if newcomers.take_strays() {
                handle.control(Control::LookedUp {
                    life: None,
                    peer: PeerId([0; 32]),
                    code: Code::WrongDnsAnswer.as_u16(),
                });
            }
            handle.control(Control::LookedUp {
                life: Some(life),
                peer,
                code,
            });
        });
    }

    /// The outputs that concern the application.
    fn application_output(&mut self, output: Output<'_>, answer: &Bytes, tags: &[u32], now_ms: u64) {
        match output {
            Output::StreamOpened {
                stream,
                tag,
                peer,
                service,
                head,
            } => {
                self.stream_opened(stream, tag, PeerId(peer), service, part_of(answer, head));
            }
            Output::StreamData { stream, data } => self.stream_data(stream, part_of(answer, data)),
            Output::StreamEnd { stream } => self.stream_end(stream),
            Output::StreamReset { stream, code } => {
                if let Some(entry) = self.streams.remove(&stream) {
                    entry.fail(Cause::Reset(code));
                }
            }
            Output::StreamCredit { stream, bytes } => {
                if let Some(entry) = self.streams.get(&stream) {
                    entry.credit.add_permits(bytes as usize);
                }
            }
            Output::Reply { tag, body } => self.reply(tag, part_of(answer, body)),
            Output::Routed {
                message,
                peer,
                target,
                body,
            } => {
                let life = self.life;
                let message_key = MessageKey { message, life };
                let message = RoutedMessage {
                    from: PeerId(peer),
                    target,
                    body: part_of(answer, body),
                };
                let routing = &self.services.routing;
                routing.accept(&self.runtime, &self.handle, message_key, message);
            }
            Output::Providers { tag, body } => self.providers(tag, part_of(answer, body)),
            Output::Failed { tag, code, detail } => {
                let error = self.failure(tag, code, detail);
                self.fail(tag, error);
            }
            Output::Refused { input, code } => self.refused(input, code, tags),
            Output::Event { event, body } => self.event(event, body),
            Output::Log {
                level,
                code,
                path,
                text,
            } => {
                self.has_refused_private |= code == Code::ForbiddenAddress.as_u16();
                log(level, code, path, text);
            }
            Output::Wake { at_ms } => self.set_wake(at_ms, now_ms),
            _ => tracing::error!(
                ?output,
                "the core asks for something that this host does not know"
            ),
        }
    }

    fn entropy(&mut self) {
        match random_bytes() {
            Ok(bytes) => self.input(&Input::Entropy { bytes }),
            // The core says by itself what it cannot do without.
            Err(error) => tracing::error!(%error, "no random bytes"),
        }
    }

    fn ask_store(&mut self, tag: u32, operation: Operation) {
        self.store.send(Request {
            life: self.life,
            tag,
            operation,
        });
    }

    fn stream_opened(&mut self, number: u32, tag: u32, peer: PeerId, service: &str, head: Bytes) {
        self.serial += 1;
        let key = StreamKey {
            stream: number,
            serial: self.serial,
        };
        let (entry, opened) = stream(key, peer, &self.sender);
        self.streams.insert(number, entry);
        if tag == 0 {
            let incoming = Incoming {
                stream: opened,
                service: service.into(),
                head,
                assurance: Assurance::Session,
            };
            return self.services.accept(&self.runtime, incoming);
        }
        match self.pending.remove(&tag).map(|pending| pending.waiter) {
            // If the caller has just gone away, dropping the stream resets it.
            Some(Waiter::Stream(waiter)) => _ = waiter.send(Ok(opened)),
            _ => drop(opened),
        }
    }

    fn stream_data(&mut self, stream: u32, data: Bytes) {
        let Some(entry) = self.streams.get(&stream) else {
            return;
        };
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if !entry.deliver(Delivery::Data(data)) {
            self.input(&Input::StreamCredit { stream, bytes });
        }
    }

    fn stream_end(&mut self, stream: u32) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        entry.received_end = true;
        // Nobody needs to hear of the end of what nobody takes.
        _ = entry.deliver(Delivery::End);
        if entry.sent_end {
            self.streams.remove(&stream);
        }
    }

    fn reply(&mut self, tag: u32, body: Bytes) {
        let Some(Pending { waiter, effect, item }) = self.pending.remove(&tag) else {
            return;
        };
        self.remember(effect, item);
        match waiter {
            // A caller that has just gone away wants no reply.
            Waiter::Reply(waiter) => _ = waiter.send(Ok(body)),
            Waiter::Stream(waiter) => _ = waiter.send(Err(Error::version_skew())),
            Waiter::Watch(_) | Waiter::Driver { .. } => {}
        }
    }

    /// Tells somebody who watches; the command goes on.
    fn providers(&self, tag: u32, body: Bytes) {
        if let Some(Pending {
            waiter: Waiter::Watch(waiter),
            ..
        }) = self.pending.get(&tag)
        {
            // Somebody who has just gone away wants no list.
            _ = waiter.send(Some(Ok(body)));
        }
    }

    /// The error of a command, with what this side of the boundary knows of it.
    fn failure(&self, tag: u32, code: u16, detail: &str) -> Error {
        let joins =
            || matches!(self.pending.get(&tag), Some(pending) if matches!(pending.effect, Effect::Joins));
        match Code::from_u16(code) {
            Some(Code::DialFailed) if detail.is_empty() => Error::core(code, &self.last_dial_failure),
            Some(Code::Disconnected) if detail.is_empty() => Error::core(code, &self.path_failure),
            Some(Code::NoBootstrap) if detail.is_empty() => {
                Error::core(code, &join_failure(&self.config, self.has_refused_private))
            }
            Some(Code::WrongPeer | Code::WrongNetwork) if detail.is_empty() && joins() => {
                Error::core(code, &joining(&self.config))
            }
            _ => Error::core(code, detail),
        }
    }

    fn fail(&mut self, tag: u32, error: Error) {
        if tag == 0 {
            self.broken = Some(error);
            return;
        }
        if let Some(Pending { waiter, effect, item }) = self.pending.remove(&tag) {
            match waiter {
                Waiter::Driver { failures } if error.may_pass() => {
                    self.repeat_later(failures.saturating_add(1), effect, item, &error);
                }
                waiter => waiter.fail(error),
            }
        }
    }

    fn refused(&mut self, input: u32, code: u16, tags: &[u32]) {
        let tag = usize::try_from(input)
            .ok()
            .and_then(|input| tags.get(input))
            .copied()
            .unwrap_or(0);
        let error = Error::core(code, "");
        tracing::debug!(input, %error, "the core refused an input");
        if tag != 0 {
            self.fail(tag, error);
        }
    }

    fn event(&mut self, event: EventKind, body: &[u8]) {
        let peer = || body.try_into().map(PeerId).ok();
        let event = match event {
            EventKind::Ready => {
                self.ready = true;
                return self.repeat();
            }
            EventKind::PeerConnected => peer().map(Event::PeerConnected),
            EventKind::PeerDisconnected => peer().map(Event::PeerDisconnected),
            EventKind::RingChanged => Some(Event::RingChanged),
            EventKind::Published => core::str::from_utf8(body)
                .ok()
                .map(|name| Event::Published(name.into())),
            EventKind::Convicted => Some(Event::Convicted {
                evidence: body.to_vec(),
            }),
            EventKind::DuplicateIdentity => {
                decode_duplicate(body)
                    .ok()
                    .map(|[one, other]| Event::DuplicateIdentity {
                        peer: PeerId(one.id),
                        addresses: [one.addresses, other.addresses],
                    })
            }
        };
        if let Some(event) = event {
            // Nobody needs to listen to events.
            _ = self.events.send(event);
        }
    }
}

fn log(level: LogLevel, code: u16, path: u32, text: &str) {
    let code = Code::from_u16(code);
    let text = if text.is_empty() {
        code.map_or("", Code::text)
    } else {
        text
    };
    let code = code.map_or("", Code::name);
    match level {
        LogLevel::Debug => tracing::debug!(target: "selfsame::core", code, path, "{text}"),
        LogLevel::Info => tracing::info!(target: "selfsame::core", code, path, "{text}"),
        LogLevel::Warn => tracing::warn!(target: "selfsame::core", code, path, "{text}"),
        LogLevel::Error => tracing::error!(target: "selfsame::core", code, path, "{text}"),
    }
}

/// A part of an answer that may wait for long. Others' memory is bounded by the bytes that wait, so a small part is copied: it would
/// keep all of the answer.
fn part_of(answer: &Bytes, part: &[u8]) -> Bytes {
    if part.len() < answer.len() / MOST_KEPT {
        Bytes::copy_from_slice(part)
    } else {
        answer.slice_ref(part)
    }
}

/// The IP address of a peer, as the core was told it: with or without a port.
fn ip_of(remote: &str) -> Option<IpAddr> {
    let ip = remote
        .parse()
        .or_else(|_| remote.parse().map(|address: SocketAddr| address.ip()));
    ip.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_waits_keeps_little_else_in_memory() {
        for length in [0, 1, 64, 65_535, 65_536, 200_000, 1 << 20] {
            let answer = Bytes::from(vec![7; 1 << 20]);
            let part = part_of(&answer, &answer[10.min(length)..length]);
            let is_alone = answer.try_into_mut().is_ok();
            assert!(
                is_alone || part.len() * MOST_KEPT + MOST_KEPT * 10 >= 1 << 20,
                "{length}"
            );
        }
    }
}
