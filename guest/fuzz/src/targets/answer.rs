//! A node that dials a peer which answers the handshake as it likes: cookies, rejections, m2 of other identities,
//! changed messages, and after a sound handshake whatever frames it wants.

use std::collections::BTreeMap;

use selfsame_codec::{Code, Input, PathKind, Role};
use selfsame_core::admission::Gate;
use selfsame_core::channel::{Session, Side};
use selfsame_core::handshake::{
    COOKIE_BYTES, Header, INITIATION_BYTES, Responder, cookie_frame, reject_frame,
};
use selfsame_core::identity::PeerId;
use selfsame_core::random::Random;

use super::Target;
use super::lab::{HEAD, Lab, address, config, identity, known_id, network};
use super::peer::combine;
use super::step::{milliseconds, operation};
use crate::items::{self, Item};
use crate::mutate::Shape;

/// A cookie.
const COOKIE: u8 = 0;
/// A rejection with this code.
const REJECT: u8 = 1;
/// An answer: seed of the identity, then places and what to combine with them.
const RESPONSE: u8 = 2;
/// Bytes on the path.
const RAW: u8 = 3;
/// Let time pass.
const PASS: u8 = 4;
/// An input of the node's own application: kind, then payload.
const LOCAL: u8 = 5;
/// Frames in a sealed packet.
const FRAMES: u8 = 6;
/// Answer what the node dials: with a path of this kind, or not at all.
const DIALLED: u8 = 7;
/// Kind of a first operation: whether the node takes whoever answers.
const ANYBODY: u8 = 200;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 32;
/// Seed of the peer that is dialled.
const PEER: u8 = 5;
/// The peer's number for its session.
const INDEX: u32 = 40;

/// A dialled peer
pub(super) struct Answer;

impl Target for Answer {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn weight(&self) -> usize {
        15
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let frames = [9, 1, 0, 0, 0, 0, 0, 0, 0];
        let call = Input::CallPeer {
            tag: 2,
            peer: known_id(PEER).0,
            owner: &[],
            name: "echo",
            timeout_ms: 0,
            head: HEAD,
        };
        let Item { kind, payload } = operation(&call);
        let reject = |code: Code| Item::new(REJECT, code.as_u16().to_le_bytes());
        let lists = [
            vec![
                Item::new(DIALLED, [0]),
                Item::new(LOCAL, [&[kind][..], &payload].concat()),
                Item::new(COOKIE, [7; COOKIE_BYTES]),
                Item::new(RESPONSE, [PEER]),
                Item::new(FRAMES, frames),
                Item::new(FRAMES, [6, 0, 0, 0, 0, 8]),
            ],
            vec![
                Item::new(DIALLED, [1]),
                reject(Code::WrongPeer),
                Item::new(DIALLED, [0]),
                Item::new(RESPONSE, [3]),
            ],
            vec![
                Item::new(DIALLED, [2]),
                Item::new(RESPONSE, [PEER, 20, 0, 1]),
                reject(Code::TooManyHandshakes),
                Item::new(PASS, (20_000_u32 << 7).to_le_bytes()),
            ],
            vec![
                Item::new(ANYBODY, []),
                Item::new(DIALLED, [0]),
                Item::new(RESPONSE, [6]),
                Item::new(FRAMES, [11, 6]),
                Item::new(DIALLED, [3]),
            ],
        ];
        lists.iter().map(|list| items::encode(list)).collect()
    }

    fn run(&mut self, input: &[u8]) {
        let list = items::parse(input);
        let anybody = list.first().is_some_and(|item| item.kind == ANYBODY);
        let peer = if anybody { PeerId([0; 32]) } else { known_id(PEER) };
        let mut caller = Caller::new(&peer);
        for item in list.iter().take(MAX_OPERATIONS) {
            caller.run(item);
        }
    }
}

/// The node that dials, and what its peer knows
struct Caller {
    lab: Lab,
    path: u32,
    initiation: Option<[u8; INITIATION_BYTES]>,
    responder: Option<(u8, Responder)>,
    session: Option<Session>,
    random: Random,
}

impl Caller {
    fn new(peer: &PeerId) -> Self {
        let mut lab = Lab::new(&config(1, Role::Member), BTreeMap::new());
        lab.step(&[Input::Connect {
            tag: 1,
            peer: peer.0,
            address: &address(PEER),
        }]);
        Self {
            lab,
            path: 0,
            initiation: None,
            responder: None,
            session: None,
            random: Random::new(&[4; 32]),
        }
    }

    fn run(&mut self, Item { kind, payload }: &Item) {
        let first = payload.first().copied().unwrap_or(0);
        let header = self.initiation.and_then(|frame| Header::parse(&frame).ok());
        match *kind {
            COOKIE => {
                let mut cookie = [0; COOKIE_BYTES];
                cookie.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
                if let Some(header) = header {
                    self.deliver(&cookie_frame(&header, &network(), &cookie));
                }
            }
            REJECT => {
                let code = payload
                    .first_chunk()
                    .and_then(|code| Code::from_u16(u16::from_le_bytes(*code)));
                if let Some((header, code)) = header.zip(code) {
                    self.deliver(&reject_frame(&header, &network(), code));
                }
            }
            RESPONSE => self.respond(first % 16, payload.get(1..).unwrap_or_default()),
            RAW => self.deliver(payload),
            PASS => {
                self.lab.now_ms += milliseconds(payload);
                self.step(&[]);
            }
            LOCAL => {
                let input = payload.split_first().map(|(kind, rest)| Item::new(*kind, rest));
                self.lab
                    .step_items(&items::encode(input.as_slice()), input.iter().count());
                self.listen();
            }
            FRAMES => self.send(payload),
            DIALLED => self.open(first),
            _ => {}
        }
    }

    fn open(&mut self, kind: u8) {
        let Some(dial) = self.lab.dials.pop() else { return };
        let kind = match kind % 4 {
            0 => PathKind::Ordered,
            1 => PathKind::Exchange,
            2 => PathKind::Hibernating,
            _ => return self.step(&[Input::DialFailed { dial }]),
        };
        self.path += 1;
        let path = self.path;
        self.step(&[Input::PathOpened {
            path,
            dial,
            kind,
            remote: "192.0.2.5:1",
        }]);
    }

    fn respond(&mut self, seed: u8, changes: &[u8]) {
        let Some(initiation) = self.initiation else { return };
        let Ok(responder) = Responder::new(&identity(seed), &mut self.random, &initiation, INDEX) else {
            return;
        };
        let mut frame = responder.response().to_vec();
        combine(&mut frame, changes);
        self.responder = Some((seed, responder));
        self.deliver(&frame);
    }

    fn send(&mut self, frames: &[u8]) {
        let mut packet = Vec::new();
        let sealed = self.session.as_mut().is_some_and(|session| {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(frames);
            session.seal(self.lab.now_ms, &mut packet, write).is_ok()
        });
        if sealed {
            self.deliver(&packet);
        }
    }

    fn deliver(&mut self, frame: &[u8]) {
        let path = self.path;
        self.step(&[Input::Received { path, frame }]);
    }

    fn step(&mut self, inputs: &[Input<'_>]) {
        self.lab.step(inputs);
        self.listen();
    }

    /// Takes m1 and m3 out of what the node sent.
    fn listen(&mut self) {
        for (path, frame) in core::mem::take(&mut self.lab.sent) {
            if path != self.path {
                continue;
            }
            if let Ok(initiation) = <[u8; INITIATION_BYTES]>::try_from(&frame[..]) {
                self.initiation = Some(initiation);
            } else if let Some((seed, responder)) = &self.responder
                && let Ok(confirmed) = responder.finish(
                    &identity(*seed),
                    (&mut Gate::new(identity(*seed).network(), None), 0),
                    &frame,
                )
            {
                let index = responder.peer_index();
                let session = Session::new(confirmed.secrets, Side::Responder, index, self.lab.now_ms);
                self.session = Some(session);
            }
        }
    }
}
