//! What all parts of a client share: its servers, what it believes, and what it asks its host to do.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};
use selfsame_sodium::random::Random;
use selfsame_write_batch::WriteBatch;

use super::effect::{Config, Effect, Timing};
use super::memory::{Seen, metadata_key, seen_key};
use super::pointees::Pointees;
use super::random::generator;
use super::servers::Server;
use super::sightings::Sightings;
use super::trees::{Tree, Trees};
use super::trust::{Identity, Trust};
use crate::authorship::{Attribution, Authorship};
use crate::file::read_epoch;
use crate::hash::{CapsuleName, HASH_BYTES, RecordName};
use crate::header::HeaderView;
use crate::message::{Envelope, Operation, SessionId, VERSION};
use crate::proof::Prover;
use crate::refusal::{Refusal, Result};
use crate::verifier::SharedVerifier;

/// A request under way
#[derive(Debug)]
pub(super) struct Sent {
    /// To which server.
    pub(super) server: usize,
    /// For which job.
    pub(super) job: u32,
    /// What was asked.
    pub(super) ask: Ask,
    /// In which session its proofs are, if they build on what was verified before.
    pub(super) session: Option<SessionId>,
    /// Whether it opens that session.
    opens: bool,
    /// How many epoch records were known when it was sent: it asks for those after them.
    pub(super) epochs: u32,
    /// When another server is asked too.
    pub(super) hedge_at: Option<u64>,
    /// When it is given up.
    pub(super) expires: u64,
}

/// What a request asks
#[derive(Debug)]
pub(super) enum Ask {
    /// To store a part of what a job writes, and the capsule before if it is `creating`.
    Store {
        part: usize,
        creating: bool,
        introducing: bool,
    },
    /// Items of a query.
    Items(Vec<Asked>),
    /// The heads, and to prove those that were seen before.
    Fresh(Vec<RecordName>),
    /// To prove heads that it has named.
    Heads(Vec<RecordName>),
    /// The metadata.
    Describe,
    /// To store what the server has missed.
    CatchUp,
}

/// An item of a query that was asked for
#[derive(Debug)]
pub(super) struct Asked {
    /// Its number in the query.
    pub(super) index: usize,
    /// Whether its proof is asked for.
    pub(super) proves: bool,
    /// Who answers for its record, if that was verified before.
    pub(super) known: Option<Attribution>,
    /// Of a sub-record, against what it is verified.
    pub(super) against: Option<Against>,
}

/// Against what a sub-record is verified
#[derive(Clone, Debug)]
pub(super) enum Against {
    /// What its record begins with.
    Trunk {
        /// Which of those that the request asks for.
        number: usize,
        /// Whether it asks for it with this item.
        is_here: bool,
    },
    /// A node that was verified before.
    Node {
        /// In this tree.
        tree: Rc<Tree>,
        /// So many levels above the sub-record.
        level: u32,
        /// Its hash.
        hash: [u8; HASH_BYTES],
    },
}

impl Asked {
    /// Whether what its record begins with is asked for with it.
    pub(super) fn asks_trunk(&self) -> bool {
        matches!(self.against, Some(Against::Trunk { is_here: true, .. }))
    }
}

/// Why an answer is none
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server cannot answer now.
    Failed(Refusal),
    /// The server has given what no honest server gives.
    False(Refusal),
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::False(Refusal::new(Code::BadMessage, 0))
    }
}

/// What a response begins with
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The session's serial.
    pub(super) serial: u32,
    /// How many epoch records the server has.
    pub(super) epochs: Result<u32>,
}

/// What all parts of a client share
#[derive(Debug)]
pub(super) struct Base {
    pub(super) capsule: CapsuleName,
    pub(super) servers: Vec<Server>,
    pub(super) identity: Option<Identity>,
    pub(super) write_quorum: usize,
    pub(super) read_quorum: usize,
    pub(super) timing: Timing,
    pub(super) slots_log2: u8,
    pub(super) verifier: SharedVerifier,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) effects: VecDeque<Effect>,
    pub(super) sent: BTreeMap<u32, Sent>,
    pub(super) trust: Option<Trust>,
    pub(super) seen: Seen,
    pub(super) prover: Prover,
    pub(super) sightings: Sightings,
    pub(super) pointees: Pointees,
    pub(super) trees: Trees,
    /// A session that is never opened: proofs in it begin with a signature.
    pub(super) uncached: SessionId,
    /// The server that is asked first.
    pub(super) preferred: usize,
    last_request: u32,
    last_tag: u32,
}

impl Base {
    pub(super) fn new(config: Config) -> Self {
        let mut random = generator(&config.entropy);
        Self {
            capsule: config.capsule,
            servers: config.servers.into_iter().map(Server::new).collect(),
            identity: config.seed.map(Identity::new),
            write_quorum: config.write_quorum,
            read_quorum: config.read_quorum,
            timing: config.timing,
            slots_log2: config.slots_log2,
            verifier: config.verifier,
            uncached: random.bytes(),
            random,
            now: 0,
            effects: VecDeque::new(),
            sent: BTreeMap::new(),
            trust: None,
            seen: Seen::default(),
            prover: Prover::default(),
            sightings: Sightings::default(),
            pointees: Pointees::default(),
            trees: Trees::default(),
            preferred: 0,
            last_request: 0,
            last_tag: 0,
        }
    }

    /// What is believed, once the metadata is known.
    ///
    /// # Errors
    /// [`Code::NoCapsule`].
    pub(super) fn trust(&self) -> Result<&Trust> {
        self.trust
            .as_ref()
            .ok_or_else(|| Refusal::new(Code::NoCapsule, 0))
    }

    pub(super) fn reply(&mut self, command: u32, result: Result<super::command::Reply>) {
        self.effects.push_back(Effect::Reply { command, result });
    }

    pub(super) fn tag(&mut self) -> u32 {
        self.last_tag = self.last_tag.wrapping_add(1);
        self.last_tag
    }

    /// Asks for changes to be written; returns the tag of the answer.
    pub(super) fn commit(&mut self, batch: WriteBatch, durable: bool) -> u32 {
        let tag = self.tag();
        self.effects.push_back(Effect::Commit { tag, batch, durable });
        tag
    }

    /// Keeps the capsule's metadata.
    pub(super) fn keep_metadata(&mut self, metadata: &[u8]) {
        let key = metadata_key(&self.capsule);
        let batch = WriteBatch::put(&key, |out| out.extend_from_slice(metadata));
        self.commit(batch, false);
    }

    /// Keeps what was seen.
    pub(super) fn keep_seen(&mut self) {
        let batch = WriteBatch::put(&seen_key(&self.capsule), |out| self.seen.encode(out));
        self.commit(batch, false);
    }

    /// Begins a request whose proofs may build on what was verified before.
    pub(super) fn begin_cached(&mut self, server: usize) -> (Vec<u8>, Option<SessionId>, bool) {
        let opens = self.servers[server].open_session(&mut self.random, self.slots_log2);
        let session = &self.servers[server].session;
        let (id, verified) = (session.id, session.verified);
        let mut message = self.envelope(id, verified);
        if opens {
            Operation::Open {
                slots_log2: self.servers[server].slots_log2(self.slots_log2),
            }
            .write(&mut message);
        }
        self.ask_epochs(&mut message);
        (message, Some(id), opens)
    }

    /// Begins a request whose proofs begin with signatures, or that asks for none.
    pub(super) fn begin(&self) -> Vec<u8> {
        let mut message = self.envelope(self.uncached, 0);
        self.ask_epochs(&mut message);
        message
    }

    fn envelope(&self, session: SessionId, verified: u32) -> Vec<u8> {
        let mut message = Vec::new();
        Envelope {
            capsule: self.capsule,
            session,
            verified,
        }
        .write(&mut message);
        message
    }

    fn ask_epochs(&self, message: &mut Vec<u8>) {
        let from = self.epochs();
        Operation::Epochs { from }.write(message);
    }

    pub(super) fn epochs(&self) -> u32 {
        self.trust.as_ref().map_or(0, Trust::epochs)
    }

    /// Sends a request that may build on a session.
    pub(super) fn send_in(
        &mut self,
        server: usize,
        job: u32,
        ask: Ask,
        bytes: Arc<Vec<u8>>,
        (session, opens): (Option<SessionId>, bool),
    ) {
        self.last_request = self.last_request.wrapping_add(1);
        let request = self.last_request;
        let is_read = !matches!(ask, Ask::Store { .. });
        self.servers[server].in_flight += 1;
        self.sent.insert(
            request,
            Sent {
                server,
                job,
                ask,
                session,
                opens,
                epochs: self.epochs(),
                hedge_at: is_read.then_some(self.now + self.timing.hedge_ms),
                expires: self.now + self.timing.attempt_ms,
            },
        );
        self.effects.push_back(Effect::Send {
            server: server as u16,
            request,
            bytes,
        });
    }

    /// Sends a request that builds on no session.
    pub(super) fn send(&mut self, server: usize, job: u32, ask: Ask, bytes: Arc<Vec<u8>>) {
        self.send_in(server, job, ask, bytes, (None, false));
    }

    /// Reads what a response begins with, and takes the epoch records in it.
    ///
    /// # Errors
    /// Why it is no answer.
    pub(super) fn read_head(
        &mut self,
        sent: &Sent,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<Head, Fault> {
        if reader.field::<u8>()? != VERSION {
            return Err(Malformed.into());
        }
        outcome(reader)?.map_err(Fault::Failed)?;
        let serial: u32 = reader.field()?;
        if sent.opens {
            outcome(reader)?.map_err(Fault::Failed)?;
        }
        let epochs = match outcome(reader)? {
            Ok(()) => Ok(self.read_epochs(sent.epochs, reader)?),
            Err(refusal) => Err(refusal),
        };
        Ok(Head { serial, epochs })
    }

    fn read_epochs(&mut self, from: u32, reader: &mut Reader<'_>) -> core::result::Result<u32, Fault> {
        let total: u32 = reader.field()?;
        let count: u16 = reader.field()?;
        let is_short = total > from && count == 0;
        if is_short || u64::from(from) + u64::from(count) > u64::from(total).max(u64::from(from)) {
            return Err(Malformed.into());
        }
        for place in (from..).take(usize::from(count)) {
            let (record, signature) = read_epoch(reader).map_err(Fault::False)?;
            if place == self.epochs() {
                self.apply(&record, &signature).map_err(Fault::False)?;
            }
        }
        Ok(total)
    }

    /// Takes the next epoch record.
    ///
    /// # Errors
    /// Why it is none; [`Code::RolledBack`] when it is another one than was seen in its place.
    pub(super) fn apply(
        &mut self,
        record: &crate::record::Record<'_>,
        signature: &crate::keys::Signature,
    ) -> Result<()> {
        let Some(trust) = &mut self.trust else {
            return Ok(());
        };
        let name = record.header.name(trust.charter.hasher());
        let is_known = trust.epochs().checked_add(1) == Some(self.seen.epochs);
        if is_known && self.seen.last_epoch.is_some_and(|last| last != name) {
            return Err(Refusal::new(Code::RolledBack, 0));
        }
        let (name, changed) = trust.apply(self.identity.as_ref(), record, signature)?;
        let authority = &trust.authority;
        if trust.epochs() > self.seen.epochs {
            self.seen.epochs = trust.epochs();
            self.seen.last_epoch = Some(name);
            self.seen
                .heads
                .retain(|_, origin| !authority.is_revoked(origin.writer));
            self.keep_seen();
        }
        if changed.revoked {
            self.servers.iter_mut().for_each(Server::forget);
            self.trees.forget();
        }
        Ok(())
    }

    /// Whether a server's answers may be believed: it knows as many epoch records as were seen, and so does this client.
    ///
    /// # Errors
    /// [`Code::RolledBack`], or why it gave no epoch records.
    pub(super) fn is_current(&self, head: &Head) -> Result<bool> {
        let total = head.epochs?;
        if total < self.seen.epochs {
            return Err(Refusal::new(Code::RolledBack, total as usize));
        }
        Ok(total <= self.epochs())
    }

    /// Who answers for a name that was verified in the session of any server: what says most of it.
    pub(super) fn attribution(&self, name: &RecordName) -> Option<Attribution> {
        let known = self.servers.iter().filter_map(Server::verified);
        let known = known.filter_map(|verified| verified.attribution(&name.0));
        known.reduce(Attribution::or_better)
    }

    /// Takes note of a header that is proven, for which this answers.
    pub(super) fn note(&mut self, name: &RecordName, header: &HeaderView<'_>, authorship: Authorship) {
        self.pointees.note(name, header.writer(), authorship.is_signed());
        if authorship.is_signed() {
            self.sightings.note(name, header);
        }
    }

    /// The server that may be asked now, is not among `excluded`, and comes first after the preferred one.
    pub(super) fn choose(&self, excluded: u32) -> Option<usize> {
        let count = self.servers.len();
        (0..count)
            .map(|offset| (self.preferred + offset) % count)
            .find(|server| excluded & (1 << server) == 0 && self.servers[*server].is_ready(self.now))
    }

    /// All servers, as bits.
    pub(super) fn all(&self) -> u32 {
        u32::MAX >> (u32::BITS - self.servers.len() as u32)
    }

    /// A server did not answer, or gave what is false.
    pub(super) fn blame(&mut self, server: usize, fault: Fault) {
        let (now, avoid) = (self.now, self.timing.avoid_ms);
        match fault {
            Fault::Failed(_) => self.servers[server].fail(now, avoid),
            Fault::False(_) => self.servers[server].avoid(now + avoid),
        }
        if self.preferred == server {
            self.preferred = (server + 1) % self.servers.len();
        }
    }
}

/// Reads whether an operation, or a whole request, was carried out.
pub(super) fn outcome(reader: &mut Reader<'_>) -> core::result::Result<Result<()>, Malformed> {
    let code: u16 = reader.field()?;
    if code == 0 {
        return Ok(Ok(()));
    }
    let at: u32 = reader.field()?;
    let code = Code::from_u16(code).ok_or(Malformed)?;
    Ok(Err(Refusal { code, at }))
}
