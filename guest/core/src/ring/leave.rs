//! Leaving in good order: what this node publishes is withdrawn, what it stores goes to its successor.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::message::{EntryBytes, Request};
use super::objects::Key;
use super::{Action, Call, Context, Phase, Ring};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::record::NodeRecord;

/// How long until an heir that did not take this node for a neighbour is asked again.
const HEIR_RETRY_MS: u64 = 250;

/// A node that withdraws what it publishes before it leaves: who leaves at the same time can take that no more, and its heirs have
/// what it held before
#[derive(Debug)]
pub(super) struct Parting {
    command: u32,
    /// When it leaves whatever has not been withdrawn.
    deadline_ms: u64,
}

impl Parting {
    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }
}

/// State of a leave
#[derive(Debug)]
pub(super) struct Leaving {
    command: u32,
    /// What no heir has taken.
    keys: Vec<Key>,
    /// How many of these, from the front, are on their way to an heir.
    under_way: usize,
    /// Peers that were told and have not answered.
    farewells: usize,
    /// Successors that may take the objects, the nearest last.
    heirs: Vec<PeerId>,
    /// Those that did not take this node for a neighbour, nearest first: once they have heard who else has left, they may.
    doubtful: Vec<PeerId>,
    /// When these are asked again.
    retry_ms: u64,
    deadline_ms: u64,
}

impl Leaving {
    pub(super) fn due_ms(&self) -> u64 {
        self.deadline_ms.min(self.retry_ms)
    }
}

impl Ring {
    /// Withdraws what this node publishes, hands over what it is responsible for, and leaves.
    pub fn leave(&mut self, cx: &mut Context<'_>, command: u32) {
        if self.phase == Phase::Out {
            self.done(command);
            return;
        }
        self.part_now(cx);
        let is_published = self.withdraw_all(cx);
        let parting = Parting {
            command,
            deadline_ms: cx.now_ms.saturating_add(self.parameters.withdraw_timeout_ms),
        };
        if is_published && self.phase == Phase::In {
            self.parting = Some(parting);
            self.tick_publisher(cx);
        } else {
            self.leave_ring(cx, command);
        }
    }

    /// Hands over what this node is responsible for and leaves.
    fn leave_ring(&mut self, cx: &mut Context<'_>, command: u32) {
        self.phase = Phase::Out;
        // Newer than in any update that is still under way: one that arrives later does not bring this member back.
        self.renew_record(cx);
        self.give_up_joins(Code::Cancelled);
        for find in core::mem::take(&mut self.finds).into_keys() {
            self.fail(find, Code::NotJoined);
        }
        for lookup in self.walks.clear() {
            self.fail(lookup, Code::NotJoined);
        }
        let mut farewells = self.bid_farewell(cx);
        farewells += self.detach_all();
        let heirs: Vec<PeerId> = self.routing.successors().iter().rev().copied().gather();
        let start = self.routing.range_start();
        let keys = self.objects.keys_in(&start, &self.me().place());
        if let Some(predecessor) = self.routing.predecessor()
            && heirs.last() != Some(&predecessor)
        {
            let body = self.leave_message(cx, &mut Vec::new());
            self.call_encoded(
                predecessor,
                Call::Farewell,
                body,
                self.parameters.hand_over_timeout_ms,
            );
            farewells += 1;
        }
        self.leaving = Some(Leaving {
            command,
            keys,
            under_way: 0,
            farewells,
            heirs,
            doubtful: Vec::new(),
            retry_ms: u64::MAX,
            deadline_ms: cx.now_ms.saturating_add(self.parameters.leave_timeout_ms),
        });
        self.hand_over(cx);
    }

    /// Sends the next message of entries, or ends.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        let Some(mut leaving) = self.leaving.take() else {
            return;
        };
        let Some(heir) = leaving.heirs.last().copied() else {
            if !leaving.doubtful.is_empty() {
                leaving.retry_ms = cx.now_ms.saturating_add(HEIR_RETRY_MS);
                self.leaving = Some(leaving);
            } else if leaving.farewells == 0 {
                self.depart(leaving.command);
            } else {
                self.leaving = Some(leaving);
            }
            return;
        };
        let mut left = leaving.keys.clone();
        let body = self.leave_message(cx, &mut left);
        leaving.under_way = leaving.keys.len() - left.len();
        self.call_encoded(heir, Call::Leave, body, self.parameters.hand_over_timeout_ms);
        self.leaving = Some(leaving);
    }

    fn leave_message(&mut self, cx: &mut Context<'_>, keys: &mut Vec<Key>) -> Vec<u8> {
        let record = self.own_bytes(cx);
        let request = Request::Leave {
            record: &record,
            predecessor: self.predecessor().map(NodeRecord::encoded),
            successors: self.book.encoded(self.routing.successors()),
            entries: self.objects.take_chunk(keys),
        };
        request.encode()
    }

    /// A member leaves, and hands over what it is responsible for.
    pub(super) fn serve_leave(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        predecessor: Option<&[u8]>,
        successors: &[&[u8]],
        entries: &[EntryBytes<'_>],
    ) -> Result<(), Code> {
        let may_hand_over = self.may_hand_over(&from);
        // Anybody else could fill the book with members that nobody can reach.
        let is_neighbour = may_hand_over || self.routing.is_neighbour(&from);
        let predecessor = predecessor.filter(|_| is_neighbour);
        let predecessor = self.meet_members(cx, from, predecessor.as_slice()).pop();
        if may_hand_over {
            // It is no neighbour from now on, and may have more than fits one message; who was before it may leave, too.
            predecessor
                .into_iter()
                .for_each(|before| self.let_hand_over(before));
            self.let_hand_over(from);
        }
        let taken = if entries.is_empty() {
            Ok(())
        } else {
            self.take_entries(cx, from, entries)
        };
        if is_neighbour {
            self.meet_members(cx, from, successors);
        }
        self.neighbour_left(cx, from, predecessor);
        taken
    }

    /// An heir has taken what it was sent, or has not: then the next one gets it.
    pub(super) fn left_one(&mut self, cx: &mut Context<'_>, taken: Result<(), Code>) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        match taken {
            Ok(()) => {
                leaving.keys.drain(..leaving.under_way);
                if leaving.keys.is_empty() {
                    leaving.heirs.clear();
                    leaving.doubtful.clear();
                }
            }
            Err(code) => {
                let heir = leaving.heirs.pop();
                leaving
                    .doubtful
                    .extend(heir.filter(|_| code == Code::NotResponsible));
            }
        }
        leaving.under_way = 0;
        self.hand_over(cx);
    }

    /// Somebody who was told answered, or did not.
    pub(super) fn farewell_over(&mut self, cx: &mut Context<'_>) {
        if let Some(leaving) = &mut self.leaving {
            leaving.farewells = leaving.farewells.saturating_sub(1);
            if leaving.heirs.is_empty() {
                self.hand_over(cx);
            }
        }
    }

    pub(super) fn tick_leave(&mut self, cx: &mut Context<'_>) {
        if self.parting_due_ms() <= cx.now_ms {
            self.part_now(cx);
        }
        if let Some(leaving) = self.leaving.take_if(|leaving| leaving.deadline_ms <= cx.now_ms) {
            self.depart(leaving.command);
        }
        if let Some(leaving) = self
            .leaving
            .as_mut()
            .filter(|leaving| leaving.retry_ms <= cx.now_ms)
        {
            leaving.retry_ms = u64::MAX;
            leaving.heirs = core::mem::take(&mut leaving.doubtful);
            leaving.heirs.reverse();
            self.hand_over(cx);
        }
    }

    /// When a node that withdraws what it publishes goes on to leave: once all of that is stored.
    pub(super) fn parting_due_ms(&self) -> u64 {
        match &self.parting {
            Some(_) if self.publisher.is_settled() => 0,
            Some(parting) => parting.deadline_ms(),
            None => u64::MAX,
        }
    }

    /// Leaves now if this node is to leave.
    pub(super) fn part_now(&mut self, cx: &mut Context<'_>) {
        if let Some(parting) = self.parting.take() {
            self.leave_ring(cx, parting.command);
        }
    }

    /// Ends a leave that goes on: whoever joins again does not wait for it.
    pub(super) fn depart_now(&mut self) {
        if let Some(parting) = self.parting.take() {
            self.depart(parting.command);
        }
        if let Some(leaving) = self.leaving.take() {
            self.depart(leaving.command);
        }
    }

    fn depart(&mut self, command: u32) {
        self.routing.clear();
        self.drop_objects();
        self.forget_neighbours();
        self.actions.push_back(Action::Changed);
        self.done(command);
    }
}
