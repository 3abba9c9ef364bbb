//! Leaving in good order: what this node publishes is withdrawn, what it stores goes to its successor.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::message::Request;
use super::objects::Key;
use super::{Action, Call, Context, Phase, Ring};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::record::NodeRecord;

/// State of a leave
#[derive(Debug)]
pub(super) struct Leaving {
    command: u32,
    keys: Vec<Key>,
    /// Peers that were told and have not answered.
    farewells: usize,
    /// Successors that may take the objects, the nearest last.
    heirs: Vec<PeerId>,
    deadline_ms: u64,
}

impl Leaving {
    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }
}

impl Ring {
    /// Hands over what this node is responsible for and leaves.
    pub fn leave(&mut self, cx: &mut Context<'_>, command: u32) {
        if self.phase == Phase::Out {
            self.done(command);
            return;
        }
        self.phase = Phase::Out;
        // Newer than in any update that is still under way: one that arrives later does not bring this member back.
        self.renew_record(cx);
        let mut joins = self.maintenance.stop();
        joins.extend(self.attach.stop());
        joins
            .into_iter()
            .for_each(|join| self.fail(join, Code::Cancelled));
        for find in core::mem::take(&mut self.finds).into_keys() {
            self.fail(find, Code::NotJoined);
        }
        for lookup in self.walks.clear() {
            self.fail(lookup, Code::NotJoined);
        }
        let mut farewells = self.bid_farewell_to_holders(cx);
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
            farewells,
            heirs,
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
            if leaving.farewells == 0 {
                self.depart(leaving.command);
            } else {
                self.leaving = Some(leaving);
            }
            return;
        };
        let body = self.leave_message(cx, &mut leaving.keys);
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

    /// An heir answered, or did not: then the next one gets what is left, and the mirrors have the rest.
    pub(super) fn left_one(&mut self, cx: &mut Context<'_>, answered: bool) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        if !answered {
            leaving.heirs.pop();
        } else if leaving.keys.is_empty() {
            leaving.heirs.clear();
        }
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
        if let Some(leaving) = self.leaving.take_if(|leaving| leaving.deadline_ms <= cx.now_ms) {
            self.depart(leaving.command);
        }
    }

    /// Ends a leave that goes on: whoever joins again does not wait for it.
    pub(super) fn depart_now(&mut self) {
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
