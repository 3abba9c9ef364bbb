//! Leaves are reached through members, which pass on frames that they cannot open.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Node;
use super::paths::{Path, RELAY_PATHS, Way};
use crate::channel::Frame;
use crate::gather::Gather as _;
use crate::handshake::Kind;
use crate::hex;
use crate::identity::PeerId;
use crate::quota::{Entry, Hold, admits};
use crate::record::relay_address;
use selfsame_sorted_map::Entries;

/// Most paths through members: as many as there may be sessions, and as many again that have none yet.
const MAX_RELAY_PATHS: usize = 2048;
/// Most paths through one member that peers have opened and on which no session is up.
const MAX_HALF_OPEN: usize = 64;
/// How long a handshake through a relay may take: within this time a member introduces no more peers to a leaf than the leaf
/// keeps half open for it, so that the leaf closes no path that is younger.
const INTRODUCED_MS: u64 = 2_000;

impl Node {
    /// The path to a peer behind a member.
    pub(super) fn relay_path(&mut self, member: PeerId, peer: PeerId) -> Result<u32, Code> {
        let way = Way::Relay { member, peer };
        if let Some(number) = self.find_relay_path(member, peer) {
            return Ok(number);
        }
        if self.relay_paths().len() - self.routes.len() >= MAX_RELAY_PATHS {
            return Err(Code::TooManyPaths);
        }
        let number = self.new_path_number();
        let mut remote = relay_address(&member);
        remote.push(':');
        hex::push(&mut remote, &peer.0);
        let path = Path::new(way, &remote, None, self.now_ms);
        self.paths.table.insert(number, path);
        Ok(number)
    }

    /// The path on which a frame came through a member. A peer opens one with the first message of a handshake, and only
    /// through a relay of this node.
    fn incoming_relay_path(&mut self, member: PeerId, peer: PeerId, frame: &[u8]) -> Result<u32, Code> {
        let is_ours = || self.ring.relays().iter().any(|relay| relay.id() == member);
        match self.find_relay_path(member, peer) {
            Some(path) => Ok(path),
            None if is_initiation(frame) && is_ours() => {
                self.make_room_behind(member);
                self.relay_path(member, peer)
            }
            None => Err(Code::NoRoute),
        }
    }

    /// Closes the oldest half-open path through a member if there are too many.
    fn make_room_behind(&mut self, member: PeerId) {
        let (mut count, mut oldest) = (0, (u64::MAX, 0));
        for (number, path) in self.relay_paths() {
            if matches!(path.way, Way::Relay { member: via, .. } if via == member) && path.is_half_open() {
                count += 1;
                oldest = oldest.min((path.opened_ms, *number));
            }
        }
        if count >= MAX_HALF_OPEN {
            self.close_path(oldest.1, Code::TooManyPaths);
        }
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
        match self.incoming_relay_path(from, other, frame) {
            Ok(path) if frame.is_empty() => self.close_path(path, Code::NoRoute),
            Ok(path) => {
                self.frame_received(path, frame);
                self.close_if_unused(path);
            }
            Err(code) => {
                self.out.dropped(code, path);
                if self.ring.is_member() {
                    self.tell_unreachable(index, other, frame);
                }
            }
        }
    }

    fn pass_on(&mut self, index: u32, from: PeerId, to: PeerId, frame: &[u8]) {
        let onward = self.peers.preferred(&to);
        match onward.filter(|onward| !is_initiation(frame) || self.introduce(index, *onward)) {
            Some(onward) => self.queue(onward, &Frame::Relay { peer: from, frame }),
            None => self.tell_unreachable(index, to, frame),
        }
    }

    /// Tells the sender of a frame that its receiver cannot be reached here, unless that is what it said itself.
    fn tell_unreachable(&mut self, index: u32, peer: PeerId, frame: &[u8]) {
        if !frame.is_empty() {
            self.queue(index, &Frame::Relay { peer, frame: &[] });
        }
    }

    /// Notes that a peer begins a handshake with a leaf; says whether it may.
    ///
    /// Whoever has a session sends no such message. Who finds no room waits until introductions are over, in place of evicting
    /// one: the leaf has answered that already, and would close its oldest path for the next.
    fn introduce(&mut self, from: u32, leaf: u32) -> bool {
        let now_ms = self.now_ms;
        let Some(sender) = self.connections.get(&from) else {
            return false;
        };
        let entry = self.session_entry(sender, Hold::Idle);
        let Some(leaf) = self.connections.get_mut(&leaf) else {
            return false;
        };
        let introductions = &mut leaf.introductions;
        let [peer, source] = entry.holders;
        introductions.retain(|other| other.holders[0] != peer && now_ms < other.used_ms + INTRODUCED_MS);
        let own = introductions.iter().filter(|other| other.holders[1] == source);
        if !admits(MAX_HALF_OPEN, introductions.len(), source, own.count()) {
            return false;
        }
        introductions.push(Entry {
            used_ms: now_ms,
            ..entry
        });
        true
    }

    fn find_relay_path(&self, member: PeerId, peer: PeerId) -> Option<u32> {
        let way = Way::Relay { member, peer };
        let found = self.relay_paths().iter().find(|(_, path)| path.way == way);
        found.map(|(number, _)| *number)
    }

    /// Paths that lead through members, by their numbers.
    fn relay_paths(&self) -> Entries<'_, u32, Path> {
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

pub(super) fn is_initiation(frame: &[u8]) -> bool {
    Kind::of(frame) == Some(Kind::Initiation)
}
