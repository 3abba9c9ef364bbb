//! What becomes an input.

use core::time::Duration;

use selfsame_codec::Input;

use super::{Driver, Pending};
use crate::error::Error;
use crate::handle::{Control, Effect, Inbound, Item, Waiter};
use crate::inbox::Cause;
use crate::store::{Answer, Completion};
use crate::stream::{StreamInput, StreamKey, StreamSignal};

/// Pause before a command that has to last is given again.
const REPEAT_PAUSE: Duration = Duration::from_secs(2);
/// Of a command that fails for long, one failure of so many is logged.
const REPEATS_PER_WARNING: u32 = 32;

impl Driver {
    /// Adds an input to the batch.
    pub(super) fn input(&mut self, input: &Input<'_>) {
        input.encode(&mut self.batch);
        self.tags.push(0);
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        if completion.life != self.life {
            return;
        }
        let tag = completion.tag;
        match &completion.answer {
            Answer::Read(entries) => self.input(&Input::StoreRead {
                tag,
                ok: entries.is_some(),
                entries: entries.as_deref().unwrap_or_default(),
            }),
            Answer::Committed(ok) => self.input(&Input::StoreCommitted { tag, ok: *ok }),
        }
    }

    pub(super) fn inbound(&mut self, message: Inbound) {
        match message {
            Inbound::Frame { path, frame } => self.frame(path, &frame),
            Inbound::Exchange {
                path,
                frames,
                settled,
            } => {
                frames.iter().for_each(|frame| self.frame(path, frame));
                self.settled.push(settled);
            }
            Inbound::Opened {
                path,
                dial,
                kind,
                remote,
                link,
            } => {
                // A path that an earlier core dialled closes as its link is dropped.
                if dial.is_none_or(|dial| dial.life == self.life) {
                    self.paths.insert(path, Some(link));
                    let dial = dial.map_or(0, |dial| dial.dial);
                    self.input(&Input::PathOpened {
                        path,
                        dial,
                        kind,
                        remote: &remote,
                    });
                }
            }
            Inbound::Closed { path } => self.closed(path),
            Inbound::Failed { path, reason } => {
                self.path_failure = reason;
                self.closed(path);
            }
            Inbound::DialFailed { dial, reason } => {
                if dial.life == self.life {
                    self.last_dial_failure = reason;
                    self.input(&Input::DialFailed { dial: dial.dial });
                }
            }
        }
    }

    fn closed(&mut self, path: u32) {
        if self.paths.remove(&path).is_some() {
            self.input(&Input::PathClosed { path });
        }
    }

    pub(super) fn stream_input(&mut self, input: StreamInput) {
        match input {
            StreamInput::Data { key, data } => self.data(key, &data),
            StreamInput::Last { key, data } => {
                self.data(key, &data);
                self.end(key);
            }
            StreamInput::End { key } => self.end(key),
        }
    }

    pub(super) fn stream_signal(&mut self, signal: StreamSignal) {
        match signal {
            StreamSignal::Credit { key, bytes } => {
                if self.stream(key).is_some() {
                    self.input(&Input::StreamCredit {
                        stream: key.stream,
                        bytes,
                    });
                }
            }
            StreamSignal::Reset { key, code } => {
                if self.stream(key).is_some() {
                    // The other end of the application may still wait.
                    if let Some(entry) = self.streams.remove(&key.stream) {
                        entry.fail(Cause::Reset(code.as_u16()));
                    }
                    self.input(&Input::StreamReset {
                        stream: key.stream,
                        code: code.as_u16(),
                    });
                }
            }
            StreamSignal::Discard { key, bytes } => self.discard(key, bytes),
        }
    }

    fn frame(&mut self, path: u32, frame: &[u8]) {
        if let Some(Some(_)) = self.paths.get(&path) {
            self.input(&Input::Received { path, frame });
        }
    }

    fn data(&mut self, key: StreamKey, data: &[u8]) {
        if self.stream(key).is_some() {
            self.input(&Input::StreamData {
                stream: key.stream,
                data,
            });
        }
    }

    fn end(&mut self, key: StreamKey) {
        let Some(entry) = self.stream(key) else {
            return;
        };
        entry.sent_end = true;
        let is_over = entry.received_end;
        if is_over {
            self.streams.remove(&key.stream);
        }
        self.input(&Input::StreamEnd { stream: key.stream });
    }

    pub(super) fn control(&mut self, message: Control) {
        match message {
            Control::Command {
                tag,
                item,
                effect,
                waiter,
            } => self.command(tag, item, effect, waiter),
            Control::Cancel { tag } => {
                if self.pending.remove(&tag).is_some() {
                    self.input(&Input::Cancel { tag });
                }
            }
            Control::LookedUp { life, peer, code } if life.is_none_or(|life| life == self.life) => {
                self.input(&Input::LookedUp { peer: peer.0, code });
            }
            Control::LookedUp { .. } => {}
            Control::Answered { key, body } => {
                // An earlier core had other messages.
                if key.life == self.life {
                    self.input(&Input::AnswerRouted {
                        message: key.message,
                        ok: body.is_some(),
                        body: body.as_deref().unwrap_or_default(),
                    });
                }
            }
            Control::Stop => self.stopped = true,
        }
    }

    fn command(&mut self, tag: u32, item: Item, effect: Effect, waiter: Waiter) {
        if effect == Effect::Joins {
            self.has_refused_private = false;
        }
        self.batch
            .item(item.kind, |out| out.extend_from_slice(&item.payload));
        self.tags.push(tag);
        self.pending.insert(tag, Pending { waiter, effect, item });
    }

    fn discard(&mut self, key: StreamKey, bytes: u32) {
        let Some(entry) = self.stream(key) else {
            return;
        };
        entry.inbox = None;
        if !entry.received_end && bytes > 0 {
            self.input(&Input::StreamCredit {
                stream: key.stream,
                bytes,
            });
        }
    }

    /// Repeats for a new core what an earlier one had been told for good.
    pub(super) fn repeat(&mut self) {
        for (effect, item) in core::mem::take(&mut self.lasting) {
            let command = repeated(self.handle.next_tag(), 0, effect, item);
            self.control(command);
        }
        for (tag, Pending { waiter, effect, item }) in core::mem::take(&mut self.watches) {
            self.command(tag, item, effect, waiter);
        }
    }

    /// Notes what a command that succeeded changes for good.
    pub(super) fn remember(&mut self, effect: Effect, item: Item) {
        match effect {
            Effect::None => {}
            Effect::Joins | Effect::Publishes(..) => _ = self.lasting.insert(effect, item),
            Effect::Leaves => _ = self.lasting.remove(&Effect::Joins),
            Effect::Certifies(certificate) => self.config.certificate = certificate,
            Effect::Withdraws(owner, name) => _ = self.lasting.remove(&Effect::Publishes(owner, name)),
        }
    }

    /// Repeats a command after a while that has failed so many times: what has to last is not given up because nobody answered.
    pub(super) fn repeat_later(&self, failures: u32, effect: Effect, item: Item, error: &Error) {
        if is_told(failures) {
            tracing::warn!(%error, failures, "{effect} failed and is tried again");
        }
        let handle = self.handle.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(REPEAT_PAUSE).await;
            handle.control(repeated(handle.next_tag(), failures, effect, item));
        });
    }
}

/// Whether a failure is logged: the first, then after pauses that double, up to about a minute.
fn is_told(failures: u32) -> bool {
    match failures {
        0..REPEATS_PER_WARNING => failures.is_power_of_two(),
        _ => failures.is_multiple_of(REPEATS_PER_WARNING),
    }
}

/// A command with a new tag for which only the driver waits.
fn repeated(tag: u32, failures: u32, effect: Effect, mut item: Item) -> Control {
    // Every command begins with its tag.
    if let Some(place) = item.payload.first_chunk_mut() {
        *place = tag.to_le_bytes();
    }
    Control::Command {
        tag,
        item,
        effect,
        waiter: Waiter::Driver { failures },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_failure_is_logged_about_once_a_minute() {
        let told: Vec<u32> = (0..=100).filter(|failures| is_told(*failures)).collect();
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64, 96]);
    }
}
