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
/// Bytes up to which further operations join a request that waits.
const JOINED: usize = 512 << 10;

/// A request that waits for its turn
#[derive(Debug)]
struct Waiting {
    capsule: CapsuleName,
    operations: usize,
    message: Vec<u8>,
}

/// What waits for one peer
#[derive(Debug, Default)]
struct Line {
    /// The request under way.
    asked: Option<u32>,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

/// What is pushed to whom
#[derive(Debug, Default)]
pub(super) struct Pushes {
    replicas: BTreeMap<CapsuleName, Vec<PeerId>>,
    lines: BTreeMap<PeerId, Line>,
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
        let Some(peers) = self.replicas.get(&capsule) else {
            return;
        };
        let operations: Vec<&[u8]> = job.storing().collect();
        if operations.is_empty() {
            return;
        }
        for peer in peers {
            self.lines.entry(*peer).or_default().join(capsule, &operations);
        }
    }

    /// The next request for a peer that none is under way to; it is called `tag` from now on.
    pub(super) fn next(&mut self, tag: u32) -> Option<(PeerId, Vec<u8>)> {
        let is_idle = |line: &Line| line.asked.is_none() && !line.waiting.is_empty();
        let (peer, line) = self.lines.iter_mut().find(|(_, line)| is_idle(line))?;
        let first = line.waiting.pop_front()?;
        line.bytes -= first.message.len();
        line.asked = Some(tag);
        Some((*peer, first.message))
    }

    /// A request has come to its end, well or not; whether it was one of these.
    pub(super) fn end(&mut self, tag: u32) -> bool {
        let Some((peer, line)) = self.lines.iter_mut().find(|(_, line)| line.asked == Some(tag)) else {
            return false;
        };
        line.asked = None;
        if line.waiting.is_empty() {
            let peer = *peer;
            self.lines.remove(&peer);
        }
        true
    }
}

impl Line {
    fn join(&mut self, capsule: CapsuleName, operations: &[&[u8]]) {
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
            self.bytes += message.len();
            self.waiting.push_back(Waiting {
                capsule,
                operations: operations.len(),
                message,
            });
        }
    }
}
