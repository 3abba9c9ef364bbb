use alloc::vec::Vec;

use selfsame_codec::reply::{NodeView, ServiceView, StatusView};

use super::Node;
use crate::gather::Gather as _;
use crate::record::NodeRecord;
use crate::ring::Service;

impl Node {
    /// Answers the command `Status`.
    pub(super) fn reply_status(&mut self, tag: u32) {
        let own = self.ring_with(|ring, cx| ring.own_record(cx).clone());
        let body = self.status(&own);
        self.reply(tag, &body);
    }

    fn status(&self, own: &NodeRecord) -> Vec<u8> {
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
        };
        status.encode()
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
