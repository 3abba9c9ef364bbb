//! Peers that speak to a node by hand, from any address, and keep to no rule that a node keeps to.

use selfsame_codec::{Input, Role};
use selfsame_core::admission::Gate;
use selfsame_core::channel::{Data, Frame, FrameReader, FrameWriter, Open, Service, Session, Side};
use selfsame_core::handshake::{Confirmation, Initiator};
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::random::Random;

use super::closed::{authority, certificate, terms};
use super::rings::HEAD;
use super::{Flight, Net};

/// First bytes of handshake frames.
pub const RESPONSE: u8 = 2;
pub const COOKIE: u8 = 4;
pub const REJECT: u8 = 5;

/// The machine on which strangers live: what is sent to it is read by the test
pub struct Outside {
    host: usize,
}

/// A handshake whose m2 has arrived
pub struct HalfOpen {
    pub identity: Identity,
    pub path: u32,
    outer_path: u32,
    session: Session,
    pub confirmation: Confirmation,
}

/// A session with a node
pub struct Stranger {
    pub id: PeerId,
    /// The node's number for the path.
    pub path: u32,
    outer_path: u32,
    at: usize,
    pub session: Session,
}

pub fn identity(seed: u16) -> Identity {
    let mut bytes = [0xAB; 32];
    bytes[..2].copy_from_slice(&seed.to_le_bytes());
    Identity::recall(&bytes, NetworkId::open("twiitr"), &[])
}

/// An address in the `n`-th IPv4 /24.
pub fn address(n: u16) -> String {
    let [high, low] = n.to_be_bytes();
    format!("11.{high}.{low}.1")
}

impl Outside {
    pub fn new(net: &mut Net) -> Self {
        let host = net.leaf(250, &[]);
        net.hosts[host].up = false;
        Self { host }
    }

    /// Sends m1 on a new path, with the cookie where one is asked for; `None` when it is rejected.
    pub fn knock(&self, net: &mut Net, at: usize, from: &str, seed: u16) -> Option<HalfOpen> {
        let (outer_path, path) = net.link_from(self.host, at, from);
        self.knock_on(net, at, (outer_path, path), seed)
    }

    /// The same on a path that is open.
    pub fn knock_on(&self, net: &mut Net, at: usize, paths: (u32, u32), seed: u16) -> Option<HalfOpen> {
        let identity = identity(seed);
        let gate = Gate::new(identity.network(), None);
        self.knock_as(net, at, paths, seed, (identity, gate))
    }

    /// The same by an identity of any network, with the gate of that.
    fn knock_as(
        &self,
        net: &mut Net,
        at: usize,
        paths: (u32, u32),
        seed: u16,
        (identity, mut gate): (Identity, Gate),
    ) -> Option<HalfOpen> {
        let (outer_path, path) = paths;
        let mut entropy = [0x5A; 32];
        entropy[..8].copy_from_slice(&(u64::from(seed) << 32 | u64::from(path)).to_le_bytes());
        entropy[8..16].copy_from_slice(&net.hosts[at].steps.to_le_bytes());
        let mut random = Random::new(&entropy);
        let target = Some(net.hosts[at].id);
        let mut initiator = Initiator::new(&identity, &mut random, target, u32::from(seed) + 1);
        for _ in 0..2 {
            let frame = initiator.initiation().to_vec();
            net.step(at, &[Input::Received { path, frame: &frame }]);
            for frame in self.take(net) {
                match frame[0] {
                    RESPONSE => {
                        let (secrets, confirmation) = initiator
                            .finish(&identity, (&mut gate, net.now_ms), &frame)
                            .ok()?;
                        let peer_index = confirmation.peer_index();
                        let session = Session::new(secrets, Side::Initiator, peer_index, net.now_ms);
                        return Some(HalfOpen {
                            identity,
                            path,
                            outer_path,
                            session,
                            confirmation,
                        });
                    }
                    COOKIE => initiator.set_cookie(&frame[16..48].try_into().expect("a cookie")),
                    _ => return None,
                }
            }
        }
        None
    }

    /// A whole handshake.
    pub fn enter(&self, net: &mut Net, at: usize, from: &str, seed: u16) -> Option<Stranger> {
        let half_open = self.knock(net, at, from, seed)?;
        self.confirm(net, at, half_open)
    }

    /// A whole handshake in a closed network, with a certificate.
    pub fn enter_closed(&self, net: &mut Net, at: usize, seed: u8, role: Role) -> Option<Stranger> {
        let authority = authority(200);
        let mut gate = Gate::new(authority.network(), Some(authority.public()));
        let mut identity = Identity::recall(&[seed; 32], authority.network(), &[]);
        let certificate = gate.admit(&identity.public(), &certificate(terms(seed, role)));
        let certificate = certificate
            .expect("a sound certificate")
            .expect("a closed network");
        certificate.give_to(&mut identity).expect("its own");
        let paths = self.link(net, at, "127.0.0.1:1");
        let half_open = self.knock_as(net, at, paths, seed.into(), (identity, gate))?;
        self.confirm(net, at, half_open)
    }

    /// Sends m3.
    pub fn confirm(&self, net: &mut Net, at: usize, half_open: HalfOpen) -> Option<Stranger> {
        let HalfOpen {
            identity,
            path,
            outer_path,
            session,
            confirmation,
        } = half_open;
        let frame = confirmation.seal(&identity, &[]);
        net.step(at, &[Input::Received { path, frame: &frame }]);
        self.take(net);
        let id = identity.id();
        let stranger = Stranger {
            id,
            path,
            outer_path,
            at,
            session,
        };
        self.is_connected(net, &stranger).then_some(stranger)
    }

    /// Sends a frame that overtakes m3.
    pub fn overtake(&self, net: &mut Net, at: usize, half_open: &mut HalfOpen, frame: &Frame<'_>) {
        let packet = sealed(&mut half_open.session, net.now_ms, frame);
        let path = half_open.path;
        net.step(at, &[Input::Received { path, frame: &packet }]);
    }

    /// Sends a frame; gives what the node sent to strangers.
    pub fn say(&self, net: &mut Net, stranger: &mut Stranger, frame: &Frame<'_>) -> Vec<Vec<u8>> {
        let packet = sealed(&mut stranger.session, net.now_ms, frame);
        let path = stranger.path;
        net.step(stranger.at, &[Input::Received { path, frame: &packet }]);
        net.deliver_others(self.host);
        self.take(net)
    }

    /// Opens a stream of a service.
    pub fn open(&self, net: &mut Net, stranger: &mut Stranger, stream: u32, name: &str) {
        self.open_with(net, stranger, stream, name, HEAD);
    }

    /// As [`Outside::open`], with a head of one's own.
    pub fn open_with(&self, net: &mut Net, stranger: &mut Stranger, stream: u32, name: &str, head: &[u8]) {
        let service = Service { owner: None, name };
        let open = Open {
            stream,
            service,
            head,
        };
        self.say(net, stranger, &Frame::Open(open));
    }

    pub fn send(&self, net: &mut Net, stranger: &mut Stranger, stream: u32, offset: u64, bytes: &[u8]) {
        let data = Data {
            stream,
            offset,
            bytes,
        };
        self.say(net, stranger, &Frame::Data(data));
    }

    /// Shows the node that the stranger is there, so that the session is not ended out of silence.
    pub fn pong(&self, net: &mut Net, stranger: &mut Stranger) {
        self.say(net, stranger, &Frame::Pong { token: 0 });
    }

    /// Closes the path.
    pub fn leave(&self, net: &mut Net, stranger: &Stranger) {
        net.close_path(self.host, stranger.outer_path);
    }

    /// Whether the node keeps the path, which it closes with the last session on it.
    pub fn is_connected(&self, net: &Net, stranger: &Stranger) -> bool {
        net.hosts[self.host].paths.contains_key(&stranger.outer_path)
    }

    pub fn connected<'a>(&self, net: &Net, strangers: impl IntoIterator<Item = &'a Stranger>) -> usize {
        let all = strangers.into_iter();
        all.filter(|stranger| self.is_connected(net, stranger)).count()
    }

    /// A path from an address.
    pub fn link(&self, net: &mut Net, at: usize, from: &str) -> (u32, u32) {
        net.link_from(self.host, at, from)
    }

    pub fn has_path(&self, net: &Net, outer_path: u32) -> bool {
        net.hosts[self.host].paths.contains_key(&outer_path)
    }

    /// What was sent to strangers; all else stays under way.
    pub fn take(&self, net: &mut Net) -> Vec<Vec<u8>> {
        let flights = core::mem::take(&mut net.flights).into_iter();
        let (mine, rest): (Vec<Flight>, Vec<Flight>) = flights.partition(|flight| flight.to == self.host);
        net.flights = rest.into();
        mine.into_iter().map(|flight| flight.frame).collect()
    }
}

fn sealed(session: &mut Session, now_ms: u64, frame: &Frame<'_>) -> Vec<u8> {
    let mut packet = Vec::new();
    let write = |out: &mut Vec<u8>| FrameWriter::new(out).frame(frame);
    session.seal(now_ms, &mut packet, write).expect("a small frame");
    packet
}

/// The frames that a member relayed to a stranger.
pub fn relayed(stranger: &mut Stranger, now_ms: u64, packets: &[Vec<u8>]) -> Vec<(PeerId, Vec<u8>)> {
    let mut found = Vec::new();
    for packet in packets {
        let mut packet = packet.clone();
        let Ok(payload) = stranger.session.open(now_ms, &mut packet) else {
            continue;
        };
        for frame in FrameReader::new(payload).map_while(Result::ok) {
            if let Frame::Relay { peer, frame } = frame {
                found.push((peer, frame.to_vec()));
            }
        }
    }
    found
}
