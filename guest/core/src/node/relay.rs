//! Leaves are reached through members, which pass on frames that they cannot open.

use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Node;
use super::paths::{Path, RELAY_PATHS, Way};
use crate::channel::Frame;
use crate::gather::Gather as _;
use crate::hex;
use crate::identity::PeerId;
use crate::record::relay_address;

/// Most peers that a leaf may have behind one member.
const MAX_RELAY_PATHS: usize = 1024;

impl Node {
    /// The path to a peer behind a member.
    pub(super) fn relay_path(&mut self, member: PeerId, peer: PeerId) -> Result<u32, Code> {
        let way = Way::Relay { member, peer };
        if let Some(number) = self.find_relay_path(member, peer) {
            return Ok(number);
        }
        if self.relay_paths().len() >= MAX_RELAY_PATHS {
            return Err(Code::TooManyPaths);
        }
        let number = loop {
            let number = RELAY_PATHS | self.paths.next_relay;
            self.paths.next_relay = (self.paths.next_relay + 1) & !RELAY_PATHS;
            if !self.paths.table.contains_key(&number) {
                break number;
            }
        };
        let mut remote = relay_address(&member);
        remote.push(':');
        hex::push(&mut remote, &peer.0);
        self.paths.table.insert(number, Path::new(way, &remote, None));
        Ok(number)
    }

    /// A peer of ours sent a frame for, or from, a peer behind it. What nobody asked for is dropped, not punished: the
    /// peer may only have passed on what another one made.
    pub(super) fn relay_received(&mut self, index: u32, other: PeerId, frame: &[u8]) {
        let Some(connection) = self.connections.get(&index) else {
            return;
        };
        let (from, path) = (connection.session.peer(), connection.path);
        if self.is_relayed(index) {
            // A relay within a relay leads nowhere but down the stack.
            self.out.dropped(Code::NoRoute, path);
            return;
        }
        if self.ring.relays_for(&other) || (self.ring.relays_for(&from) && other != self.identity.id()) {
            self.pass_on(index, from, other, frame);
            return;
        }
        let is_ours = self.ring.relays().iter().any(|relay| relay.id() == from);
        if !is_ours && self.find_relay_path(from, other).is_none() {
            self.out.dropped(Code::NoRoute, path);
            return;
        }
        match self.relay_path(from, other) {
            Ok(path) if frame.is_empty() => self.close_path(path, Code::NoRoute),
            Ok(path) => self.frame_received(path, frame),
            Err(code) => self.out.dropped(code, path),
        }
    }

    fn pass_on(&mut self, index: u32, from: PeerId, to: PeerId, frame: &[u8]) {
        match self.peers.preferred(&to) {
            Some(onward) => self.queue(onward, &Frame::Relay { peer: from, frame }),
            // The sender is told that nobody is there, unless that is what it said itself.
            None if !frame.is_empty() => self.queue(index, &Frame::Relay { peer: to, frame: &[] }),
            None => {}
        }
    }

    fn find_relay_path(&self, member: PeerId, peer: PeerId) -> Option<u32> {
        let way = Way::Relay { member, peer };
        let found = self.relay_paths().iter().find(|(_, path)| path.way == way);
        found.map(|(number, _)| *number)
    }

    /// Paths that lead through members, by their numbers.
    fn relay_paths(&self) -> &[(u32, Box<Path>)] {
        self.paths.table.split(&RELAY_PATHS).1
    }

    /// The paths through a member end with our last connection to it.
    pub(super) fn relay_peer_gone(&mut self, member: PeerId) {
        let through: Vec<u32> = self
            .relay_paths()
            .iter()
            .filter(|(_, path)| matches!(path.way, Way::Relay { member: via, .. } if via == member))
            .map(|(number, _)| *number)
            .gather();
        for number in through {
            self.close_path(number, Code::Disconnected);
        }
    }
}
