//! A writer with what it must not forget.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::Code;
use selfsame_write_batch::WriteBatch;

use super::Client;
use super::memory::{Kept, writer_key};
use super::trust::Identity;
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};
use crate::writer::{Progress, Writer};

/// How many sequence numbers a writer reserves at once, durably, before it uses the first: one write of its store for so many
/// records, and so many numbers that may be left out when it is stopped.
const RESERVED: u64 = 1 << 14;
/// A writer with what it must not forget
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) writer: Writer,
    /// The last record that it has written or signed: its own, whatever the next one follows.
    pub(super) last: Option<RecordName>,
    reserved: u64,
    /// The commit that reserves more, and up to where.
    reserving: Option<(u32, u64)>,
    progress: Progress,
    /// Jobs that write, in order, until all before them are done.
    under_way: VecDeque<(u32, Flight)>,
}

/// What came of a job that writes
#[derive(Debug)]
enum Flight {
    Pending,
    Stored(Progress),
    Lost,
}

impl Pen {
    pub(super) fn new(writer: Writer, kept: Kept) -> Self {
        Self {
            last: writer.progress().parent,
            writer,
            reserved: kept.reserved,
            reserving: None,
            progress: kept.progress,
            under_way: VecDeque::new(),
        }
    }

    /// A job writes, after all before.
    pub(super) fn push(&mut self, job: u32) {
        self.under_way.push_back((job, Flight::Pending));
    }

    /// A job is done, with the progress that it made, or has failed; whether the writer's place that is kept moves.
    pub(super) fn advance(&mut self, job: u32, progress: Option<Progress>) -> bool {
        if let Some((_, flight)) = self.under_way.iter_mut().find(|(other, _)| *other == job) {
            *flight = progress.map_or(Flight::Lost, Flight::Stored);
        }
        let mut has_moved = false;
        while let Some((_, flight)) = self
            .under_way
            .pop_front_if(|(_, flight)| !matches!(flight, Flight::Pending))
        {
            if let Flight::Stored(progress) = flight
                && progress.sequence > self.progress.sequence
            {
                self.progress = progress;
                has_moved = true;
            }
        }
        has_moved
    }

    pub(super) fn kept(&self) -> Kept {
        Kept {
            reserved: self.reserving.map_or(self.reserved, |(_, upto)| upto),
            progress: self.progress.clone(),
        }
    }
}

impl Client {
    /// Whether the writer may use so many sequence numbers now; if not, they are being reserved.
    pub(super) fn has_reserved(&mut self, count: u64) -> Result<bool> {
        let writer = self.base.identity.as_ref().map(Identity::public);
        let (Some(pen), Some(writer)) = (&mut self.pen, writer) else {
            return Err(Refusal::new(Code::NotAWriter, 0));
        };
        let next = pen.writer.progress().sequence.checked_add(count);
        let upto = next.and_then(|next| Some((next, next.checked_add(RESERVED)?)));
        let (next, upto) = upto.ok_or_else(|| Refusal::new(Code::TooLarge, 0))?;
        if pen.reserving.is_none() && upto - RESERVED / 2 > pen.reserved {
            pen.reserving = Some((0, upto));
            let key = writer_key(&self.base.capsule, &writer);
            let batch = WriteBatch::put(&key, |out| pen.kept().encode(out));
            let tag = self.base.commit(batch, true);
            pen.reserving = Some((tag, upto));
        }
        Ok(next <= pen.reserved)
    }

    /// The store has written, or not.
    pub(super) fn reserved(&mut self, tag: u32, is_written: bool) {
        let Some(pen) = &mut self.pen else { return };
        let Some((_, upto)) = pen.reserving.take_if(|(expected, _)| *expected == tag) else {
            return;
        };
        if is_written {
            pen.reserved = upto;
            return;
        }
        // Whoever cannot keep what it has used must not go on.
        self.lay_down();
        let (writing, others) = core::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.command.writes() > 0);
        self.waiting = others;
        for waiting in Vec::from(writing) {
            let refusal = Refusal::new(Code::StoreFailed, 0);
            self.base.reply(waiting.call.0, Err(refusal));
        }
    }

    /// Writes in the present epoch from now on, or no more if that is not allowed.
    pub(super) fn follow_epoch(&mut self) {
        let (Some(pen), Some(trust)) = (&mut self.pen, &self.base.trust) else {
            return;
        };
        let identity = self.base.identity.as_ref();
        let is_writer = trust.number(identity) == Ok(pen.writer.number());
        if pen.writer.epoch() >= trust.authority.epoch() && is_writer {
            return;
        }
        match trust.writing_key(identity) {
            Ok(seal) if is_writer => pen.writer.enter_epoch(trust.authority.epoch(), seal),
            _ => self.lay_down(),
        }
    }

    /// Writes no more; where it was is remembered.
    pub(super) fn lay_down(&mut self) {
        if let Some(pen) = self.pen.take() {
            self.kept = pen.kept();
        }
    }
}
