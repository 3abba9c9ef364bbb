//! One host: what a core has of sockets, disk and time.

use std::collections::BTreeMap;

use selfsame_codec::reply::decode_found_node;
use selfsame_codec::{Code, Config};
use selfsame_core::identity::PeerId;

use crate::disk::Disk;
use crate::machine::Handle;
use crate::network::Place;
use crate::queue::Event;

/// What a command came to
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, with the body of its reply.
    Reply(Vec<u8>),
    /// A call opened a stream to this peer.
    Opened([u8; 32]),
    /// It failed with this code.
    Failed(u16),
}

/// An answer to a command, and when it came
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The time.
    pub at_ms: u64,
    /// What it came to.
    pub outcome: Outcome,
}

impl Answer {
    /// The id of the node that a `FindNode` found, and how many members were asked until then.
    ///
    /// # Panics
    /// When the core encoded it wrongly.
    #[must_use]
    pub fn found_node(&self) -> Option<([u8; 32], u32)> {
        let Outcome::Reply(body) = &self.outcome else {
            return None;
        };
        let (node, hops) = decode_found_node(body).expect("a core encodes its replies");
        Some((node.id, hops))
    }
}

/// A stream that is open, as a core told its application
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The core's number for it.
    pub stream: u32,
    /// The tag of the call; 0 at the side that was called.
    pub tag: u32,
    /// The peer at the other end.
    pub peer: [u8; 32],
    /// The name that was called.
    pub service: String,
}

/// One end of a link
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) link: u64,
    pub(crate) side: usize,
}

/// A host and the node on it
pub struct Host {
    pub(crate) config: Config,
    pub(crate) id: PeerId,
    /// The running core; none while the host is down.
    pub(crate) core: Option<Handle>,
    /// How often it started.
    pub(crate) incarnation: u32,
    pub(crate) disk: Disk,
    pub(crate) place: Place,
    /// Hosts of different groups may be walled off from each other.
    pub group: u8,
    /// Whether others can dial it; not so behind an address translator.
    pub is_reachable: bool,
    /// Runs a copy of another host's store, and with it the same identity.
    pub(crate) is_clone: bool,
    /// How far its clock is ahead of the true time, in milliseconds.
    pub(crate) clock_ahead_ms: u64,
    /// The error that stopped the node as a whole.
    pub(crate) fatal: Option<Code>,
    pub(crate) paths: BTreeMap<u32, End>,
    /// Frames sent on connections whose other end is outside the simulation, by path.
    pub(crate) outside: BTreeMap<u32, Vec<Vec<u8>>>,
    pub(crate) opened: Vec<Opened>,
    pub(crate) last_path: u32,
    pub(crate) wake_ms: u64,
    pub(crate) last_tag: u32,
    /// What waits while the process is stopped.
    pub(crate) frozen: Option<Vec<Event>>,
    pub(crate) answers: BTreeMap<u32, Answer>,
    /// When its node has convicted peers, and by what evidence.
    pub(crate) convicted: Vec<(u64, Vec<u8>)>,
}

impl Host {
    /// The node's id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// What its node starts with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When its node has convicted peers since its first start, and by what evidence.
    #[must_use]
    pub fn convicted(&self) -> &[(u64, Vec<u8>)] {
        &self.convicted
    }

    /// Whether its process runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// Whether its process runs and is not stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.is_up() && self.frozen.is_none()
    }

    /// Whether it runs a copy of another host's store, and with it the same identity.
    #[must_use]
    pub fn is_clone(&self) -> bool {
        self.is_clone
    }

    /// The error that stopped the node as a whole at its last start, if one did.
    #[must_use]
    pub fn fatal(&self) -> Option<Code> {
        self.fatal
    }

    /// The first address at which it can be dialled; empty for a leaf.
    #[must_use]
    pub fn address(&self) -> &str {
        self.config.addresses.first().map_or("", String::as_str)
    }

    /// `url#id`, as others name it among their bootstraps.
    #[must_use]
    pub fn pinned(&self) -> String {
        format!("{}#{}", self.address(), self.id)
    }

    /// How many connections it has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.paths.len()
    }

    /// The number of its core in the machine, while it runs.
    #[must_use]
    pub fn core(&self) -> Option<Handle> {
        self.core
    }

    /// Takes the streams that were opened since the last call, by itself or by others.
    pub fn take_opened(&mut self) -> Vec<Opened> {
        core::mem::take(&mut self.opened)
    }

    /// What a command came to, if it was answered.
    #[must_use]
    pub fn answer(&self, tag: u32) -> Option<&Answer> {
        self.answers.get(&tag)
    }

    /// Takes an answer away.
    pub fn take_answer(&mut self, tag: u32) -> Option<Answer> {
        self.answers.remove(&tag)
    }
}
