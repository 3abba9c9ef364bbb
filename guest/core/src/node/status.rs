use alloc::vec::Vec;

use selfsame_codec::reply::{Membership, NodeView, ServiceView, StatusView, Validity};

use super::Node;
use crate::admission::KNOWS_CLOSED;
use crate::gather::Gather as _;
use crate::identity::Admitted;
use crate::record::NodeRecord;
use crate::ring::Service;

impl Node {
    /// Answers the command `Status`.
    pub(super) fn reply_status(&mut self, tag: u32) {
        let own = self.ring_with(|ring, cx| ring.own_record(cx).clone());
        let membership = self.membership();
        let body = self.status(&own, membership);
        self.reply(tag, &body);
    }

    /// How the network admits this node and its neighbours, if it is closed.
    fn membership(&mut self) -> Option<Membership> {
        if !KNOWS_CLOSED {
            return None;
        }
        let gate = self.ring.gate();
        let authority = gate.authority()?;
        let list = gate.revocations();
        let (serial, revoked) = list.map_or((0, 0), |list| (list.serial(), list.revoked() as u64));
        let mut neighbours: Vec<&NodeRecord> = self.ring.successors();
        neighbours.extend(self.ring.predecessor());
        neighbours.sort_unstable_by_key(|record| record.id());
        neighbours.dedup_by_key(|record| record.id());
        let neighbours = neighbours
            .into_iter()
            .map(|record| (record.id().0, validity(record.admitted())));
        Some(Membership {
            authority: authority.0,
            certificate: validity(self.identity.admitted()),
            serial,
            revoked,
            neighbours: neighbours.gather(),
        })
    }

    fn status(&self, own: &NodeRecord, membership: Option<Membership>) -> Vec<u8> {
        let ring = &self.ring;
        let nodes = [ring.successors(), ring.fingers(), ring.relays()];
        let status = StatusView {
            own: view(own),
            network: &self.settings.network_name,
            joined: ring.is_joined(),
            predecessor: ring.predecessor().map(view),
            nodes: nodes.map(|records| records.into_iter().map(view).gather()),
            peers: self.peers.ids().map(|id| id.0).gather(),
            services: ring.services().into_iter().map(view_service).gather(),
            objects: ring.objects_len() as u64,
            counters: self.out.counters().gather(),
            membership,
        };
        status.encode()
    }
}

fn validity(admitted: Admitted) -> Validity {
    Validity {
        since_ms: admitted.since_ms,
        until_ms: admitted.until_ms,
    }
}

fn view_service(service: &Service) -> ServiceView<'_> {
    ServiceView {
        name: &service.name,
        version: &service.version,
        weight: service.weight,
    }
}

/// A record as the application sees it.
pub(super) fn view(record: &NodeRecord) -> NodeView<'_> {
    NodeView {
        id: record.id().0,
        role: record.role(),
        addresses: record.addresses(),
        domain: record.domain(),
    }
}
