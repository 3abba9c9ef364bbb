//! Another run with this node's identity, as after a copy of its folder was started: it is found out about, and one of the
//! two stops.

use selfsame_codec::reply::encode_duplicate;
use selfsame_codec::{Code, EventKind, LogLevel};

use super::Node;
use super::connect::Waiter;
use super::status::view;
use crate::boot::BootId;
use crate::handshake::Confirmation;
use crate::record::NodeRecord;

/// Most addresses of the other run that are tried, each for some seconds.
const MAX_TRIED: usize = 2;

impl Node {
    /// Draws the id of this run.
    pub(super) fn begin_run(&mut self) {
        let boot = BootId::draw(&mut self.random, self.clock.wall_ms, self.settings.take_over);
        self.identity.set_boot(boot);
    }

    /// Goes on as the run that slept, if its record is still true.
    pub(super) fn wake_as(&mut self, boot: BootId) {
        if self.ring.slept_as(boot) {
            self.identity.set_boot(boot);
        }
    }

    /// Asks where a newer record of this node leads whether the run that signed it lives.
    pub(super) fn rival_met(&mut self, rival: NodeRecord) {
        let own = self.ring_with(|ring, cx| ring.own_record(cx).clone());
        let mut elsewhere = self.ways_to(&rival, false);
        elsewhere.retain(|way| !own.addresses().iter().any(|address| way.is_address(address)));
        elsewhere.truncate(MAX_TRIED);
        self.rival = Some(rival);
        self.begin(Some(self.identity.id()), elsewhere, Waiter::Rival);
    }

    /// Nobody who has to be heeded answers there.
    pub(super) fn rival_gone(&mut self) {
        self.ring_with(|ring, cx| ring.outlive_rival(cx));
    }

    /// Somebody with this node's key has answered m1: it is told of this run in m3.
    pub(super) fn rival_answered(
        &mut self,
        path: u32,
        attempt: u32,
        boot: BootId,
        confirmation: Confirmation,
    ) {
        let record = self.ring_with(|ring, cx| ring.own_record(cx).encoded().to_vec());
        let frame = confirmation.seal(&self.identity, &record);
        self.transmit(path, &frame);
        let rival = self.rival.take();
        self.rival_lives(boot, rival);
        self.attempt_over(attempt);
    }

    /// Somebody with this node's key has begun a handshake with it, and sends its record in m3.
    pub(super) fn rival_called(&mut self, path: u32, boot: BootId, record: &[u8]) {
        let rival = NodeRecord::decode_verified(self.ring.gate(), record, self.clock.wall_ms).ok();
        self.rival_lives(boot, rival);
        self.close_if_unused(path);
    }

    fn rival_lives(&mut self, boot: BootId, rival: Option<NodeRecord>) {
        let own_boot = self.identity.boot();
        if boot != own_boot {
            let own = self.ring_with(|ring, cx| ring.own_record(cx).clone());
            self.tell_duplicate(&own, rival.as_ref().unwrap_or(&own));
        }
        if own_boot.gives_way_to(&boot) {
            self.stop_for(Code::DuplicateIdentity);
        } else {
            self.rival_gone();
        }
    }

    /// Tells the host that two runs of one node live, where both are.
    pub(super) fn tell_duplicate(&mut self, one: &NodeRecord, other: &NodeRecord) {
        let mut text = alloc::string::String::from("two nodes with one identity");
        for address in one.addresses().iter().chain(other.addresses()) {
            text.push(' ');
            text.push_str(address);
        }
        self.out
            .log_peer(LogLevel::Error, Code::DuplicateIdentity, &text, &one.id());
        let body = encode_duplicate([view(one), view(other)]);
        self.event(EventKind::DuplicateIdentity, &body);
    }
}
