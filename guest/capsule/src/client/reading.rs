//! Reading: one server is asked, another one after a while, and the first answer that is verified counts.

use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::base::{Ask, Fault, Head, Sent, outcome};
use super::command::{Got, Outline, Reply};
use super::judge::{Answer, Found, Tree, Verdict, check, judge, read_content};
use super::{Client, Job};
use crate::authority::Evidence;
use crate::hash::RecordName;
use crate::message::Operation;
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// Items of one request: each takes at most three operations.
const ITEMS: usize = 1024;

/// What is wanted of one item
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A record.
    Record(RecordName),
    /// That a record is proven.
    Proof(RecordName),
    /// How many sub-records a record has.
    Tree(RecordName),
    /// A sub-record of the record of the first item.
    Part(RecordName, u32),
    /// A record and a proof that begins with a signature.
    Evidence(RecordName),
}

impl Want {
    /// The record.
    pub(super) fn record(&self) -> RecordName {
        match self {
            Self::Record(name)
            | Self::Proof(name)
            | Self::Tree(name)
            | Self::Part(name, _)
            | Self::Evidence(name) => *name,
        }
    }
}

/// One item of a query
#[derive(Debug)]
pub(super) struct Item {
    pub(super) want: Want,
    refused: u32,
    flying: u32,
    /// Whether its proof has to begin with a signature.
    uncached: bool,
    refusal: Refusal,
    outcome: Option<Result<Found>>,
}

/// What becomes of what was found
#[derive(Debug)]
pub(super) enum Shape {
    Records,
    Proven,
    Parts,
    Subrecords,
    /// A proof file, with the body or without.
    File(super::command::Extent),
    /// Evidence of two records.
    Fork,
    /// Writing begins after the record.
    Begin,
}

/// A query under way
#[derive(Debug)]
pub(super) struct Query {
    pub(super) command: u32,
    pub(super) deadline: u64,
    pub(super) shape: Shape,
    items: Vec<Item>,
    left: usize,
    tree: Option<Tree>,
}

impl Query {
    pub(super) fn new((command, deadline): (u32, u64), shape: Shape, wants: Vec<Want>) -> Self {
        let item = |want: Want| Item {
            want,
            refused: 0,
            flying: 0,
            uncached: matches!(want, Want::Evidence(_)),
            refusal: Refusal::new(Code::NoQuorum, 0),
            outcome: None,
        };
        Self {
            command,
            deadline,
            shape,
            left: wants.len(),
            items: wants.into_iter().map(item).collect(),
            tree: None,
        }
    }

    fn end(&mut self, index: usize, outcome: Result<Found>) {
        let item = &mut self.items[index];
        if item.outcome.is_none() {
            item.outcome = Some(outcome);
            self.left -= 1;
        }
    }

    /// Gives up what is left.
    pub(super) fn give_up(&mut self) {
        for index in 0..self.items.len() {
            let refusal = self.items[index].refusal;
            self.end(index, Err(refusal));
        }
    }
}

impl Client {
    /// Begins a query.
    pub(super) fn query(&mut self, mut query: Query) {
        for index in 0..query.items.len() {
            if matches!(query.items[index].want, Want::Proof(name) if self.base.is_verified(&name)) {
                query.end(index, Ok(Found::Proof));
            }
        }
        if query.left == 0 {
            self.finish_query(query);
        } else {
            self.add_job(Job::Query(query));
        }
    }

    /// Sends what can be sent of a query; whether all of it is under way.
    pub(super) fn pump_query(&mut self, job: u32, query: &mut Query) -> bool {
        let all = self.base.all();
        let mut is_all = true;
        let mut start = 0;
        while start < query.items.len() {
            let Some(first) = (start..query.items.len()).find(|index| query.is_idle(*index)) else {
                break;
            };
            let (excluded, uncached) = (query.items[first].refused, query.items[first].uncached);
            if excluded & all == all {
                let refusal = query.items[first].refusal;
                query.end(first, Err(refusal));
                start = first + 1;
                continue;
            }
            let Some(server) = self.base.choose(excluded) else {
                is_all = false;
                start = first + 1;
                continue;
            };
            let chosen: Vec<usize> = (first..query.items.len())
                .filter(|index| {
                    let item = &query.items[*index];
                    query.is_idle(*index) && item.refused == excluded && item.uncached == uncached
                })
                .take(ITEMS)
                .collect();
            self.ask_items(job, query, server, &chosen);
            start = first;
        }
        is_all
    }

    /// Asks one more server for what a request has not answered for a while.
    pub(super) fn hedge(&mut self, job: u32, items: &[(usize, bool)]) {
        let Some(Job::Query(mut query)) = self.jobs.remove(&job) else {
            return;
        };
        let left = items
            .iter()
            .map(|(index, _)| *index)
            .filter(|index| query.items[*index].outcome.is_none());
        let left: Vec<usize> = left.collect();
        if let Some(first) = left.first() {
            let item = &query.items[*first];
            if let Some(server) = self.base.choose(item.refused | item.flying) {
                self.ask_items(job, &mut query, server, &left);
            }
        }
        self.jobs.insert(job, Job::Query(query));
    }

    fn ask_items(&mut self, job: u32, query: &mut Query, server: usize, chosen: &[usize]) {
        let uncached = query.items[chosen[0]].uncached;
        let (mut message, session, opens) = if uncached {
            (self.base.begin(), None, false)
        } else {
            self.base.begin_cached(server)
        };
        let mut asked = Vec::with_capacity(chosen.len());
        for index in chosen {
            let item = &mut query.items[*index];
            item.flying |= 1 << server;
            let record = item.want.record();
            match item.want {
                Want::Record(_) | Want::Evidence(_) => Operation::Read { record }.write(&mut message),
                Want::Tree(_) => {
                    Operation::Subrecords { record }.write(&mut message);
                    Operation::ReadPart { record, index: 0 }.write(&mut message);
                }
                Want::Part(_, index) => Operation::ReadPart { record, index }.write(&mut message),
                Want::Proof(_) => {}
            }
            let proves = match item.want {
                Want::Part(..) => false,
                Want::Proof(_) | Want::Evidence(_) => true,
                Want::Record(_) | Want::Tree(_) => uncached || !self.base.is_verified(&record),
            };
            if proves {
                Operation::Prove { record }.write(&mut message);
            }
            asked.push((*index, proves));
        }
        let ask = Ask::Items(asked);
        self.base
            .send_in(server, job, ask, message.into(), (session, opens));
    }

    /// Reads what a server gave for items of a query.
    ///
    /// # Errors
    /// Why it is no answer.
    pub(super) fn take_items(
        &mut self,
        sent: &Sent,
        items: &[(usize, bool)],
        head: &Head,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        let Some(Job::Query(mut query)) = self.jobs.remove(&sent.job) else {
            return Ok(());
        };
        let read = self.read_items(&mut query, sent, items, head, reader);
        for (index, _) in items {
            query.items[*index].flying &= !(1 << sent.server);
        }
        if let Err(fault) = read {
            self.refuse_items(&mut query, sent.server, items, fault);
        } else {
            self.base.servers[sent.server].answered();
        }
        self.settle_query(sent.job, query);
        read
    }

    fn read_items(
        &mut self,
        query: &mut Query,
        sent: &Sent,
        items: &[(usize, bool)],
        head: &Head,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        match self.base.is_current(head) {
            Ok(true) => {}
            // There are more epoch records first.
            Ok(false) => return Ok(()),
            Err(refusal) => {
                self.refuse_items(query, sent.server, items, Fault::False(refusal));
                return Ok(());
            }
        }
        let read = items
            .iter()
            .map(|(index, proves)| Answer::read(query.items[*index].want, *proves, reader));
        let mut answers = read.collect::<core::result::Result<Vec<_>, _>>()?;
        if reader.field::<bool>()? {
            return Err(Fault::False(Refusal::new(Code::BadMessage, 0)));
        }
        reader.clone().finish()?;
        check(&self.base, &mut answers).map_err(Fault::False)?;
        let mut all_verified = true;
        let mut any = false;
        let mut fault = Ok(());
        let mut proven = Vec::new();
        for ((index, proves), answer) in items.iter().zip(&answers) {
            let want = query.items[*index].want;
            if query.items[*index].outcome.is_some() {
                all_verified &= !proves;
                continue;
            }
            let verdict = judge(&mut self.base, sent.server, want, answer, &mut query.tree);
            any |= matches!(verdict, Verdict::Found(_) | Verdict::Proven(_));
            let awaits_tree = query.awaits_tree_of(sent.server, want);
            let item = &mut query.items[*index];
            match verdict {
                Verdict::Found(found) => query.end(*index, Ok(found)),
                Verdict::Proven(record) => proven.push((*index, record)),
                Verdict::Final(refusal) => query.end(*index, Err(refusal)),
                Verdict::Uncached if !item.uncached => {
                    (item.uncached, all_verified) = (true, false);
                    self.base.servers[sent.server].close_session();
                }
                Verdict::Later if any || awaits_tree => {}
                Verdict::Refused(refusal) | Verdict::False(refusal) => {
                    item.refused |= 1 << sent.server;
                    item.refusal = refusal;
                    if matches!(verdict, Verdict::False(_)) {
                        all_verified = false;
                        fault = Err(Fault::False(refusal));
                    }
                }
                Verdict::Uncached | Verdict::Later => {
                    item.refused |= 1 << sent.server;
                    item.refusal = Refusal::new(Code::UnknownAnchor, *index);
                }
            }
        }
        self.open_records(query, &proven).map_err(Fault::False)?;
        self.end_of_session(sent, head, all_verified);
        if let Err(fault) = fault {
            self.base.blame(sent.server, fault);
        } else if any {
            self.base.preferred = sent.server;
        }
        Ok(())
    }

    /// Opens records that are proven. What does not open, nobody's answer can make open.
    fn open_records(&self, query: &mut Query, proven: &[(usize, Record<'_>)]) -> Result<()> {
        let records: Vec<Record<'_>> = proven.iter().map(|(_, record)| *record).collect();
        let opened = self
            .base
            .trust()?
            .open_each(self.base.identity.as_ref(), &records);
        for ((index, record), content) in proven.iter().zip(opened) {
            let header = record.header.to_header();
            query.end(
                *index,
                content.map(|content| Found::Record(Got { header, content })),
            );
        }
        Ok(())
    }

    /// Says with the next request which proofs were verified.
    fn end_of_session(&mut self, sent: &Sent, head: &Head, all_verified: bool) {
        let server = &mut self.base.servers[sent.server];
        if sent.session != Some(server.session.id) {
            return;
        }
        if head.serial == 0 {
            server.close_session();
        } else if all_verified {
            server.session.verified = head.serial;
        }
    }

    fn refuse_items(&mut self, query: &mut Query, server: usize, items: &[(usize, bool)], fault: Fault) {
        let (Fault::Failed(refusal) | Fault::False(refusal)) = fault;
        for (index, _) in items {
            let item = &mut query.items[*index];
            item.refusal = refusal;
            if matches!(fault, Fault::False(_)) {
                item.refused |= 1 << server;
            }
        }
    }

    /// A server did not answer, or falsely.
    pub(super) fn miss_items(&mut self, sent: &Sent, items: &[(usize, bool)], fault: Fault) {
        let Some(Job::Query(mut query)) = self.jobs.remove(&sent.job) else {
            return;
        };
        for (index, _) in items {
            query.items[*index].flying &= !(1 << sent.server);
        }
        self.refuse_items(&mut query, sent.server, items, fault);
        self.settle_query(sent.job, query);
    }

    fn settle_query(&mut self, job: u32, query: Query) {
        if query.left == 0 {
            self.finish_query(query);
        } else {
            self.jobs.insert(job, Job::Query(query));
            self.stalled.insert(job);
        }
    }

    /// Tells the application.
    pub(super) fn finish_query(&mut self, query: Query) {
        let command = query.command;
        let target = query.items.first().map(|item| item.want.record());
        let mut outcomes = query
            .items
            .into_iter()
            .map(|item| item.outcome.unwrap_or(Err(item.refusal)));
        let result = match query.shape {
            Shape::Records => Ok(Reply::Records(outcomes.map(|one| one.and_then(record)).collect())),
            Shape::Proven => Ok(Reply::Proven(outcomes.map(|one| one.map(|_| ())).collect())),
            Shape::Subrecords => Ok(Reply::Subrecords(
                outcomes.map(|one| one.and_then(outline)).collect(),
            )),
            Shape::Parts => match outcomes.next() {
                Some(Err(refusal)) => Ok(Reply::Parts(outcomes.map(|_| Err(refusal)).collect())),
                _ => Ok(Reply::Parts(outcomes.map(|one| one.and_then(part)).collect())),
            },
            Shape::File(extent) => evidence(outcomes.next()).and_then(|one| self.proof_file(one, extent)),
            Shape::Fork => {
                let both = [evidence(outcomes.next()), evidence(outcomes.next())];
                self.fork(both)
            }
            Shape::Begin => {
                let proven = outcomes.next().unwrap_or_else(|| Err(unexpected()));
                return self.begin_after(command, proven.and_then(|_| target.ok_or_else(unexpected)));
            }
        };
        self.base.reply(command, result);
    }
}

impl Query {
    /// Whether each item has come to something.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether an item waits to be asked. A sub-record cannot be verified before its tree, which is under way.
    fn is_idle(&self, index: usize) -> bool {
        let item = &self.items[index];
        let waits = matches!(item.want, Want::Part(..)) && self.tree.is_none() && self.items[0].flying != 0;
        item.outcome.is_none() && item.flying == 0 && !waits
    }

    /// Whether this is a sub-record whose tree a server is asked for once more.
    fn awaits_tree_of(&self, server: usize, want: Want) -> bool {
        let tree = &self.items[0];
        matches!(want, Want::Part(..)) && tree.outcome.is_none() && tree.refused & (1 << server) == 0
    }
}

impl Answer<'_> {
    /// Reads the results of an item's operations.
    fn read<'a>(
        want: Want,
        proves: bool,
        reader: &mut Reader<'a>,
    ) -> core::result::Result<Answer<'a>, Fault> {
        let content = read_content(want, reader)?;
        let proof = match proves {
            false => Ok(None),
            true => match outcome(reader)? {
                Ok(()) => Ok(Some(reader.field()?)),
                Err(refusal) => Err(refusal),
            },
        };
        let checked = None;
        Ok(Answer {
            content,
            checked,
            proof,
        })
    }
}

fn unexpected() -> Refusal {
    Refusal::new(Code::BadMessage, 0)
}

fn record(found: Found) -> Result<Got> {
    match found {
        Found::Record(got) => Ok(got),
        _ => Err(unexpected()),
    }
}

fn outline(found: Found) -> Result<Outline> {
    match found {
        Found::Outline(outline) => Ok(outline),
        _ => Err(unexpected()),
    }
}

fn part(found: Found) -> Result<Vec<u8>> {
    match found {
        Found::Part(part) => Ok(part),
        _ => Err(unexpected()),
    }
}

fn evidence(outcome: Option<Result<Found>>) -> Result<(Evidence, Vec<u8>)> {
    match outcome {
        Some(Ok(Found::Evidence(evidence, body))) => Ok((evidence, body)),
        Some(Err(refusal)) => Err(refusal),
        _ => Err(unexpected()),
    }
}
