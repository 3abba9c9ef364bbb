//! Reading: one server is asked, another one after a while, and the first answer that is verified counts.

use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::{Code, Reader};

use super::base::{Against, Ask, Asked, Fault, Head, Sent};
use super::command::{Got, Reply};
use super::judge::{Answer, Found, Verdict, evidence, judge, outline, part, record, unexpected};
use super::parts::{Given, judge_parts};
use super::trees::Trunks;
use super::trust::Opened;
use super::{Client, Job};
use crate::authorship::Authorship;
use crate::hash::RecordName;
use crate::header::EncodedHeader;
use crate::message::{Operation, TO_THE_TOP};
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// Items of one request: each takes at most three operations.
const ITEMS: usize = 1024;

/// About how many bytes of a request an item takes: mostly it is one operation with a name.
const ITEM_BYTES: usize = 40;

/// What is wanted of one item
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A record.
    Record(RecordName),
    /// How many sub-records a record has.
    Tree(RecordName),
    /// A sub-record of a record.
    Part(RecordName, u32),
    /// A record and a proof that begins with a signature.
    Evidence(RecordName),
    /// The same, and that the record's writer has signed it.
    Signed(RecordName),
}

impl Want {
    /// The record.
    pub(super) fn record(&self) -> RecordName {
        match self {
            Self::Record(name)
            | Self::Tree(name)
            | Self::Part(name, _)
            | Self::Evidence(name)
            | Self::Signed(name) => *name,
        }
    }

    /// Which sub-record: the first with what the record begins with, which a sub-record proves.
    pub(super) fn index(&self) -> u32 {
        match self {
            Self::Part(_, index) => *index,
            _ => 0,
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
    Parts,
    Subrecords,
    /// A proof file, with the body or without.
    File(super::command::Extent),
    /// Evidence of two records.
    Fork,
    /// Writing begins after the record.
    Begin,
    /// The command with the query's number may point to these records, or not.
    Pointers,
}

/// A query under way
#[derive(Debug)]
pub(super) struct Query {
    pub(super) command: u32,
    pub(super) deadline: u64,
    pub(super) shape: Shape,
    items: Vec<Item>,
    left: usize,
}

impl Query {
    pub(super) fn new((command, deadline): (u32, u64), shape: Shape, wants: Vec<Want>) -> Self {
        let item = |want: Want| Item {
            want,
            refused: 0,
            flying: 0,
            uncached: matches!(want, Want::Evidence(_) | Want::Signed(_)),
            refusal: Refusal::new(Code::NoQuorum, 0),
            outcome: None,
        };
        Self {
            command,
            deadline,
            shape,
            left: wants.len(),
            items: wants.into_iter().map(item).collect(),
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
    pub(super) fn query(&mut self, query: Query) {
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
    pub(super) fn hedge(&mut self, job: u32, items: &[Asked]) {
        let Some(Job::Query(mut query)) = self.jobs.remove(&job) else {
            return;
        };
        let left = items
            .iter()
            .map(|asked| asked.index)
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
        message.reserve(chosen.len() * ITEM_BYTES);
        let mut asked = Vec::with_capacity(chosen.len());
        let mut trunks = Trunks::default();
        let part = |index: &usize| match query.items[*index].want {
            Want::Part(record, number) => Some((record, number)),
            _ => None,
        };
        let parts: Vec<(RecordName, u32)> = chosen.iter().filter_map(part).collect();
        let mut known = self.base.trees.find(&parts).into_iter();
        for index in chosen {
            let item = &mut query.items[*index];
            item.flying |= 1 << server;
            let record = item.want.record();
            let mut against = None;
            match item.want {
                Want::Record(_) | Want::Evidence(_) | Want::Signed(_) => {
                    Operation::Read { record }.write(&mut message);
                }
                Want::Tree(_) => against = Some(trunks.ask()),
                Want::Part(..) => {
                    against = Some(match known.next().flatten() {
                        Some((tree, level, hash)) => Against::Node { tree, level, hash },
                        None => trunks.find(&record),
                    });
                }
            }
            if let Some(against) = &against {
                ask_part(&item.want, against, &mut message);
            }
            let (proves, known) = match (item.want, &against) {
                (Want::Evidence(_) | Want::Signed(_), _) => (true, None),
                (_, Some(Against::Node { .. } | Against::Trunk { is_here: false, .. })) => (false, None),
                _ if uncached => (true, None),
                _ => {
                    let known = self.base.attribution(&record);
                    (known.is_none(), known)
                }
            };
            if proves {
                Operation::Prove { record }.write(&mut message);
            }
            asked.push(Asked {
                index: *index,
                proves,
                known,
                against,
            });
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
        items: &[Asked],
        head: &Head,
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        let Some(Job::Query(mut query)) = self.jobs.remove(&sent.job) else {
            return Ok(());
        };
        let read = self.read_items(&mut query, sent, items, head, reader);
        for Asked { index, .. } in items {
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
        items: &[Asked],
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
        let wants: Vec<(Want, &Asked)> = items
            .iter()
            .map(|asked| (query.items[asked.index].want, asked))
            .collect();
        let mut judged = Judged::of(items.len());
        match query.shape {
            Shape::Parts | Shape::Subrecords => {
                let given = Given::read(&wants, reader)?;
                end_of_items(reader)?;
                let mut take = |place: usize, verdict| {
                    judged.take(query, sent.server, items[place].index, verdict);
                };
                judge_parts(&mut self.base, sent, &wants, &given, &mut take).map_err(Fault::False)?;
            }
            _ => {
                let mut answers = Vec::with_capacity(wants.len());
                for (_, asked) in &wants {
                    answers.push(Answer::read(asked, reader)?);
                }
                end_of_items(reader)?;
                for ((want, asked), answer) in wants.iter().zip(&answers) {
                    let verdict = judge(&mut self.base, sent, (*want, asked), answer);
                    judged.take(query, sent.server, asked.index, verdict);
                }
            }
        }
        if judged.is_uncached {
            self.base.servers[sent.server].close_session();
        }
        for ((index, authorship), record) in judged.proven.iter().zip(&judged.records) {
            let name = query.items[*index].want.record();
            self.base.note(&name, &record.header, *authorship);
        }
        self.open_records(query, &judged).map_err(Fault::False)?;
        self.end_of_session(sent, head, judged.all_verified);
        if let Err(fault) = judged.fault {
            self.base.blame(sent.server, fault);
        } else if judged.any {
            self.base.preferred = sent.server;
        }
        Ok(())
    }

    /// Opens records that are proven. What does not open, nobody's answer can make open.
    fn open_records(&self, query: &mut Query, Judged { proven, records, .. }: &Judged<'_>) -> Result<()> {
        let len = |record: &Record<'_>| record.header.encoded().len() + record.body.len();
        let mut memory = Vec::with_capacity(records.iter().map(len).sum());
        for record in records {
            memory.extend_from_slice(record.header.encoded());
        }
        let identity = self.base.identity.as_ref();
        let opened = self.base.trust()?.open_each(identity, records, &mut memory);
        let memory = Bytes::from(memory);
        let mut start = 0;
        for (((index, authorship), record), opened) in proven.iter().zip(records).zip(opened) {
            let header = start..start + record.header.encoded().len();
            start = header.end;
            let got = |opened: Opened| Got {
                header: EncodedHeader::new(&record.header, memory.slice(header)),
                authorship: *authorship,
                content: opened.content(&memory),
            };
            query.end(*index, opened.map(got).map(Found::Record));
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

    fn refuse_items(&mut self, query: &mut Query, server: usize, items: &[Asked], fault: Fault) {
        let (Fault::Failed(refusal) | Fault::False(refusal)) = fault;
        for Asked { index, .. } in items {
            let item = &mut query.items[*index];
            item.refusal = refusal;
            if matches!(fault, Fault::False(_)) {
                item.refused |= 1 << server;
            }
        }
    }

    /// A server did not answer, or falsely.
    pub(super) fn miss_items(&mut self, sent: &Sent, items: &[Asked], fault: Fault) {
        let Some(Job::Query(mut query)) = self.jobs.remove(&sent.job) else {
            return;
        };
        for Asked { index, .. } in items {
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
            Shape::Subrecords => Ok(Reply::Subrecords(
                outcomes.map(|one| one.and_then(outline)).collect(),
            )),
            Shape::Parts => Ok(Reply::Parts(outcomes.map(|one| one.and_then(part)).collect())),
            Shape::File(extent) => {
                evidence(outcomes.next()).and_then(|(one, body, _)| self.proof_file((one, body), extent))
            }
            Shape::Fork => {
                let both = [outcomes.next(), outcomes.next()];
                self.fork(both.map(|one| evidence(one).map(|(one, ..)| one)))
            }
            Shape::Begin => {
                let parent = target.ok_or_else(unexpected);
                let checked = parent.and_then(|name| self.check_pointees(outcomes).map(|()| name));
                return self.begin_after(command, checked);
            }
            Shape::Pointers => {
                let checked = self.check_pointees(outcomes);
                return self.vetted(command, checked);
            }
        };
        self.base.reply(command, result);
    }
}

/// What a response came to, so far
struct Judged<'a> {
    /// Which items are records that are proven, and who answers for each.
    proven: Vec<(usize, Authorship)>,
    /// Those records, which are yet to be opened.
    records: Vec<Record<'a>>,
    all_verified: bool,
    any: bool,
    /// Whether a proof builds on what is not known here.
    is_uncached: bool,
    fault: core::result::Result<(), Fault>,
}

impl<'a> Judged<'a> {
    fn of(items: usize) -> Self {
        Self {
            proven: Vec::with_capacity(items),
            records: Vec::with_capacity(items),
            all_verified: true,
            any: false,
            is_uncached: false,
            fault: Ok(()),
        }
    }

    /// Takes what a server's answer for an item comes to.
    fn take(&mut self, query: &mut Query, server: usize, index: usize, verdict: Verdict<'a>) {
        let item = &mut query.items[index];
        if item.outcome.is_some() {
            self.all_verified &= !matches!(verdict, Verdict::False(_) | Verdict::Uncached);
            return;
        }
        self.any |= matches!(verdict, Verdict::Found(_) | Verdict::Proven(..));
        match verdict {
            // What was verified before leads there from another writer's record: the writer's own signature is asked for.
            verdict if verdict.is_vouched() && !item.uncached => item.uncached = true,
            Verdict::Found(found) => query.end(index, Ok(found)),
            Verdict::Proven(record, authorship) => {
                self.proven.push((index, authorship));
                self.records.push(record);
            }
            Verdict::Final(refusal) => query.end(index, Err(refusal)),
            Verdict::Uncached if !item.uncached => {
                (item.uncached, self.is_uncached, self.all_verified) = (true, true, false);
            }
            Verdict::Later if self.any => {}
            Verdict::Forgotten => {}
            Verdict::Refused(refusal) | Verdict::False(refusal) => {
                item.refused |= 1 << server;
                item.refusal = refusal;
                if matches!(verdict, Verdict::False(_)) {
                    self.all_verified = false;
                    self.fault = Err(Fault::False(refusal));
                }
            }
            Verdict::Uncached | Verdict::Later => {
                item.refused |= 1 << server;
                item.refusal = Refusal::new(Code::UnknownAnchor, index);
            }
        }
    }
}

impl Query {
    /// Whether each item has come to something.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether an item waits to be asked.
    fn is_idle(&self, index: usize) -> bool {
        let item = &self.items[index];
        item.outcome.is_none() && item.flying == 0
    }
}

/// Asks for a sub-record, with its record's beginning if that is to be asked for here.
fn ask_part(want: &Want, against: &Against, message: &mut Vec<u8>) {
    let (record, index) = (want.record(), want.index());
    let levels = match against {
        Against::Node { level, .. } => *level as u8,
        Against::Trunk { is_here, .. } => {
            if *is_here {
                Operation::Subrecords { record }.write(message);
            }
            TO_THE_TOP
        }
    };
    Operation::ReadPart {
        record,
        index,
        levels,
    }
    .write(message);
}

/// There is no more than the items in a response, nor anything acknowledged.
fn end_of_items(reader: &mut Reader<'_>) -> core::result::Result<(), Fault> {
    if reader.field::<bool>()? {
        return Err(Fault::False(Refusal::new(Code::BadMessage, 0)));
    }
    Ok(reader.clone().finish()?)
}
