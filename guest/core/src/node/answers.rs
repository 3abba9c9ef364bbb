//! Answers that this node awaits on streams: when they begin and end, and what that says of who gives them.

use selfsame_codec::http::status_of;
use selfsame_codec::{Class, Code, Output};

use super::Node;
use super::timers::Timer;
use crate::identity::PeerId;
use selfsame_sorted_map::Map;

/// A stream that this node called
#[derive(Clone, Copy, Debug)]
struct Awaited {
    peer: PeerId,
    started_ms: u64,
    deadline_ms: u64,
    has_begun: bool,
    is_failure: bool,
}

/// What became of an awaited answer
enum News {
    Began(Awaited),
    Over(Awaited),
}

/// Streams that this node called, until they are gone
#[derive(Default)]
pub(super) struct Answers {
    awaited: Map<u32, Awaited>,
    /// What the mesh has not been told yet.
    news: alloc::vec::Vec<(u32, News)>,
}

impl Answers {
    /// Bytes arrived on a stream. An answer that begins with a status that speaks against its provider counts as its failure.
    pub(super) fn data(&mut self, handle: u32, bytes: &[u8]) {
        let Some(awaited) = self.awaited.get_mut(&handle).filter(|awaited| !awaited.has_begun) else {
            return;
        };
        awaited.has_begun = true;
        awaited.is_failure = status_of(bytes).is_some_and(|status| matches!(status, 500 | 502..=504));
        let awaited = *awaited;
        self.news.push((handle, News::Began(awaited)));
    }

    /// A stream is gone; `failed` when its peer is the reason.
    pub(super) fn over(&mut self, handle: u32, failed: bool) {
        if let Some(mut awaited) = self.awaited.remove(&handle) {
            awaited.is_failure |= failed;
            self.news.push((handle, News::Over(*awaited)));
        }
    }
}

impl Node {
    /// An answer of a peer is awaited on a stream from now on; it has to begin by the deadline.
    pub(super) fn await_answer(&mut self, handle: u32, peer: PeerId, deadline_ms: u64) {
        let awaited = Awaited {
            peer,
            started_ms: self.now_ms,
            deadline_ms,
            has_begun: false,
            is_failure: false,
        };
        self.streams.answers.awaited.insert(handle, awaited);
        self.timers.set(deadline_ms, Timer::Answer(handle));
        self.mesh.started(peer, self.now_ms);
    }

    /// Tells the mesh how peers have answered.
    pub(super) fn judge_answers(&mut self) {
        for (handle, news) in core::mem::take(&mut self.streams.answers.news) {
            match news {
                News::Began(awaited) => {
                    self.timers.clear(awaited.deadline_ms, Timer::Answer(handle));
                    let took_ms = self.now_ms.saturating_sub(awaited.started_ms);
                    self.mesh.answered(&awaited.peer, took_ms, self.now_ms);
                }
                News::Over(awaited) => {
                    if !awaited.has_begun {
                        self.timers.clear(awaited.deadline_ms, Timer::Answer(handle));
                    }
                    self.mesh.ended(&awaited.peer, awaited.is_failure, self.now_ms);
                }
            }
        }
    }

    /// An answer has not begun in time: the stream is given up.
    pub(super) fn answer_timed_out(&mut self, handle: u32) {
        self.streams.answers.over(handle, true);
        if self.give_up_stream(handle, Class::Service).is_ok() {
            self.out.push(&Output::StreamReset {
                stream: handle,
                code: Code::Deadline.as_u16(),
            });
        }
    }
}
