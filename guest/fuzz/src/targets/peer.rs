//! A peer with a proven identity and a live session that sends whatever it likes: frames are changed before they are
//! sealed, and packets after.

use std::collections::BTreeMap;

use selfsame_codec::{Config, Field, Input, PathKind, Reader, Role};
use selfsame_core::admission::Gate;
use selfsame_core::channel::{Frame, FrameReader, Session, Side};
use selfsame_core::handshake::Initiator;
use selfsame_core::identity::Identity;
use selfsame_core::random::Random;

use super::Target;
use super::lab::{HEAD, Lab, START_MS, config, identity, owner_grant};
use super::ring::sample_requests;
use super::step::{milliseconds, operation};
use crate::items::{self, Item};
use crate::mutate::Shape;

/// A frame with these fields, the kind of the operation being the frame's.
const LAST_FRAME: u8 = 11;
/// Seal the frames so far and send them.
const SEND: u8 = 20;
/// The same, then change the packet: its payload is a place and what to combine with it.
const SEND_CHANGED: u8 = 21;
/// Send the last packet once more.
const REPLAY: u8 = 22;
/// Send the payload as a frame of the path.
const RAW: u8 = 23;
/// Let time pass.
const PASS: u8 = 24;
/// An input of the node's own application: kind, then payload.
const LOCAL: u8 = 25;
/// Come back on a new path, the node having lost its memory of the old one.
const RESUME: u8 = 26;
/// The same with a changed snapshot: places and what to combine with them.
const RESUME_CHANGED: u8 = 27;
/// A request with this body.
const REQUEST: u8 = 28;
/// An answer with this body to what the node asked last.
const RESPOND: u8 = 29;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 64;
/// Seed of the peer's identity: the leaf of the ring from which the requests come.
const PEER: u8 = 5;

/// What a session is taken up from, so that no execution pays for a handshake
pub(super) struct Attacker {
    config: Config,
    store: BTreeMap<Vec<u8>, Vec<u8>>,
    snapshot: Vec<u8>,
    session: Vec<u8>,
}

impl Attacker {
    /// Makes the session.
    pub(super) fn new() -> Self {
        let config = config(1, Role::Member);
        let mut lab = Lab::new(&config, BTreeMap::new());
        lab.step(&[Input::Join { tag: 1 }]);
        let store = lab.store.clone();
        let session = shake_hands(&mut lab, &identity(PEER));
        let snapshot = lab.snapshots.remove(&1).expect("a snapshot of the path");
        Self {
            config,
            store,
            snapshot,
            session,
        }
    }
}

/// Gives the peer's side of a new session on path 1.
fn shake_hands(lab: &mut Lab, peer: &Identity) -> Vec<u8> {
    lab.step(&[Input::PathOpened {
        path: 1,
        dial: 0,
        kind: PathKind::Hibernating,
        remote: "192.0.2.9:1",
    }]);
    let mut random = Random::new(&[5; 32]);
    let initiator = Initiator::new(peer, &mut random, Some(identity(1).id()), 7);
    let frame = initiator.initiation();
    lab.step(&[Input::Received { path: 1, frame }]);
    let (_, response) = lab.sent.pop().expect("m2");
    let (secrets, confirmation) = initiator
        .finish(peer, (&mut Gate::new(peer.network(), None), 0), &response)
        .expect("a sound m2");
    let mut session = Session::new(secrets, Side::Initiator, confirmation.peer_index(), START_MS);
    let frame = &confirmation.seal(peer, &[]);
    lab.step(&[Input::Received { path: 1, frame }]);
    // The node may have greeted the new peer already.
    for (_, mut packet) in core::mem::take(&mut lab.sent) {
        session.open(START_MS, &mut packet).expect("a sound packet");
    }
    let mut saved = Vec::new();
    session.save(&mut saved);
    saved
}

/// One life of the session
struct Bout<'a> {
    attacker: &'a Attacker,
    lab: Lab,
    session: Session,
    path: u32,
    frames: Vec<u8>,
    last: Vec<u8>,
    next_request: u32,
    asked: Vec<u32>,
    /// Whether node and peer still hold the same session, so that what the node seals must open.
    agrees: bool,
}

impl<'a> Bout<'a> {
    fn new(attacker: &'a Attacker) -> Self {
        let mut bout = Self {
            attacker,
            lab: Lab::new(&attacker.config, attacker.store.clone()),
            session: load(&attacker.session),
            path: 0,
            frames: Vec::new(),
            last: Vec::new(),
            next_request: 0,
            asked: Vec::new(),
            agrees: true,
        };
        bout.lab.step(&[Input::Join { tag: 1 }]);
        bout.resume(&attacker.snapshot);
        bout
    }

    fn resume(&mut self, snapshot: &[u8]) {
        let old = self.path;
        self.path += 1;
        self.session = load(&self.attacker.session);
        self.agrees = snapshot == self.attacker.snapshot;
        let path = self.path;
        self.lab.step(&[
            Input::PathClosed { path: old },
            Input::PathResumed {
                path,
                remote: "192.0.2.9:1",
                snapshot,
            },
        ]);
        self.listen();
    }

    fn run(&mut self, item: Item) {
        let Item { kind, payload } = item;
        match kind {
            REQUEST => {
                let id = self.next_request;
                self.next_request += 1;
                self.numbered(1, id, &payload);
            }
            RESPOND => {
                if let Some(id) = self.asked.pop() {
                    self.numbered(2, id, &payload);
                }
            }
            0..=LAST_FRAME => {
                self.frames.push(kind);
                self.frames.extend_from_slice(&payload);
            }
            SEND => self.send(|_| {}),
            SEND_CHANGED => self.send(|packet| combine(packet, &payload)),
            REPLAY => {
                let packet = self.last.clone();
                self.deliver(&packet);
            }
            RAW => self.deliver(&payload),
            PASS => {
                self.lab.now_ms += milliseconds(&payload);
                self.lab.step(&[]);
                self.listen();
            }
            LOCAL => {
                let input = payload.split_first().map(|(kind, rest)| Item::new(*kind, rest));
                let input: Vec<Item> = input.into_iter().collect();
                self.lab.step_items(&items::encode(&input), input.len());
                self.listen();
            }
            RESUME | RESUME_CHANGED => {
                let mut snapshot = self.attacker.snapshot.clone();
                if kind == RESUME_CHANGED {
                    combine(&mut snapshot, &payload);
                }
                self.resume(&snapshot);
            }
            _ => {}
        }
    }

    fn numbered(&mut self, kind: u8, id: u32, body: &[u8]) {
        self.frames.push(kind);
        id.write(&mut self.frames);
        body.write(&mut self.frames);
    }

    fn send(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let frames = core::mem::take(&mut self.frames);
        let mut packet = Vec::new();
        let sealed = self
            .session
            .seal(self.lab.now_ms, &mut packet, |out| out.extend_from_slice(&frames));
        if sealed.is_ok() {
            change(&mut packet);
            self.deliver(&packet);
            self.last = packet;
        }
    }

    fn deliver(&mut self, frame: &[u8]) {
        let path = self.path;
        self.lab.step(&[Input::Received { path, frame }]);
        self.listen();
    }

    /// Opens what the node sent: it must be sound, whatever the node was fed.
    fn listen(&mut self) {
        for (path, mut packet) in core::mem::take(&mut self.lab.sent) {
            if path != self.path || packet.first() != Some(&16) || !self.agrees {
                continue;
            }
            let payload = self
                .session
                .open(self.lab.now_ms, &mut packet)
                .expect("the node seals soundly");
            for frame in FrameReader::new(payload) {
                if let Frame::Request { id, .. } = frame.expect("the node sends sound frames") {
                    self.asked.push(id);
                }
            }
        }
        self.lab.closed.clear();
    }
}

fn load(saved: &[u8]) -> Session {
    Session::load(&mut Reader::new(saved)).expect("a saved session")
}

/// Changes bytes: `changes` are places, two bytes each, and what to combine with them.
pub(super) fn combine(bytes: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = bytes.get_mut(place) {
            *byte ^= change[2];
        }
    }
}

impl Target for Attacker {
    fn name(&self) -> &'static str {
        "peer"
    }

    fn weight(&self) -> usize {
        60
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn max_len(&self) -> usize {
        80_000
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let mut seeds: Vec<Vec<u8>> = sample_requests()
            .into_iter()
            .map(|body| items::encode(&[Item::new(REQUEST, body), Item::new(SEND, [])]))
            .collect();
        seeds.extend([stream_seed(), packet_seed(), relay_seed()]);
        seeds
    }

    fn run(&mut self, input: &[u8]) {
        let mut bout = Bout::new(self);
        for item in items::parse(input).into_iter().take(MAX_OPERATIONS) {
            bout.run(item);
        }
        bout.send(|_| {});
    }
}

fn local(input: &Input<'_>) -> Item {
    let Item { kind, payload } = operation(input);
    Item::new(LOCAL, [&[kind][..], &payload].concat())
}

fn frame(kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Item {
    let mut payload = Vec::new();
    write(&mut payload);
    Item::new(kind, payload)
}

/// The opening of a stream of an unowned name.
fn open(stream: u32, name: &str) -> Item {
    frame(3, |out| {
        stream.write(out);
        out.push(0);
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
        b"head".as_slice().write(out);
    })
}

fn stream_seed() -> Vec<u8> {
    items::encode(&[
        local(&Input::Publish {
            tag: 2,
            grant: &[],
            name: "echo",
            replicas: 0,
            version: "",
            weight: 1,
        }),
        local(&Input::Publish {
            tag: 3,
            grant: owner_grant().encoded(),
            name: "check",
            replicas: 1,
            version: "",
            weight: 1,
        }),
        open(0, "echo"),
        frame(4, |out| {
            0_u32.write(out);
            0_u64.write(out);
            b"bytes".as_slice().write(out);
        }),
        Item::new(SEND, []),
        local(&Input::StreamData {
            stream: 1,
            data: b"answer",
        }),
        local(&Input::StreamCredit { stream: 1, bytes: 5 }),
        frame(7, |out| {
            0_u32.write(out);
            (1_u64 << 20).write(out);
        }),
        frame(5, |out| {
            0_u32.write(out);
            5_u64.write(out);
        }),
        Item::new(SEND, []),
        local(&Input::StreamEnd { stream: 1 }),
        open(2, "echo"),
        frame(6, |out| {
            2_u32.write(out);
            out.push(8);
        }),
        open(4, "nobody"),
        Item::new(SEND, []),
    ])
}

fn packet_seed() -> Vec<u8> {
    items::encode(&[
        frame(9, |out| 1_u64.write(out)),
        Item::new(SEND, []),
        Item::new(REPLAY, []),
        frame(10, |out| 1_u64.write(out)),
        Item::new(SEND_CHANGED, [8, 0, 1]),
        local(&Input::CallPeer {
            tag: 4,
            peer: identity(PEER).id().0,
            owner: &[],
            name: "echo",
            timeout_ms: 0,
            head: HEAD,
        }),
        Item::new(PASS, 0x0400_0000_u32.to_le_bytes()),
        Item::new(RESPOND, [0x82, 0, 0xf6]),
        Item::new(SEND, []),
        Item::new(RESUME, []),
        Item::new(RESUME_CHANGED, [80, 0, 1]),
        Item::new(RAW, [1; 48]),
        Item::new(RESUME, []),
        Item::new(11, [6]),
    ])
}

fn relay_seed() -> Vec<u8> {
    let [attach] = &sample_requests()
        .into_iter()
        .filter(|body| body.get(..2) == Some(&[0x82, 8]))
        .collect::<Vec<_>>()[..]
    else {
        unreachable!("one sample attaches");
    };
    items::encode(&[
        Item::new(REQUEST, attach.clone()),
        Item::new(SEND, []),
        frame(8, |out| {
            identity(PEER).id().0.write(out);
            [1_u8; 48].as_slice().write(out);
        }),
        frame(8, |out| {
            identity(3).id().0.write(out);
            [].as_slice().write(out);
        }),
        Item::new(SEND, []),
        local(&Input::CallPeer {
            tag: 4,
            peer: identity(3).id().0,
            owner: &[],
            name: "echo",
            timeout_ms: 0,
            head: HEAD,
        }),
        Item::new(PASS, 0x0040_0000_u32.to_le_bytes()),
    ])
}
