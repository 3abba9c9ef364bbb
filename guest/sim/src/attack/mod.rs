//! Members that lie, together: what they know of each other, and what they say instead of the truth.

mod leases;
mod lies;
mod tap;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use fastrand::Rng;
use selfsame_codec::Config;
use selfsame_core::admission::Gate;
use selfsame_core::association::Association;
use selfsame_core::identity::{NetworkId, PeerId};
use selfsame_core::record::NodeRecord;
use selfsame_core::ring::simulation::{EntryBytes, Tap};

use leases::Leases;
pub use leases::Lie;
use lies::Peers;
use tap::Liar;

use crate::world::identity_of;

type Id = [u8; 32];
/// An association and its publisher's record
type Entry = (Vec<u8>, Vec<u8>);

/// Most answers that are kept to be given again.
const MAX_OLD_ANSWERS: usize = 256;

/// What attackers do
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Leave every lookup and every store without an answer
    Drop,
    /// Lead lookups back, to accomplices, or claim whatever is looked up
    Misroute,
    /// Change what is signed: records, associations, and who says that it is responsible
    Forge,
    /// Give old answers, old records and old associations again
    Replay,
    /// Name nobody but accomplices, in lookups, updates, joins and hints
    Eclipse,
    /// Answer for names with associations whose publishers do not exist
    Ghost,
    /// Answer for names with nothing but the associations of a publisher that has died
    Hide,
    /// Say that they leave, name accomplices as neighbours, keep what they held, and stay
    Leave,
    /// Eclipse, by keys that were tried until all of them lie before one victim
    Grind,
}

/// Attackers that tell each other all they know
#[derive(Clone)]
pub struct Coalition {
    shared: Arc<Mutex<Shared>>,
}

/// What attackers know together
struct Shared {
    network: NetworkId,
    gate: Gate,
    kind: Option<Kind>,
    /// What they say of groups, in a closed network.
    lie: Option<Lie>,
    leases: Leases,
    now_ms: u64,
    /// The attackers, with their newest records.
    accomplices: Peers,
    /// The first record that was seen of each other node.
    old_records: Peers,
    /// Answers to lookups, of any position.
    old_answers: Vec<Vec<u8>>,
    /// What was stored under each object first.
    old_entries: BTreeMap<Id, Vec<Entry>>,
    /// Associations of publishers that do not exist, by their objects.
    ghosts: BTreeMap<Id, Entry>,
    dice: Rng,
}

impl Coalition {
    /// Attackers of a network, nobody yet.
    #[must_use]
    pub fn new(network: NetworkId, seed: u64) -> Self {
        Self::behind(Gate::new(network, None), seed)
    }

    /// Attackers of a network that checks others with this gate.
    #[must_use]
    pub fn behind(gate: Gate, seed: u64) -> Self {
        let shared = Shared {
            network: *gate.network(),
            gate,
            kind: None,
            lie: None,
            leases: Leases::default(),
            now_ms: 0,
            accomplices: Peers::default(),
            old_records: Peers::default(),
            old_answers: Vec::new(),
            old_entries: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            dice: Rng::with_seed(seed),
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// The tap of a core; it does nothing until its node is one of the attackers and they have turned.
    #[must_use]
    pub fn tap(&self, config: &Config) -> Box<dyn Tap> {
        Box::new(Liar::new(identity_of(config), self.clone()))
    }

    /// Makes a node one of the attackers. It goes on as all others do and takes note of what it sees.
    pub fn enlist(&self, node: [u8; 32]) {
        self.lock().accomplices.enlist(node);
    }

    /// Lets all attackers lie from now on.
    pub fn turn(&self, kind: Kind) {
        self.lock().kind = Some(kind);
    }

    /// Lets all attackers tell the truth again, or lie so from now on in a closed network.
    pub fn tell(&self, lie: Option<Lie>) {
        let mut shared = self.lock();
        shared.kind = lie.and_then(Lie::kind);
        shared.lie = lie;
    }

    /// Takes note of nodes whose certificates are revoked, for attackers who go on naming them.
    pub fn revoked(&self, nodes: &[[u8; 32]]) {
        self.lock().leases.revoked.extend(nodes);
    }

    /// Attackers that have given two honest members different leases for one epoch.
    #[must_use]
    pub fn equivocators(&self) -> BTreeSet<[u8; 32]> {
        self.lock().leases.equivocators()
    }

    /// How often two honest members that held such leases have compared them, at most, for any attacker.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.lock().leases.exchanges()
    }

    /// Gives the attackers an association to answer with, and nothing else, whenever its object is looked up.
    pub fn haunt(&self, ghost: &Association, record: &NodeRecord) {
        let entry = (ghost.encoded().to_vec(), record.encoded().to_vec());
        self.lock().ghosts.insert(ghost.object().0, entry);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn remember_records(&mut self, records: &[&[u8]]) {
        for record in records {
            self.old_records.insert_first(record, &self.gate);
        }
    }

    fn remember_answer(&mut self, answer: &[u8]) {
        if self.old_answers.len() < MAX_OLD_ANSWERS {
            self.old_answers.push(answer.to_vec());
        }
    }

    /// Keeps an entry under its object, unless its publisher already has one there.
    fn remember_entry(&mut self, entry: &EntryBytes<'_>) {
        let verified = Association::decode_verified(
            &mut Gate::new(self.network, None),
            &|key| Some(PeerId::of(key, &self.network)),
            entry.association,
            self.now_ms,
        );
        let Ok(association) = verified else { return };
        let known = self.old_entries.entry(association.object().0).or_default();
        let publisher = association.publisher();
        let is_of = |known: &Entry| {
            let known = Association::decode_verified(
                &mut Gate::new(self.network, None),
                &|key| Some(PeerId::of(key, &self.network)),
                &known.0,
                self.now_ms,
            );
            known.is_ok_and(|known| known.publisher() == publisher)
        };
        if !known.iter().any(is_of) {
            known.push((entry.association.to_vec(), entry.record.to_vec()));
        }
    }
}
