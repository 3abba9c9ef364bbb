//! A peer whose frames are made by hand, with the protocol's own cryptography.
//!
//! All that depends on the wire format of handshakes and packets stands in this file.

use selfsame_core::admission::Gate;
use selfsame_core::channel::{Frame, FrameReader, FrameWriter, Session, Side};
use selfsame_core::handshake::{Confirmation, Initiator, Kind, SessionSecrets, parse_cookie};
use selfsame_core::identity::Identity;
use selfsame_core::random::Random;

use crate::mesh::Mesh;

/// Purpose of the seeds of strangers: they are never those of nodes.
const STRANGER: u8 = 0xab;

/// The identity of a stranger, by number.
pub(crate) fn stranger(number: u32) -> Identity {
    let mut seed = [STRANGER; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    Identity::recall(&seed, Mesh::network(), &[])
}

/// A handshake with a node on a path of its own, not finished
pub(crate) struct Offer {
    identity: Identity,
    initiator: Initiator,
    host: usize,
    path: u32,
}

/// What a node answered to an initiation
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It holds a half-open handshake and waits for the confirmation.
    Response(Vec<u8>),
    /// It wants a cookie first.
    Cookie([u8; 32]),
    /// It refuses, or says nothing.
    Refused,
}

impl Offer {
    /// Prepares a handshake with a node on an open path; nothing is sent yet. `number` makes it unlike others.
    pub(crate) fn new(mesh: &Mesh, identity: Identity, host: usize, path: u32, number: u32) -> Self {
        let mut entropy = identity.id().0;
        entropy[..4].copy_from_slice(&number.to_le_bytes());
        let target = mesh.id(host);
        let initiator = Initiator::new(&identity, &mut Random::new(&entropy), Some(target), number + 1);
        Self {
            identity,
            initiator,
            host,
            path,
        }
    }

    /// Goes on with the same initiation on another path.
    pub(crate) fn move_to(&mut self, path: u32) {
        self.path = path;
    }

    /// Sends the initiation once.
    pub(crate) fn send(&self, mesh: &mut Mesh) -> Answer {
        let frames = mesh.say(self.host, self.path, self.initiator.initiation());
        let answer = frames.iter().find_map(|frame| match Kind::of(frame) {
            Some(Kind::Response) => Some(Answer::Response(frame.clone())),
            Some(Kind::Cookie) => parse_cookie(frame).ok().map(Answer::Cookie),
            _ => None,
        });
        answer.unwrap_or(Answer::Refused)
    }

    /// Bytes of the initiation.
    pub(crate) fn len(&self) -> usize {
        self.initiator.initiation().len()
    }

    /// Puts a cookie into the initiation.
    pub(crate) fn set_cookie(&mut self, cookie: &[u8; 32]) {
        self.initiator.set_cookie(cookie);
    }

    /// Sends the initiation, with the cookie if the node wants one; returns the response.
    pub(crate) fn half_open(&mut self, mesh: &mut Mesh) -> Option<Vec<u8>> {
        match self.send(mesh) {
            Answer::Response(response) => Some(response),
            Answer::Cookie(cookie) => {
                self.set_cookie(&cookie);
                match self.send(mesh) {
                    Answer::Response(response) => Some(response),
                    _ => None,
                }
            }
            Answer::Refused => None,
        }
    }

    /// The secrets of the session, and what the confirmation is made from.
    pub(crate) fn finish(&self, response: &[u8]) -> Option<(SessionSecrets, Confirmation)> {
        self.initiator
            .finish(
                &self.identity,
                (&mut Gate::new(self.identity.network(), None), 0),
                response,
            )
            .ok()
    }

    /// A confirmation signed by `signer`, who ought to be the one whose offer this is.
    pub(crate) fn confirm(&self, response: &[u8], signer: &Identity) -> Option<Vec<u8>> {
        let (_, confirmation) = self.finish(response)?;
        Some(confirmation.seal(signer, &[]))
    }
}

/// A peer with a session
pub(crate) struct Hand {
    session: Session,
    host: usize,
    path: u32,
    last_request: u32,
}

impl Hand {
    /// Shakes hands with a node on a new path from an address; `None` if that refuses.
    pub(crate) fn shake(mesh: &mut Mesh, identity: Identity, host: usize, remote: &str) -> Option<Self> {
        let path = mesh.open(host, remote);
        let number = path;
        let mut offer = Offer::new(mesh, identity, host, path, number);
        let shaken = Self::confirmed(mesh, &mut offer);
        if shaken.is_none() {
            mesh.close(host, path);
        }
        let session = shaken?;
        Some(Self {
            session,
            host,
            path,
            last_request: 0,
        })
    }

    fn confirmed(mesh: &mut Mesh, offer: &mut Offer) -> Option<Session> {
        let response = offer.half_open(mesh)?;
        let (secrets, confirmation) = offer.finish(&response)?;
        let session = Session::new(secrets, Side::Initiator, confirmation.peer_index(), mesh.now_ms());
        let frame = confirmation.seal(&offer.identity, &[]);
        mesh.say(offer.host, offer.path, &frame);
        mesh.is_open(offer.host, offer.path).then_some(session)
    }

    /// Seals a packet without sending it.
    pub(crate) fn seal(&mut self, mesh: &Mesh, frame: &Frame<'_>) -> Vec<u8> {
        let mut packet = Vec::new();
        let write = |out: &mut Vec<u8>| FrameWriter::new(out).frame(frame);
        let sealed = self.session.seal(mesh.now_ms(), &mut packet, write);
        sealed.expect("a frame within the limits");
        packet
    }

    /// Sends bytes as they are; returns the packets that came back.
    pub(crate) fn send(&mut self, mesh: &mut Mesh, packet: &[u8]) -> Vec<Vec<u8>> {
        mesh.say(self.host, self.path, packet)
    }

    /// Sends a frame; returns the packets that came back.
    pub(crate) fn say(&mut self, mesh: &mut Mesh, frame: &Frame<'_>) -> Vec<Vec<u8>> {
        let packet = self.seal(mesh, frame);
        self.send(mesh, &packet)
    }

    /// Sends a request; returns the body of the response, if there is one at once.
    pub(crate) fn ask(&mut self, mesh: &mut Mesh, body: &[u8]) -> Option<Vec<u8>> {
        self.last_request += 1;
        let id = self.last_request;
        let packets = self.say(mesh, &Frame::Request { id, body });
        let now_ms = mesh.now_ms();
        packets.into_iter().find_map(|mut packet| {
            let payload = self.session.open(now_ms, &mut packet).ok()?;
            FrameReader::new(payload).flatten().find_map(|frame| match frame {
                Frame::Response { id: other, body } if other == id => Some(body.to_vec()),
                _ => None,
            })
        })
    }

    /// Answers the pings that came since the last call, as a live peer does.
    pub(crate) fn tend(&mut self, mesh: &mut Mesh) {
        let mut tokens = Vec::new();
        for mut packet in mesh.hear(self.host, self.path) {
            let Ok(payload) = self.session.open(mesh.now_ms(), &mut packet) else {
                continue;
            };
            tokens.extend(
                FrameReader::new(payload)
                    .flatten()
                    .filter_map(|frame| match frame {
                        Frame::Ping { token } => Some(token),
                        _ => None,
                    }),
            );
        }
        for token in tokens {
            self.say(mesh, &Frame::Pong { token });
        }
    }

    /// Whether the node has left the path open.
    pub(crate) fn is_connected(&self, mesh: &Mesh) -> bool {
        mesh.is_open(self.host, self.path)
    }

    /// Closes the path without a word.
    pub(crate) fn hang_up(self, mesh: &mut Mesh) {
        mesh.close(self.host, self.path);
    }
}
