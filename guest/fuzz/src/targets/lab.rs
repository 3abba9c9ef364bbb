//! One node in a host that answers like a real one and checks every batch that it gets.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use selfsame_codec::{
    Admission, BatchReader, BatchWriter, Code, Config, EntryWriter, Input, Operation, Operations, Output,
    Role,
};
use selfsame_core::Node;
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::record::{MAX_RECORD_LIFE_MS, NodeRecord, RecordTerms};
use selfsame_core::ring::Parameters;

/// The network of all nodes.
pub(super) const NETWORK: &str = "twiitr";
/// When everything begins.
pub(super) const START_MS: u64 = 1_800_000_000_000;
/// The head of a request: `GET /`.
pub(super) const HEAD: &[u8] = b"\x83\x63GET\x61/\x80";
/// Steps after one input until a node has nothing more to ask of its store.
const MAX_ANSWERS: usize = 1000;

pub(super) fn network() -> NetworkId {
    NetworkId::open(NETWORK)
}

pub(super) fn identity(seed: u8) -> Identity {
    Identity::recall(&[seed; 32], network(), &[])
}

/// Nodes that targets know by a seed.
const KNOWN: u8 = 16;

/// What every execution would otherwise make again
struct Known {
    ids: Vec<PeerId>,
    records: Vec<NodeRecord>,
}

static NODES: LazyLock<Known> = LazyLock::new(|| Known {
    ids: (0..KNOWN).map(|seed| identity(seed).id()).collect(),
    records: (0..KNOWN).map(|seed| record(seed, Role::Member)).collect(),
});

/// The id of a node that is known by its seed.
pub(super) fn known_id(seed: u8) -> PeerId {
    NODES.ids[usize::from(seed % KNOWN)]
}

/// Its record as a member.
pub(super) fn known_record(seed: u8) -> NodeRecord {
    NODES.records[usize::from(seed % KNOWN)].clone()
}

/// The seed of a node that is known.
pub(super) fn seed_of(id: &PeerId) -> Option<u8> {
    let at = NODES.ids.iter().position(|known| known == id)?;
    u8::try_from(at).ok()
}

/// Who owns the name `check`.
pub(super) fn owner() -> Identity {
    Identity::of_owner(&[200; 32], network())
}

/// The owner's grant of the name `check` to the node with seed 1.
pub(super) fn owner_grant() -> Grant {
    let expiry_ms = START_MS + MAX_RECORD_LIFE_MS;
    let terms = Terms {
        name: "check".into(),
        peer: identity(1).id(),
        issued_ms: START_MS,
        expiry_ms,
        revoked: vec![identity(2).id(), identity(3).id()],
    };
    Grant::sign(&owner(), terms).expect("a sound grant")
}

pub(super) fn address(seed: u8) -> String {
    format!("ws://127.0.0.1:{}/.mesh", 7000 + u32::from(seed))
}

pub(super) fn record(seed: u8, role: Role) -> NodeRecord {
    let addresses = if role == Role::Member {
        vec![address(seed)]
    } else {
        vec![]
    };
    let expiry_ms = START_MS + MAX_RECORD_LIFE_MS;
    let terms = RecordTerms::new(role, &addresses, START_MS, expiry_ms);
    NodeRecord::sign(&identity(seed), &terms).expect("a sound record")
}

pub(super) fn config(seed: u8, role: Role) -> Config {
    Config {
        seed: [seed; 32],
        entropy: [seed ^ 0xff; 32],
        known_key: vec![],
        network: NETWORK.into(),
        role,
        addresses: if role == Role::Member {
            vec![address(seed)]
        } else {
            vec![]
        },
        bootstraps: vec![],
        dials: vec!["ws".into()],
        allow_private: true,
        trust_on_first_use: true,
        idle_ms: 15_000,
        domain: String::new(),
        admission: Admission::Open,
        authority: Vec::new(),
        certificate: Vec::new(),
        confirms: false,
        take_over: false,
    }
}

/// A node, its store and what it has asked of its host
pub(super) struct Lab {
    node: Node,
    /// The time that the node is told.
    pub(super) now_ms: u64,
    /// What it has stored.
    pub(super) store: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Frames that it transmitted, with their paths.
    pub(super) sent: Vec<(u32, Vec<u8>)>,
    /// The last snapshot of each path.
    pub(super) snapshots: BTreeMap<u32, Vec<u8>>,
    /// Paths that it closed.
    pub(super) closed: Vec<u32>,
    /// Numbers under which it dials.
    pub(super) dials: Vec<u32>,
    entropy: u8,
}

impl Lab {
    /// A node that has loaded what its store holds.
    pub(super) fn new(config: &Config, store: BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let mut lab = Self {
            node: Node::new(&config.encode(), &Parameters::DEFAULT).expect("a sound configuration"),
            now_ms: START_MS,
            store,
            sent: Vec::new(),
            snapshots: BTreeMap::new(),
            closed: Vec::new(),
            dials: Vec::new(),
            entropy: 0,
        };
        lab.step(&[]);
        lab
    }

    /// One step, and those that answer what the node asks of its store.
    pub(super) fn step(&mut self, inputs: &[Input<'_>]) {
        let mut batch = BatchWriter::new();
        inputs.iter().for_each(|input| input.encode(&mut batch));
        self.step_items(batch.as_bytes(), inputs.len());
    }

    /// The same with items that are encoded already, perhaps wrongly.
    pub(super) fn step_items(&mut self, items: &[u8], count: usize) {
        let mut answers = self.step_once(items, count);
        for _ in 0..MAX_ANSWERS {
            if answers.is_empty() {
                return;
            }
            answers = self.step_once(answers.as_bytes(), usize::MAX);
        }
        panic!("the node asks its store for ever");
    }

    fn step_once(&mut self, items: &[u8], count: usize) -> BatchWriter {
        let mut batch = self.now_ms.to_le_bytes().to_vec();
        batch.extend_from_slice(items);
        let outputs = self.node.step(&batch).to_vec();
        let mut answers = BatchWriter::new();
        let mut has_woken = false;
        for item in BatchReader::new(&outputs).expect("outputs are a batch") {
            assert!(!has_woken, "Wake is the last output");
            let output = Output::decode(item).expect("an output decodes");
            has_woken = matches!(output, Output::Wake { .. });
            check_output(&output, count);
            self.take(output, &mut answers);
        }
        assert!(has_woken, "Wake is there");
        answers
    }

    fn take(&mut self, output: Output<'_>, answers: &mut BatchWriter) {
        match output {
            Output::Transmit { path, frame } => self.sent.push((path, frame.to_vec())),
            Output::Snapshot { path, snapshot } => _ = self.snapshots.insert(path, snapshot.to_vec()),
            Output::ClosePath { path } => {
                self.closed.push(path);
                Input::PathClosed { path }.encode(answers);
            }
            Output::Dial { dial, .. } => self.dials.push(dial),
            Output::NeedEntropy {} => {
                self.entropy = self.entropy.wrapping_add(1);
                let bytes = [self.entropy; 32];
                Input::Entropy { bytes }.encode(answers);
            }
            Output::StoreGet { tag, key } => {
                let found = self.store.get_key_value(key);
                read_answer(tag, found.into_iter(), answers);
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let range = self.store.range(start.to_vec()..end.to_vec());
                read_answer(tag, range.take(limit as usize), answers);
            }
            Output::StoreCommit { tag, operations, .. } => {
                for operation in Operations::new(operations) {
                    match operation.expect("an operation decodes") {
                        Operation::Put { key, value } => _ = self.store.insert(key.to_vec(), value.to_vec()),
                        Operation::Delete { key } => _ = self.store.remove(key),
                    }
                }
                Input::StoreCommitted { tag, ok: true }.encode(answers);
            }
            _ => {}
        }
    }
}

fn read_answer<'a>(
    tag: u32,
    found: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
    answers: &mut BatchWriter,
) {
    let mut entries = EntryWriter::new();
    found.for_each(|(key, value)| entries.push(key, value));
    let entries = entries.as_bytes();
    Input::StoreRead {
        tag,
        ok: true,
        entries,
    }
    .encode(answers);
}

/// What every output must keep to, whatever went in.
fn check_output(output: &Output<'_>, inputs: usize) {
    match *output {
        Output::Transmit { frame, .. } => {
            assert!(
                frame.len() <= selfsame_core::channel::MAX_FRAME,
                "a frame fits its path"
            );
        }
        Output::Snapshot { snapshot, .. } => {
            assert!(snapshot.len() <= 2048, "a snapshot fits a hibernating socket");
        }
        Output::Refused { input, code } => {
            assert!(
                input == u32::MAX || (input as usize) < inputs,
                "a refused input is there"
            );
            assert!(Code::from_u16(code).is_some(), "a code is known");
        }
        Output::Failed { code, .. } | Output::Log { code, .. } | Output::StreamReset { code, .. } => {
            assert!(Code::from_u16(code).is_some(), "a code is known");
        }
        Output::StoreCommit { operations, .. } => {
            assert!(operations.len() <= 512 * 1024, "a commit fits the smallest store");
        }
        _ => {}
    }
}
