use alloc::boxed::Box;
use alloc::vec::Vec;
use selfsame_codec::{Code, EventKind, LogLevel, PathKind};

use super::Node;
use super::connection::Connection;
use super::observed::is_elsewhere;
use super::paths::Way;
use super::timers::Timer;
use crate::admission::KNOWS_CLOSED;
use crate::channel::{Session, Side};
use crate::handshake::{
    Confirmed, CookieJar, Header, INITIATION_BYTES, Initiation, Initiator, Responder, SessionSecrets,
    cookie_frame, is_unproven, parse_cookie, parse_reject, reject_frame,
};
use crate::identity::PeerId;
use crate::quota::Holder;
use crate::random::Random;
use selfsame_sorted_map::Map;

/// From here on an initiator must return a cookie before anything is computed for it.
const COOKIES_FROM: usize = 64;
/// Most half-open handshakes on one path, each of about 1.5 kB: a peer needs one, and one more when it starts again. How many
/// paths there may be without a session bounds all of them.
const MAX_HALF_OPEN_ON_PATH: usize = 4;
/// Most packets that wait for the m3 they overtook, of all half-open handshakes together: one MiB.
const MAX_EARLY: usize = 16;
/// How long a handshake may stay half open.
const HALF_OPEN_MS: u64 = 10_000;
struct Initiated {
    initiator: Initiator,
    path: u32,
    attempt: u32,
}

struct HalfOpen {
    responder: Responder,
    path: u32,
    /// Packets of the session that overtook m3.
    early: Vec<Vec<u8>>,
}

/// Handshakes that are not finished
pub(super) struct Handshakes {
    initiated: Map<u32, Initiated>,
    half_open: Map<u32, HalfOpen>,
    cookies: CookieJar,
    next_index: u32,
}

impl Handshakes {
    pub(super) fn new(random: &mut Random) -> Self {
        // Numbers start anywhere, so that frames for sessions of an earlier start meet no session.
        let next_index = u32::from_le_bytes(random.bytes());
        Self {
            initiated: Map::new(),
            half_open: Map::new(),
            cookies: CookieJar::new(random, 0),
            next_index,
        }
    }
}

impl Handshakes {
    /// m2 to an m1 that arrived before.
    fn repeated_response(&self, path: u32, frame: &[u8]) -> Option<Vec<u8>> {
        let mut on_path = self.half_open.values().filter(|half_open| half_open.path == path);
        let known = on_path.find(|half_open| half_open.responder.answers(frame))?;
        Some(known.responder.response().to_vec())
    }
}

impl Node {
    /// Begins a handshake on a path.
    pub(super) fn initiate(&mut self, path: u32, attempt: u32, target: Option<PeerId>) {
        let index = self.new_index();
        let initiator = Initiator::new(&self.identity, &mut self.random, target, index);
        self.transmit(path, initiator.initiation());
        let initiated = Initiated {
            initiator,
            path,
            attempt,
        };
        self.handshakes.initiated.insert(index, initiated);
        self.update_busy(path);
    }

    /// A number for a session that no other one has.
    pub(super) fn new_index(&mut self) -> u32 {
        loop {
            let index = self.handshakes.next_index;
            self.handshakes.next_index = index.wrapping_add(1);
            let taken = self.connections.contains_key(&index)
                || self.handshakes.initiated.contains_key(&index)
                || self.handshakes.half_open.contains_key(&index);
            if index != 0 && !taken {
                return index;
            }
        }
    }

    /// m1 arrived.
    pub(super) fn initiation_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        let network = self.identity.network();
        if let Err(code) = header.check(&network) {
            self.transmit(path, &reject_frame(&header, &network, code));
            return Err(code);
        }
        let initiation = Initiation::parse(frame).map_err(|_| Code::BadFrame)?;
        let frame: &[u8; INITIATION_BYTES] = frame.try_into().map_err(|_| Code::BadFrame)?;
        if initiation
            .target
            .is_some_and(|target| target != self.identity.id())
        {
            self.transmit(path, &reject_frame(&header, &network, Code::WrongPeer));
            return Err(Code::WrongPeer);
        }
        if let Some(response) = self.handshakes.repeated_response(path, frame) {
            self.take_detour(path);
            self.transmit(path, &response);
            return Ok(());
        }
        if !self.may_answer(path, &initiation)? {
            return Ok(());
        }
        let index = self.new_index();
        let responder = Responder::new(&self.identity, &mut self.random, frame, index)?;
        self.transmit(path, responder.response());
        if let Some(path) = self.paths.table.get_mut(&path) {
            path.half_open += 1;
        }
        self.timers
            .set(self.now_ms + HALF_OPEN_MS, Timer::HalfOpen(index));
        let half_open = HalfOpen {
            responder,
            path,
            early: Vec::new(),
        };
        self.handshakes.half_open.insert(index, half_open);
        self.update_busy(path);
        Ok(())
    }

    /// Applies the limits; answers with a cookie where one is due.
    fn may_answer(&mut self, path: u32, initiation: &Initiation<'_>) -> Result<bool, Code> {
        let network = self.identity.network();
        let Some(open) = self.paths.table.get(&path) else {
            return Err(Code::UnknownPath);
        };
        let (cookies, now_ms) = (&mut self.handshakes.cookies, self.now_ms);
        // Whoever sends through the ring can give any name as its own, and would take all places of another one's path.
        let is_doubtful = matches!(open.way, Way::Routed { .. }) && open.half_open > 0;
        let needs_cookie = (is_doubtful || self.handshakes.half_open.len() >= COOKIES_FROM)
            && !cookies.accepts(&mut self.random, now_ms, &open.remote, initiation);
        let refusal = if open.half_open >= MAX_HALF_OPEN_ON_PATH {
            Code::TooManyHandshakes
        } else if needs_cookie {
            let cookie = cookies.cookie(&mut self.random, now_ms, &open.remote, initiation);
            self.transmit(path, &cookie_frame(&initiation.header, &network, &cookie));
            return Ok(false);
        } else if !self.has_room_for_session() {
            Code::TooManySessions
        } else {
            return Ok(true);
        };
        self.transmit(path, &reject_frame(&initiation.header, &network, refusal));
        Err(refusal)
    }

    /// m2 arrived.
    pub(super) fn response_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        let Some(initiated) = self
            .handshakes
            .initiated
            .get(&header.receiver)
            .filter(|one| one.path == path)
        else {
            return Err(Code::UnknownSession);
        };
        let attempt = initiated.attempt;
        let admit = (self.ring.gate(), self.clock.wall_ms);
        match initiated.initiator.finish(&self.identity, admit, frame) {
            Ok((secrets, confirmation)) => {
                self.handshakes.initiated.remove(&header.receiver);
                if secrets.peer == self.identity.id() {
                    self.rival_answered(path, attempt, secrets.peer_boot, confirmation);
                    return Ok(());
                }
                // A session that this node asked for comes up in any case.
                self.make_room_for_session();
                let session = Session::new(secrets, Side::Initiator, confirmation.peer_index(), self.now_ms);
                let connection = Connection::new(
                    session,
                    path,
                    self.is_ordered(path),
                    Some(confirmation),
                    self.now_ms,
                );
                self.establish(header.receiver, connection);
                self.attempt_succeeded(attempt, header.receiver);
                Ok(())
            }
            // Anybody can send a bad m2; only a sound one from another peer ends the attempt. Through the ring whoever passes m1 on can.
            Err(Code::WrongPeer) if self.routed_peer(path).is_none() => {
                self.handshakes.initiated.remove(&header.receiver);
                self.attempt_failed(attempt, Code::WrongPeer);
                Err(Code::WrongPeer)
            }
            Err(code) => Err(code),
        }
    }

    /// m3 arrived.
    pub(super) fn confirmation_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        let Some(half_open) = self
            .handshakes
            .half_open
            .get(&header.receiver)
            .filter(|one| one.path == path)
        else {
            return Err(Code::UnknownSession);
        };
        let index = header.receiver;
        let peer_index = half_open.responder.peer_index();
        let admit = (self.ring.gate(), self.clock.wall_ms);
        let finished = half_open.responder.finish(&self.identity, admit, frame);
        let finished = finished.and_then(|confirmed| self.check_observed(path, confirmed));
        let sender = self.routed_peer(path);
        let confirmed = match finished {
            Ok(confirmed) if sender.is_some_and(|sender| sender != confirmed.secrets.peer) => {
                self.take_half_open(index);
                return Err(Code::WrongPeer);
            }
            Ok(confirmed) if self.make_room_for_session() => confirmed,
            Ok(_) => {
                self.end_half_open(index, Code::TooManySessions);
                return Ok(());
            }
            // Only the initiator can seal m3. One that opens and proves nothing would cost a verification each time it came.
            Err(code) if is_unproven(code) => {
                // The path stays open for this, until the peer or a timer closes it.
                self.transmit(path, &reject_frame(&header, &self.identity.network(), code));
                self.take_half_open(index);
                self.out.dropped(code, path);
                return Ok(());
            }
            Err(code) => return Err(code),
        };
        let early = self.take_half_open(index);
        if confirmed.secrets.peer == self.identity.id() {
            self.rival_called(path, confirmed.secrets.peer_boot, &confirmed.payload);
            return Ok(());
        }
        self.accept_session(index, path, confirmed.secrets, peer_index);
        let taken = self.payload_received(index, &confirmed.payload);
        for packet in early.into_iter().flat_map(|half_open| half_open.early) {
            self.frame_received(path, &packet);
        }
        taken
    }

    /// Refuses a peer that is not seen at the address of its certificate, where the host sees that itself.
    fn check_observed(&self, path: u32, confirmed: Confirmed) -> Result<Confirmed, Code> {
        let certified = confirmed.address.as_deref().filter(|_| KNOWS_CLOSED);
        let path = self.paths.table.get(&path);
        let direct = path.filter(|path| path.way == Way::Host(PathKind::Direct));
        match (direct, certified) {
            (Some(path), Some(certified)) if is_elsewhere(&path.remote, certified) => Err(Code::WrongAddress),
            _ => Ok(confirmed),
        }
    }

    /// Keeps a packet whose session waits for m3, on paths where it can be overtaken; says whether it did.
    pub(super) fn keep_early(&mut self, path: u32, index: u32, packet: &[u8]) -> bool {
        let is_ordered = self.is_ordered(path);
        let half_open = &mut self.handshakes.half_open;
        if is_ordered || half_open.get(&index).is_none_or(|one| one.path != path) {
            return false;
        }
        let kept: usize = half_open.values().map(|one| one.early.len()).sum();
        if kept >= MAX_EARLY
            && let Some(most) = half_open.values_mut().max_by_key(|one| one.early.len())
        {
            most.early.pop();
        }
        let half_open = half_open.get_mut(&index);
        half_open
            .map(|half_open| half_open.early.push(packet.to_vec()))
            .is_some()
    }

    fn accept_session(&mut self, index: u32, path: u32, secrets: SessionSecrets, peer_index: u32) {
        let session = Session::new(secrets, Side::Responder, peer_index, self.now_ms);
        let connection = Connection::new(session, path, self.is_ordered(path), None, self.now_ms);
        self.establish(index, connection);
    }

    /// A session is up on both sides' word.
    pub(super) fn establish(&mut self, index: u32, connection: Connection) {
        let peer = connection.session.peer();
        let is_confirming = connection.confirmation.is_some();
        if let Some(path) = self.paths.table.get_mut(&connection.path) {
            path.connections.push(index);
        }
        let path = connection.path;
        self.mark_unsaved(path);
        self.connections.insert(index, connection);
        if is_confirming {
            self.mark_unsent(index);
        }
        if let Some(peer) = self.routed_peer(path) {
            self.watch_certificate(index);
            self.route_established(path, peer);
            self.end_idle_sessions();
            return;
        }
        if self.peers.add(self.identity.id(), index, &self.connections) {
            self.mesh.reached(&peer);
            self.event(EventKind::PeerConnected, &peer.0);
            self.ring_with(|ring, cx| ring.peer_connected(cx, peer));
        }
        self.watch_certificate(index);
        self.attempts_reached(peer, index);
        self.end_idle_sessions();
    }

    /// A cookie arrived: m1 goes out again with it.
    pub(super) fn cookie_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        header.check(&self.identity.network())?;
        let cookie = parse_cookie(frame).map_err(|_| Code::BadFrame)?;
        let Some(initiated) = self
            .handshakes
            .initiated
            .get_mut(&header.receiver)
            .filter(|one| one.path == path)
        else {
            return Err(Code::UnknownSession);
        };
        initiated.initiator.set_cookie(&cookie);
        let initiation = initiated.initiator.initiation().to_vec();
        self.transmit(path, &initiation);
        Ok(())
    }

    /// A reject arrived. It is not authenticated, but whoever can forge it on the path could drop m2 as well.
    pub(super) fn reject_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        let code = parse_reject(frame).map_err(|_| Code::BadFrame)?;
        // Through the ring anybody can send one in the name of any member: who sent a message tries again on another way.
        if self.routed_peer(path).is_some() {
            return Err(Code::UnknownSession);
        }
        let Some(initiated) = self
            .handshakes
            .initiated
            .get(&header.receiver)
            .filter(|one| one.path == path)
        else {
            return self.confirmation_rejected(path, header.receiver, code);
        };
        let attempt = initiated.attempt;
        self.handshakes.initiated.remove(&header.receiver);
        self.out.log(LogLevel::Warn, code, path, "");
        self.attempt_failed(attempt, code);
        Ok(())
    }

    /// The peer has not taken m3: nothing has come from it on the session.
    fn confirmation_rejected(&mut self, path: u32, index: u32, code: Code) -> Result<(), Code> {
        let is_refused =
            |connection: &&Connection| connection.path == path && connection.session.is_unheard();
        let Some(connection) = self.connections.get(&index).filter(is_refused) else {
            return Err(Code::UnknownSession);
        };
        let peer = connection.session.peer();
        self.out.log(LogLevel::Warn, code, path, "");
        self.refusals.add(peer, code, self.now_ms);
        self.drop_connection(index, code);
        self.close_if_unused(path);
        Ok(())
    }

    /// Ends a half-open handshake that comes to nothing.
    pub(super) fn end_half_open(&mut self, index: u32, why: Code) {
        if let Some(half_open) = self.take_half_open(index) {
            self.out.dropped(why, half_open.path);
            self.close_if_unused(half_open.path);
        }
    }

    fn take_half_open(&mut self, index: u32) -> Option<Box<HalfOpen>> {
        let half_open = self.handshakes.half_open.remove(&index)?;
        let path = half_open.path;
        if let Some(path) = self.paths.table.get_mut(&path) {
            path.half_open = path.half_open.saturating_sub(1);
        }
        self.update_busy(path);
        Some(half_open)
    }

    /// The first message of a handshake that this node began on a path.
    pub(super) fn initiation_on(&self, path: u32) -> Option<Vec<u8>> {
        let mut on_path = self.handshakes.initiated.values().filter(|one| one.path == path);
        Some(on_path.next()?.initiator.initiation().to_vec())
    }

    /// Forgets what was under way on a path that is gone.
    pub(super) fn forget_handshakes_on(&mut self, path: u32) {
        self.handshakes.initiated.retain(|_, one| one.path != path);
        self.handshakes.half_open.retain(|_, one| one.path != path);
    }

    /// Forgets the handshakes of an attempt.
    pub(super) fn forget_handshakes_of(&mut self, attempt: u32) {
        self.handshakes.initiated.retain(|_, one| one.attempt != attempt);
    }

    /// The network or relay that a path comes from.
    pub(super) fn source_of(&self, path: u32) -> Holder {
        self.paths
            .table
            .get(&path)
            .map_or(Holder::EXEMPT, |path| path.source)
    }

    fn is_ordered(&self, path: u32) -> bool {
        self.paths.table.get(&path).is_some_and(|path| path.is_ordered())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Admitted, Identity, NetworkId};
    use crate::node::connect::tests::node;
    use crate::node::paths::Path;
    use selfsame_sorted_map::Map;

    /// What comes of a handshake on a path through the ring that is to lead to `sender`, and the number of its session.
    fn outcome(node: &mut Node, sender: impl FnOnce(&Identity) -> PeerId) -> Result<u32, Code> {
        let identity = Identity::recall(&[9; 32], NetworkId::open("n"), &[]);
        let peer = sender(&identity);
        let path = Path::new(Way::Routed { peer }, "route:", None, 0);
        node.paths.table = Map::from_iter([(7, path)]);
        let mut random = Random::new(&[3; 32]);
        let initiator = Initiator::new(&identity, &mut random, Some(node.identity.id()), 5);
        node.initiation_received(7, initiator.initiation())?;
        let (index, half_open) = node.handshakes.half_open.first().expect("an answer");
        let (index, response) = (*index, half_open.responder.response());
        let admit = (&mut crate::admission::Gate::new(identity.network(), None), 0);
        let (_, confirmation) = initiator.finish(&identity, admit, response).expect("a sound m2");
        let taken = node.confirmation_received(7, &confirmation.seal(&identity, &[]));
        assert_eq!(node.connections.contains_key(&index), taken.is_ok());
        taken.map(|()| index)
    }

    #[test]
    fn member_on_the_way_that_answers_itself_ends_no_handshake() {
        let mut node = node();
        let peer = PeerId([8; 32]);
        let path = Path::new(Way::Routed { peer }, "route:", None, 0);
        node.paths.table = Map::from_iter([(7, path)]);
        node.initiate(7, 0, Some(peer));
        let initiation = node.initiation_on(7).expect("m1");
        let other = Identity::recall(&[9; 32], NetworkId::open("n"), &[]);
        let m1 = initiation.first_chunk().expect("its length");
        let responder = Responder::new(&other, &mut Random::new(&[3; 32]), m1, 5).expect("m2");
        assert_eq!(
            node.response_received(7, responder.response()),
            Err(Code::WrongPeer)
        );
        assert_eq!(node.initiation_on(7), Some(initiation));
    }

    #[test]
    fn routed_session_is_refused_to_all_but_its_sender() {
        assert!(outcome(&mut node(), Identity::id).is_ok());
        assert_eq!(outcome(&mut node(), |_| PeerId([8; 32])), Err(Code::WrongPeer));
    }

    #[test]
    fn session_that_ends_leaves_no_timer_of_its_certificate() {
        let mut node = node();
        let index = outcome(&mut node, Identity::id).expect("a session");
        let admitted = Admitted {
            since_ms: 0,
            until_ms: 1 << 40,
        };
        let session = node.connections.get_mut(&index).map(|one| &mut one.session);
        session.expect("a session").set_admitted(admitted);
        node.watch_certificate(index);
        assert!(node.timers.has(Timer::Certificate(index)));
        node.drop_connection(index, Code::PeerClosed);
        assert!(!node.timers.has(Timer::Certificate(index)));
    }
}
