//! Frames that members pass on to a member, each to one that is closer to it: handshakes and packets of sessions that run
//! through the ring. Who passes a frame on keeps nothing of it.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Node;
use super::connect::Waiter;
use super::paths::{Path, Way};
use super::relay::is_initiation;
use super::toll::Toll;
use crate::channel::{Frame, MAX_MESSAGE, Route};
use crate::gather::Gather as _;
use crate::hex;
use crate::identity::PeerId;
use crate::quota::{Entry, Hold, Holder, Room, room};
use selfsame_sorted_map::Map;

/// Most times that a frame is passed on: each finger halves the way, so rings of four thousand million members need no more.
pub(super) const MAX_HOPS: u8 = 32;
/// Longest frame: a packet with the longest message, or m3 with one.
const MAX_ROUTED: usize = MAX_MESSAGE + 4096;
/// Most paths through the ring: as many as there may be sessions.
const MAX_ROUTED_PATHS: usize = 1024;
/// Most paths through the ring that peers have opened and on which no session is up.
const MAX_HALF_OPEN: u64 = 256;
/// First hops among which whoever sends again chooses another one.
const DETOURS: usize = 4;
/// Time between two attempts to have a session with a closer member, so that a flood dials nobody more often.
const DIAL_MS: u64 = 100;
/// Sessions on one path: a new one, and the one before, whose packets may be under way.
const SESSIONS: usize = 2;
/// In place of the attempt that dialled a path: this node opened it to send a message.
const OWN: u32 = 0;

/// Paths through the ring
#[derive(Default)]
pub(super) struct Routes {
    /// By the member at the other end.
    paths: Map<PeerId, u32>,
    toll: Toll,
    next_dial_ms: u64,
}

impl Routes {
    /// How many paths there are.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.paths.remove(peer);
    }
}

impl Node {
    /// A frame came that is to be passed on, or is for this member. What is wrong with it is counted; who sent it may only have
    /// passed on what another one made.
    pub(super) fn route_received(&mut self, index: u32, route: &Route<'_>) {
        let path = self
            .connections
            .get(&index)
            .map_or(0, |connection| connection.path);
        if let Err(code) = self.take_route(index, route) {
            self.out.dropped(code, path);
        }
    }

    fn take_route(&mut self, index: u32, route: &Route<'_>) -> Result<(), Code> {
        let Some(connection) = self.connections.get(&index) else {
            return Ok(());
        };
        let previous = connection.session.peer();
        let bringers = self.session_entry(connection, Hold::Idle).holders;
        if self.is_relayed(index) || !self.ring.is_member() {
            return Err(Code::NoNextHop);
        }
        if route.frame.len() > MAX_ROUTED {
            return Err(Code::FrameTooLarge);
        }
        if route.hops > MAX_HOPS {
            return Err(Code::RouteTooLong);
        }
        // Among honest members no frame goes round: each of them is closer than the one before.
        let is_closer = |peer: &PeerId| self.ring.is_closer_here(peer, &route.to);
        if !is_closer(&previous) || !is_closer(&route.from) {
            return Err(Code::RouteCircle);
        }
        if !self.routes.toll.admits(bringers, route.frame.len(), self.now_ms) {
            return Err(Code::RouteOverload);
        }
        if route.to == self.identity.id() {
            return self.routed_here(previous, route);
        }
        let hops = route.hops.checked_sub(1).ok_or(Code::RouteExpired)?;
        let next = self.next_hop(&route.to, 0).ok_or(Code::NoNextHop)?;
        self.queue(next, &Frame::Route(Route { hops, ..*route }));
        Ok(())
    }

    fn routed_here(&mut self, previous: PeerId, route: &Route<'_>) -> Result<(), Code> {
        let path = match self.routes.paths.get(&route.from) {
            Some(path) => *path,
            None if is_initiation(route.frame) => {
                self.make_room_for_route();
                self.open_route(route.from, Holder::bringing(&previous))?
            }
            None => return Err(Code::UnknownSession),
        };
        self.frame_received(path, route.frame);
        self.close_if_unused(path);
        Ok(())
    }

    /// Closes a half-open path through the ring if a newcomer needs its place.
    fn make_room_for_route(&mut self) {
        let mut numbers = Vec::new();
        let mut entries = Vec::new();
        for number in self.routes.paths.values() {
            let path = self.paths.table.get(number);
            if let Some(path) = path.filter(|path| path.is_half_open()) {
                numbers.push(*number);
                entries.push(Entry {
                    holders: [path.source, Holder::EXEMPT],
                    size: 1,
                    used_ms: path.opened_ms,
                    hold: Hold::Idle,
                });
            }
        }
        if let Room::Evict(position) = room(MAX_HALF_OPEN, &entries) {
            self.out.dropped(Code::TooManyPaths, numbers[position]);
            self.close_path(numbers[position], Code::TooManyPaths);
        }
    }

    fn open_route(&mut self, peer: PeerId, source: Holder) -> Result<u32, Code> {
        if self.routes.len() >= MAX_ROUTED_PATHS {
            return Err(Code::TooManyPaths);
        }
        let number = self.new_path_number();
        let mut remote = String::from("route:");
        hex::push(&mut remote, &peer.0);
        let path = Path {
            source,
            ..Path::new(Way::Routed { peer }, &remote, None, self.now_ms)
        };
        self.paths.table.insert(number, path);
        self.routes.paths.insert(peer, number);
        Ok(number)
    }

    /// The newest session with a member through the ring.
    pub(super) fn routed_session(&self, peer: &PeerId) -> Option<u32> {
        let path = self.paths.table.get(self.routes.paths.get(peer)?)?;
        path.connections.last().copied()
    }

    /// Begins a session with a member through the ring, or sends the first message of its handshake once more.
    pub(super) fn reach_through_ring(&mut self, peer: PeerId) -> Result<(), Code> {
        let number = match self.routes.paths.get(&peer) {
            Some(number) => *number,
            None => self.open_route(peer, Holder::EXEMPT)?,
        };
        if let Some(path) = self.paths.table.get_mut(&number) {
            path.attempt = Some(OWN);
        }
        if let Some(initiation) = self.initiation_on(number) {
            self.take_detour(number);
            self.transmit(number, &initiation);
        } else {
            self.initiate(number, OWN, Some(peer));
        }
        Ok(())
    }

    /// Ends what this node began with a member through the ring and has no use for.
    pub(super) fn leave_route(&mut self, peer: &PeerId) {
        let Some(number) = self.routes.paths.get(peer).copied() else {
            return;
        };
        if let Some(path) = self.paths.table.get_mut(&number) {
            path.attempt = None;
        }
        self.close_if_unused(number);
    }

    /// Whether a connection leads through the ring.
    pub(super) fn is_routed(&self, index: u32) -> bool {
        let connection = self.connections.get(&index);
        connection.is_some_and(|connection| self.routed_peer(connection.path).is_some())
    }

    /// The member to which a path leads, if it does so through the ring.
    pub(super) fn routed_peer(&self, path: u32) -> Option<PeerId> {
        match self.paths.table.get(&path)?.way {
            Way::Routed { peer } => Some(peer),
            _ => None,
        }
    }

    /// A session through the ring is up: it takes the place of older ones, and of no direct one.
    pub(super) fn route_established(&mut self, path: u32, peer: PeerId) {
        let Some(open) = self.paths.table.get_mut(&path) else {
            return;
        };
        open.attempt = None;
        let old = (open.connections.len() > SESSIONS).then(|| open.connections[0]);
        if let Some(old) = old {
            self.drop_connection(old, Code::PeerClosed);
        }
        self.send_messages_to(peer);
    }

    /// What is sent on a path from now on goes another way if it leads through the ring: something was lost on this one.
    pub(super) fn take_detour(&mut self, path: u32) {
        if let Some(path) = self.paths.table.get_mut(&path) {
            path.detour = path.detour.wrapping_add(1);
        }
    }

    /// Sends a frame through the ring.
    pub(super) fn send_routed(&mut self, path: u32, to: PeerId, frame: &[u8]) {
        let detour = self.paths.table.get(&path).map_or(0, |path| path.detour);
        let Some(next) = self.next_hop(&to, detour) else {
            self.out.dropped(Code::NoNextHop, path);
            return;
        };
        let route = Route {
            to,
            from: self.identity.id(),
            hops: MAX_HOPS,
            frame,
        };
        self.queue(next, &Frame::Route(route));
    }

    /// The connection on which a frame to a member goes on; a session with the closest one is made for the next frame.
    fn next_hop(&mut self, to: &PeerId, detour: u8) -> Option<u32> {
        let hops = self.ring.next_hops(to);
        let live = hops.iter().filter_map(|peer| self.live_connection(peer));
        let wanted = if detour == 0 { 1 } else { DETOURS };
        let live: Vec<u32> = live.take(wanted).gather();
        let is_reached = |peer: &PeerId| self.peers.preferred(peer).is_some();
        if let Some(closest) = hops.first().filter(|peer| !is_reached(peer))
            && self.now_ms >= self.routes.next_dial_ms
        {
            self.routes.next_dial_ms = self.now_ms + DIAL_MS;
            self.connect(*closest, Waiter::Hop);
        }
        live.get(usize::from(detour) % live.len().max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::connect::tests::node;

    #[test]
    fn half_open_paths_of_one_previous_hop_leave_room_for_others() {
        let mut node = node();
        let id = |number: u16| {
            let mut id = [0; 32];
            id[..2].copy_from_slice(&number.to_be_bytes());
            PeerId(id)
        };
        let mut open = |number: u16, previous: u16| {
            node.make_room_for_route();
            node.open_route(id(number), Holder::bringing(&id(previous)))
                .expect("room")
        };
        let first = open(60_000, 1);
        (0..2_000).for_each(|number| _ = open(number, 2));
        assert!(node.paths.table.contains_key(&first));
        assert!(node.routes.len() <= MAX_HALF_OPEN as usize);
    }
}
