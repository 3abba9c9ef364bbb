//! The node's own record: signed anew when it is due, and above any newer one that others hold.
//!
//! A node that was restored, moved or had a wrong clock meets a record of its own that it does not know, with a higher
//! sequence. It asks at that record's addresses whether another run of it lives there ([`Action::Rival`]); if none does it
//! goes on above that sequence.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::{Action, Context, Ring};
use crate::boot::BootId;
use crate::record::{MAX_RECORD_LIFE_MS, MAX_SEQUENCE_LEAD_MS, NodeRecord, RecordTerms, relay_address};

/// Least time between two records signed because of newer ones: two runs that fight cost their neighbours little.
const RESIGN_MS: u64 = 1_000;

/// The newest record of this node and what the next one must be above
#[derive(Debug, Default)]
pub(super) struct Own {
    record: Option<NodeRecord>,
    /// Highest sequence of this node that was seen.
    floor: u64,
    /// A newer record was met, and it is not known yet whether its run lives.
    is_contested: bool,
    next_resign_ms: u64,
    /// The addresses are other ones than at the last start.
    has_moved: bool,
}

impl Own {
    pub(super) fn record(&self) -> Option<&NodeRecord> {
        self.record.as_ref()
    }

    /// Whether what was published at the last start names other addresses.
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// Takes the record of an earlier start, or only its sequence if it does not say what is true now.
    pub(super) fn restore(&mut self, record: NodeRecord, is_true: bool) {
        self.floor = record.sequence();
        self.has_moved = !is_true;
        self.record = is_true.then_some(record);
    }

    /// Whether the record no longer serves.
    fn is_due(&self, cx: &Context<'_>, renew_record_ms: u64) -> bool {
        let Some(record) = &self.record else {
            return true;
        };
        record.boot() != cx.identity.boot()
            || record.expiry_ms() <= cx.wall_ms.saturating_add(renew_record_ms)
                && record.expiry_ms() < cx.identity.admitted().until_ms
            || record.is_from_future(cx.wall_ms)
            || record.is_before_admission()
            || self.is_outdone(record) && !self.is_contested && cx.now_ms >= self.next_resign_ms
    }

    /// Whether others know a newer record than this one.
    fn is_outdone(&self, record: &NodeRecord) -> bool {
        record.sequence() < self.floor
    }

    /// The next sequence: above the last one, unless that is so far ahead of the clock that nobody has accepted it.
    fn next_sequence(&self, wall_ms: u64) -> u64 {
        let next = self.floor.saturating_add(1);
        if next > wall_ms.saturating_add(MAX_SEQUENCE_LEAD_MS) {
            wall_ms
        } else {
            next.max(wall_ms)
        }
    }
}

impl Ring {
    /// This node's own record, signed anew when that is due.
    pub fn own_record(&mut self, cx: &mut Context<'_>) -> &NodeRecord {
        if self.own.is_due(cx, self.parameters.renew_record_ms) {
            self.renew_record(cx);
        }
        self.own.record.as_ref().expect("it was signed just now")
    }

    /// The own record as it is sent.
    pub(super) fn own_bytes(&mut self, cx: &mut Context<'_>) -> Vec<u8> {
        self.own_record(cx).encoded().to_vec()
    }

    /// Signs a record of what is true now.
    pub(super) fn renew_record(&mut self, cx: &mut Context<'_>) {
        let mut addresses = self.settings.addresses.clone();
        addresses.extend(self.attach.relays().iter().map(relay_address));
        let expiry_ms = cx.wall_ms.saturating_add(MAX_RECORD_LIFE_MS);
        // Not at once, so that one can be signed: the node stops when its certificate expires.
        let expiry_ms = expiry_ms
            .min(cx.identity.admitted().until_ms)
            .max(cx.wall_ms.saturating_add(1));
        let terms = RecordTerms {
            domain: &self.settings.domain,
            sequence: self.own.next_sequence(cx.wall_ms),
            ..RecordTerms::new(self.settings.role, &addresses, cx.wall_ms, expiry_ms)
        };
        // Settings outside the limits are left out rather than letting the node fail: nobody would accept them.
        let bare = RecordTerms {
            addresses: &[],
            domain: "",
            ..terms
        };
        let record = NodeRecord::sign(cx.identity, &terms).or_else(|_| NodeRecord::sign(cx.identity, &bare));
        let Ok(record) = record else {
            unreachable!("a record without addresses is within all limits");
        };
        let is_replaced = |old: &NodeRecord| self.own.is_outdone(old) || old.is_from_future(cx.wall_ms);
        if self.own.record().is_some_and(is_replaced) {
            // Who holds what this node publishes holds a record beside it that leads elsewhere, or nowhere.
            self.publisher.refresh_soon();
            self.own.next_resign_ms = cx.now_ms.saturating_add(RESIGN_MS);
        }
        self.put_own(&record);
        self.own.floor = record.sequence();
        self.own.record = Some(record);
    }

    /// This node has a new certificate: tells its neighbours, and signs anew what it publishes.
    pub fn certificate_renewed(&mut self, cx: &mut Context<'_>) {
        self.renew_record(cx);
        self.publisher.refresh_soon();
        self.maintenance.hurry(cx.now_ms);
    }

    /// Whether the record of this node is from that run, which slept: one that goes on as it needs no new record.
    pub fn slept_as(&mut self, boot: BootId) -> bool {
        let has_slept = self.own.record().is_some_and(|record| record.boot() == boot);
        self.publisher.has_slept |= has_slept;
        has_slept
    }

    /// Takes the record for which a peer refuses the own one.
    ///
    /// # Errors
    /// [`Code::BadMessage`] if it shows none that is newer, or why it does not verify.
    pub(super) fn meet_newer(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), Code> {
        self.meet_bytes(cx, bytes)?;
        match self.own.record() {
            Some(record) if self.own.is_outdone(record) => Ok(()),
            _ => Err(Code::BadMessage),
        }
    }

    /// Takes a verified record of this node from somebody else.
    pub(super) fn meet_own(&mut self, record: NodeRecord) {
        let is_known = self.own.record().is_some_and(|own| *own == record);
        if is_known || record.sequence() < self.own.floor {
            return;
        }
        // Two runs that went on from one copy may have signed the same sequence.
        self.own.floor = record.sequence().saturating_add(1);
        if !core::mem::replace(&mut self.own.is_contested, true) {
            self.log(
                LogLevel::Warn,
                Code::StaleRecord,
                "a newer record of this node is known",
                None,
            );
            self.actions.push_back(Action::Rival { record });
        }
    }

    /// No other run that this one gives way to lives where the newer record leads: the next record is above that one.
    pub fn outlive_rival(&mut self, cx: &mut Context<'_>) {
        self.own.is_contested = false;
        self.maintenance.hurry(cx.now_ms);
    }
}
