//! Pushing on what writers have stored to the other replicas of a capsule. It is best effort: what gets lost on the way, or is
//! too much for a slow peer, synchronisation brings.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::job::Job;
use super::sync::PeerId;
use super::transfer::begin;
use crate::hash::CapsuleName;
use crate::message::{Envelope, MAX_OPERATIONS, REPLICAS};

/// Bytes that wait for one peer; what comes on top is not pushed.
const MAX_WAITING: usize = 4 << 20;
/// Bytes for all peers together, waiting and under way: peers may be one stranger's many identities and answer nothing. At most half are
/// under way, as much as the longest request.
const MAX_HELD: usize = 16 << 20;
const MAX_UNDER_WAY: usize = MAX_HELD / 2;
/// About what a request takes beside its bytes.
const OVERHEAD: usize = 256;
/// Bytes up to which further operations join a request that waits.
const JOINED: usize = 512 << 10;

/// A request that waits for its turn
#[derive(Debug)]
struct Waiting {
    capsule: CapsuleName,
    operations: usize,
    message: Vec<u8>,
}

/// What is held for one peer
#[derive(Debug, Default)]
struct Line {
    /// The request under way, and its bytes.
    asked: Option<(u32, usize)>,
    waiting: VecDeque<Waiting>,
    /// Bytes that wait.
    bytes: usize,
}

/// What is pushed to whom
#[derive(Debug, Default)]
pub(super) struct Pushes {
    replicas: BTreeMap<CapsuleName, Vec<PeerId>>,
    lines: BTreeMap<PeerId, Line>,
    waiting_bytes: usize,
    under_way_bytes: usize,
}

impl Pushes {
    /// Says who else stores a capsule.
    pub(super) fn set_replicas(&mut self, capsule: CapsuleName, peers: Vec<PeerId>) {
        if peers.is_empty() {
            self.replicas.remove(&capsule);
        } else {
            self.replicas.insert(capsule, peers);
        }
    }

    /// Lets what a writer's request has stored wait for every peer that stores the capsule too.
    pub(super) fn add(&mut self, job: &Job) {
        if job.envelope.session == REPLICAS {
            return;
        }
        let capsule = job.envelope.capsule;
        let Some(peers) = self.replicas.get(&capsule).cloned() else {
            return;
        };
        let operations: Vec<&[u8]> = job.storing().collect();
        if operations.is_empty() {
            return;
        }
        for peer in peers {
            self.waiting_bytes += self.lines.entry(peer).or_default().join(capsule, &operations);
            while self.waiting_bytes + self.under_way_bytes > MAX_HELD && self.shorten() {}
        }
    }

    /// Drops the newest request that waits for the peer for which the most does; whether there is one.
    fn shorten(&mut self) -> bool {
        let longest = self.lines.iter_mut().max_by_key(|(_, line)| line.bytes);
        let Some((peer, last)) = longest.and_then(|(peer, line)| Some((*peer, line.cut()?))) else {
            return false;
        };
        self.waiting_bytes -= last;
        self.remove_if_empty(&peer);
        true
    }

    /// The next request for a peer that none is under way to, and that least waits for; it is called `tag` from now on.
    pub(super) fn next(&mut self, tag: u32) -> Option<(PeerId, Vec<u8>)> {
        let is_idle = |line: &Line| line.asked.is_none() && !line.waiting.is_empty();
        let idle = self.lines.iter_mut().filter(|(_, line)| is_idle(line));
        let (peer, line) = idle.min_by_key(|(_, line)| line.bytes)?;
        let bytes = line.waiting.front()?.memory();
        if self.under_way_bytes > 0 && self.under_way_bytes + bytes > MAX_UNDER_WAY {
            return None;
        }
        let first = line.waiting.pop_front()?;
        line.bytes -= bytes;
        line.asked = Some((tag, bytes));
        self.waiting_bytes -= bytes;
        self.under_way_bytes += bytes;
        Some((*peer, first.message))
    }

    /// A request has come to its end, well or not; whether it was one of these. What waits for a peer that did not answer is dropped.
    pub(super) fn end(&mut self, tag: u32, is_answered: bool) -> bool {
        let is_this = |line: &Line| line.asked.is_some_and(|(asked, _)| asked == tag);
        let Some((peer, line)) = self.lines.iter_mut().find(|(_, line)| is_this(line)) else {
            return false;
        };
        let peer = *peer;
        if let Some((_, bytes)) = line.asked.take() {
            self.under_way_bytes -= bytes;
        }
        if !is_answered {
            line.waiting.clear();
            self.waiting_bytes -= core::mem::take(&mut line.bytes);
        }
        self.remove_if_empty(&peer);
        true
    }

    fn remove_if_empty(&mut self, peer: &PeerId) {
        let line = self.lines.get(peer);
        if line.is_some_and(|line| line.asked.is_none() && line.waiting.is_empty()) {
            self.lines.remove(peer);
        }
    }
}

impl Waiting {
    fn memory(&self) -> usize {
        self.message.len() + OVERHEAD
    }
}

impl Line {
    /// Drops the newest request that waits; how many bytes that were.
    fn cut(&mut self) -> Option<usize> {
        let bytes = self.waiting.pop_back()?.memory();
        self.bytes -= bytes;
        Some(bytes)
    }

    /// Lets operations wait, unless too much does; how many bytes more wait then.
    fn join(&mut self, capsule: CapsuleName, operations: &[&[u8]]) -> usize {
        let before = self.bytes;
        let more: usize = operations.iter().map(|operation| operation.len()).sum();
        let last = self.waiting.back_mut().filter(|last| {
            last.capsule == capsule
                && last.message.len() + more <= JOINED
                && last.operations + operations.len() <= MAX_OPERATIONS
        });
        if let Some(last) = last {
            operations
                .iter()
                .for_each(|operation| last.message.extend_from_slice(operation));
            last.operations += operations.len();
            self.bytes += more;
        } else if self.waiting.is_empty() || self.bytes + more <= MAX_WAITING {
            let envelope = Envelope {
                capsule,
                session: REPLICAS,
                verified: 0,
            };
            let mut message = begin(&envelope);
            operations
                .iter()
                .for_each(|operation| message.extend_from_slice(operation));
            let waiting = Waiting {
                capsule,
                operations: operations.len(),
                message,
            };
            self.bytes += waiting.memory();
            self.waiting.push_back(waiting);
        }
        self.bytes - before
    }
}
