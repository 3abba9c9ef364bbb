//! Asking which records are the newest: a quorum of servers says so over this client's nonce, and proves what it says.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::base::{Ask, Base, Fault, Head as ResponseHead, Sent, outcome};
use super::command::{Head, Heads, Reply, Start};
use super::trust::Identity;
use super::{Client, Job};
use crate::authorship::Authorship;
use crate::cache::Verified;
use crate::hash::RecordName;
use crate::header::{Header, HeaderView};
use crate::heads::Origin;
use crate::keys::Key;
use crate::message::{Fresh, FreshQuery, Operation};
use crate::refusal::{Refusal, Result};

/// What is done with the newest records
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The application is told.
    Tell,
    /// Writing begins.
    Init(Start),
    /// The application is told who writes.
    Describe,
}

/// What became of asking one server
#[derive(Debug)]
enum Standing {
    /// It is to be asked.
    Unasked,
    /// It was asked.
    Asked,
    /// It has named heads that it has yet to prove.
    Proving(Fresh),
    /// It has proven what it said.
    Counted(Fresh),
    /// What it said does not count.
    Refused(Refusal),
}

/// A query of the newest records under way
#[derive(Debug)]
pub(super) struct Query {
    pub(super) command: u32,
    pub(super) deadline: u64,
    purpose: Purpose,
    question: FreshQuery,
    standings: Vec<Standing>,
    /// Heads that were seen before and that some server has.
    known: BTreeSet<RecordName>,
    /// Records that carry their writer's signature: whatever these only lead to may be made up, by another writer, to stand before
    /// or after what its writer has written.
    proven: BTreeMap<RecordName, Header>,
    /// Those of them that came out to lie further on than a head that was named.
    further: BTreeSet<RecordName>,
}

impl Query {
    /// Whether some server has this record.
    fn has(&self, name: &RecordName) -> bool {
        self.known.contains(name) || self.proven.contains_key(name)
    }

    fn counted(&self) -> usize {
        let counts = |standing: &&Standing| matches!(standing, Standing::Counted(_));
        self.standings.iter().filter(counts).count()
    }

    fn answers(&self) -> impl Iterator<Item = (u16, &Fresh)> {
        (0..)
            .zip(&self.standings)
            .filter_map(|(server, standing)| match standing {
                Standing::Counted(fresh) => Some((server, fresh)),
                _ => None,
            })
    }
}

impl Client {
    /// Whether servers are being asked what this writer has signed last.
    pub(super) fn is_beginning(&self) -> bool {
        self.jobs.values().any(|job| match job {
            Job::Fresh(query) => matches!(query.purpose, Purpose::Init(_)),
            _ => false,
        })
    }

    /// Asks all servers.
    pub(super) fn ask_fresh(&mut self, (command, deadline): (u32, u64), purpose: Purpose) {
        let query = Query {
            command,
            deadline,
            purpose,
            question: FreshQuery {
                nonce: self.base.random.bytes(),
                // Whoever only reads need not say who it is.
                writer: self.own_key().filter(|_| matches!(purpose, Purpose::Init(_))),
            },
            standings: self.base.servers.iter().map(|_| Standing::Unasked).collect(),
            known: BTreeSet::new(),
            proven: BTreeMap::new(),
            further: BTreeSet::new(),
        };
        self.add_job(Job::Fresh(query));
    }

    /// Sends what can be sent; whether all of it is under way.
    pub(super) fn pump_fresh(&mut self, job: u32, query: &mut Query) -> bool {
        let mut is_all = true;
        for (server, standing) in query.standings.iter_mut().enumerate() {
            if !matches!(standing, Standing::Unasked) {
                continue;
            }
            if !self.base.servers[server].is_ready(self.base.now) {
                is_all = false;
                continue;
            }
            *standing = Standing::Asked;
            let mut message = self.base.begin();
            Operation::QueryFresh(query.question).write(&mut message);
            let seen: Vec<RecordName> = self.base.seen.heads.keys().copied().collect();
            for record in &seen {
                Operation::Prove { record: *record }.write(&mut message);
            }
            self.base.send(server, job, Ask::Fresh(seen), message.into());
        }
        is_all
    }

    /// Reads what a server says is new.
    ///
    /// # Errors
    /// Why it does not count.
    pub(super) fn take_fresh(
        &mut self,
        sent: &Sent,
        seen: &[RecordName],
        head: &ResponseHead,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        let Some(Job::Fresh(mut query)) = self.jobs.remove(&sent.job) else {
            return Ok(());
        };
        let read = self.read_fresh(&mut query, sent, seen, head, reader);
        self.stand(sent, query, &read);
        read.map(|_| ())
    }

    fn read_fresh(
        &mut self,
        query: &mut Query,
        sent: &Sent,
        seen: &[RecordName],
        head: &ResponseHead,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<Standing, Fault> {
        if let Some(standing) = self.base.out_of_date(sent.server, head) {
            return Ok(standing);
        }
        if let Err(refusal) = outcome(reader)? {
            return Ok(Standing::Refused(refusal));
        }
        let fresh: Fresh = reader.field()?;
        let Base {
            capsule, verifier, ..
        } = &self.base;
        let key = self.base.servers[sent.server].key;
        if fresh.server != key || !fresh.verify(&mut verifier.borrow_mut(), capsule, &query.question) {
            return Err(Fault::False(Refusal::new(Code::BadSignature, sent.server)));
        }
        if !fresh.heads.is_sorted_by(|one, other| one < other) {
            return Err(Fault::False(Refusal::new(Code::BadMessage, 0)));
        }
        for name in seen {
            if self.take_proof(query, name, reader)?.is_ok() {
                query.known.insert(*name);
            }
        }
        reader.field::<bool>()?;
        let named = fresh.heads.iter().chain(&fresh.newest);
        let unknown: BTreeSet<RecordName> = named
            .filter(|name| !query.proven.contains_key(*name))
            .copied()
            .collect();
        if unknown.is_empty() {
            return Ok(self.count(query, fresh));
        }
        let unknown: Vec<RecordName> = unknown.into_iter().collect();
        let mut message = self.base.begin();
        for record in &unknown {
            Operation::Prove { record: *record }.write(&mut message);
        }
        self.base
            .send(sent.server, sent.job, Ask::Heads(unknown), message.into());
        Ok(Standing::Proving(fresh))
    }

    /// Reads proofs of heads that a server has named.
    ///
    /// # Errors
    /// Why they are none.
    pub(super) fn take_heads(
        &mut self,
        sent: &Sent,
        names: &[RecordName],
        head: &ResponseHead,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        let Some(Job::Fresh(mut query)) = self.jobs.remove(&sent.job) else {
            return Ok(());
        };
        let read = self.read_heads(&mut query, sent, names, head, reader);
        self.stand(sent, query, &read);
        read.map(|_| ())
    }

    fn read_heads(
        &mut self,
        query: &mut Query,
        sent: &Sent,
        names: &[RecordName],
        head: &ResponseHead,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<Standing, Fault> {
        // Who may write has changed meanwhile: its heads too.
        if let Some(standing) = self.base.out_of_date(sent.server, head) {
            return Ok(standing);
        }
        for name in names {
            // What it cannot prove is no head, whatever it has said.
            _ = self.take_proof(query, name, reader)?;
        }
        reader.field::<bool>()?;
        let standing = core::mem::replace(&mut query.standings[sent.server], Standing::Asked);
        Ok(match standing {
            Standing::Proving(fresh) => self.count(query, fresh),
            other => other,
        })
    }

    /// An answer all of whose proofs were read. It counts unless it names a newest record that it has not shown the writer in question
    /// to have signed: one that does not prove what it names could hide all that comes before.
    fn count(&self, query: &Query, fresh: Fresh) -> Standing {
        let own = self.own_number();
        let is_shown = |name: &RecordName| {
            let header = query.proven.get(name);
            header.is_some_and(|header| own == Some(header.writer))
        };
        match fresh.newest.is_none_or(|newest| is_shown(&newest)) {
            true => Standing::Counted(fresh),
            false => Standing::Refused(Refusal::new(Code::Unproven, 0)),
        }
    }

    /// Reads and verifies a proof that begins with a signature, and remembers what is signed.
    fn take_proof(
        &mut self,
        query: &mut Query,
        name: &RecordName,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<Result<()>, Fault> {
        if let Err(refusal) = outcome(reader)? {
            return Ok(Err(refusal));
        }
        let proof: &[u8] = reader.field()?;
        let Some(trust) = &self.base.trust else {
            return Ok(Err(Refusal::new(Code::NoCapsule, 0)));
        };
        let hasher = trust.charter.hasher();
        let mut nothing = Verified::new(0);
        let verified = self.base.prover.verify(hasher, trust, &mut nothing, name, proof);
        verified.map_err(Fault::False)?;
        let signed = first_header(proof)?;
        let head = signed.name(hasher);
        self.base
            .note(&head, &signed, Authorship::SignedBy(signed.writer()));
        query.proven.insert(head, signed.to_header());
        if head != *name {
            // It is a head no more: what is signed further on is.
            query.further.insert(head);
        }
        Ok(Ok(()))
    }

    fn stand(&mut self, sent: &Sent, mut query: Query, read: &core::result::Result<Standing, Fault>) {
        let before = core::mem::replace(&mut query.standings[sent.server], Standing::Asked);
        query.standings[sent.server] = match read {
            Ok(standing) => {
                self.base.servers[sent.server].answered();
                match standing {
                    Standing::Unasked => Standing::Unasked,
                    Standing::Asked => before,
                    Standing::Proving(fresh) => Standing::Proving(fresh.clone()),
                    Standing::Counted(fresh) => Standing::Counted(fresh.clone()),
                    Standing::Refused(refusal) => Standing::Refused(*refusal),
                }
            }
            Err(Fault::Failed(_)) => Standing::Unasked,
            Err(Fault::False(refusal)) => Standing::Refused(*refusal),
        };
        self.settle_fresh(sent.job, query);
    }

    /// A server did not answer, or falsely.
    pub(super) fn miss_fresh(&mut self, sent: &Sent, fault: Fault) {
        if let Some(Job::Fresh(query)) = self.jobs.remove(&sent.job) {
            self.stand(sent, query, &Err(fault));
        }
    }

    fn settle_fresh(&mut self, job: u32, query: Query) {
        let counted = query.counted();
        // Another writer's record that is not there any more keeps nobody from writing: one server could have shown it to this
        // client alone.
        let own = match query.purpose {
            Purpose::Init(_) => self.own_number(),
            Purpose::Tell | Purpose::Describe => None,
        };
        let is_needed = |origin: &Origin| own.is_none_or(|own| own == origin.writer);
        let mut seen = self.base.seen.heads.iter();
        let has_all_seen = seen.all(|(name, origin)| !is_needed(origin) || query.has(name));
        let is_pending =
            |standing: &&Standing| !matches!(standing, Standing::Counted(_) | Standing::Refused(_));
        let pending = query.standings.iter().filter(is_pending).count();
        if counted >= self.base.read_quorum && has_all_seen {
            self.finish_fresh(query);
        } else if pending > 0 && counted + pending >= self.base.read_quorum {
            self.jobs.insert(job, Job::Fresh(query));
            self.stalled.insert(job);
        } else {
            let refusal = self.lacking(&query);
            self.fail_fresh(&query, refusal);
        }
    }

    /// Why a query that is given up has no answer.
    pub(super) fn lacking(&self, query: &Query) -> Refusal {
        let counted = query.counted();
        let refused = query.standings.iter().find_map(|standing| match standing {
            Standing::Refused(refusal) => Some(*refusal),
            _ => None,
        });
        if counted >= self.base.read_quorum {
            Refusal::new(Code::RolledBack, counted)
        } else {
            refused.unwrap_or_else(|| Refusal::new(Code::NoQuorum, counted))
        }
    }

    /// Gives up a query.
    pub(super) fn fail_fresh(&mut self, query: &Query, refusal: Refusal) {
        if matches!(query.purpose, Purpose::Init(_)) {
            self.is_beginning = false;
        }
        self.base.reply(query.command, Err(refusal));
    }

    fn finish_fresh(&mut self, query: Query) {
        let heads = newest(&query);
        self.remember(&query, &heads);
        let call = (query.command, query.deadline);
        match query.purpose {
            Purpose::Tell => {
                let reply = self.tell(query, heads);
                self.base.reply(call.0, Ok(reply));
            }
            Purpose::Describe => {
                let description = self.describe();
                self.base.reply(call.0, description.map(Reply::Described));
            }
            Purpose::Init(start) => self.begin_writing(call, start, self.own_newest(&query)),
        }
    }

    /// The newest of all records that this writer is shown to have signed, heads or not.
    fn own_newest(&self, query: &Query) -> Option<(u64, RecordName)> {
        let own = self.own_number()?;
        let signed = query.proven.iter().filter(|(_, header)| header.writer == own);
        signed.map(|(name, header)| (header.sequence, *name)).max()
    }

    fn own_key(&self) -> Option<Key> {
        self.base.identity.as_ref().map(Identity::public)
    }

    fn own_number(&self) -> Option<u16> {
        let trust = self.base.trust.as_ref()?;
        trust.number(self.base.identity.as_ref()).ok()
    }

    fn tell(&self, query: Query, heads: Vec<Head>) -> Reply {
        let (mut answers, mut refused) = (Vec::new(), Vec::new());
        for (server, standing) in (0..).zip(query.standings) {
            match standing {
                Standing::Counted(fresh) => answers.push((server, fresh)),
                Standing::Refused(refusal) => refused.push((server, refusal)),
                _ => {}
            }
        }
        Reply::Fresh(Heads {
            heads,
            answers,
            refused,
            forks: self.base.sightings.forks().to_vec(),
        })
    }

    /// From now on no older state is taken for the newest.
    fn remember(&mut self, query: &Query, heads: &[Head]) {
        let origin = |head: &Head| Origin {
            writer: head.header.writer,
            sequence: head.header.sequence,
        };
        let missing = self.base.seen.heads.iter().filter(|(name, _)| !query.has(name));
        let missing = missing.map(|(name, origin)| (*name, *origin));
        let found = heads.iter().map(|head| (head.name, origin(head)));
        let mut seen = self.base.seen.clone();
        seen.remember(missing.chain(found));
        if seen != self.base.seen {
            self.base.seen = seen;
            self.base.keep_seen();
        }
    }
}

impl Base {
    /// What becomes of a server whose answer does not count, as it or this client lacks epoch records; nothing if it counts.
    fn out_of_date(&self, server: usize, head: &ResponseHead) -> Option<Standing> {
        match self.is_current(head) {
            Ok(true) => None,
            Ok(false) => Some(Standing::Unasked),
            Err(_) if self.servers[server].catch_up.is_under_way => Some(Standing::Unasked),
            Err(refusal) => Some(Standing::Refused(refusal)),
        }
    }
}

/// The heads that some server named, without those of which a server that knows of a later record of their writer says that they
/// are none, and those to which another one points.
fn newest(query: &Query) -> Vec<Head> {
    let is_old = |name: &RecordName, header: &Header| {
        let later = |other: &RecordName| {
            query.proven.get(other).is_some_and(|later| {
                later.backpointers.contains(name)
                    || (later.writer == header.writer && later.sequence > header.sequence)
            })
        };
        query
            .answers()
            .any(|(_, fresh)| fresh.heads.binary_search(name).is_err() && fresh.heads.iter().any(later))
    };
    let named = query.answers().flat_map(|(_, fresh)| &fresh.heads);
    let named: BTreeSet<&RecordName> = named.chain(&query.further).collect();
    let proven = named
        .into_iter()
        .filter_map(|name| query.proven.get(name).map(|header| (name, header)));
    proven
        .filter(|(name, header)| !is_old(name, header))
        .map(|(name, header)| Head {
            name: *name,
            header: header.clone(),
        })
        .collect()
}

fn first_header(proof: &[u8]) -> core::result::Result<HeaderView<'_>, Fault> {
    let mut reader = Reader::new(proof);
    let _anchor: u8 = reader.field()?;
    let _count: u16 = reader.field()?;
    HeaderView::read(&mut reader).map_err(Fault::False)
}
