use alloc::string::ToString;
use alloc::vec::Vec;

use selfsame_codec::cbor::Encoder;
use selfsame_codec::reply::{self, Status};

use super::Node;
use crate::record::NodeRecord;

impl Node {
    /// Answers the command `Status`.
    pub(super) fn reply_status(&mut self, tag: u32) {
        let body = self.status().encode();
        self.reply(tag, &body);
    }

    fn status(&mut self) -> Status {
        let own = self.ring_with(|ring, cx| ring.own_record(cx).clone());
        let list = |records: Vec<&NodeRecord>| records.into_iter().map(describe).collect();
        Status {
            id: self.identity.id().0,
            network: self.settings.network_name.clone(),
            role: self.settings.role,
            joined: self.ring.is_joined(),
            addresses: own.addresses().to_vec(),
            predecessor: self.ring.predecessor().map(describe),
            successors: list(self.ring.successors()),
            fingers: list(self.ring.fingers()),
            relays: list(self.ring.relays()),
            peers: self.peers.ids().map(|id| id.0).collect(),
            services: self
                .ring
                .services()
                .into_iter()
                .map(|service| reply::Service {
                    name: service.name.clone(),
                    version: service.version.clone(),
                    weight: service.weight,
                })
                .collect(),
            objects: self.ring.objects_len() as u64,
            counters: self
                .out
                .counters()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
        }
    }

    pub(super) fn reply_node(&mut self, tag: u32, record: &NodeRecord) {
        let mut body = Vec::new();
        describe(record).encode_into(&mut Encoder::new(&mut body));
        self.reply(tag, &body);
    }
}

/// A record as the application sees it.
pub(super) fn describe(record: &NodeRecord) -> reply::Node {
    reply::Node {
        id: record.id().0,
        role: record.role(),
        addresses: record.addresses().to_vec(),
        domain: record.domain().into(),
    }
}
