//! The handshake's messages, changed on their way: no changed message may end in a session.

use selfsame_codec::Code;
use selfsame_core::admission::Gate;
use selfsame_core::handshake::{
    CookieJar, Header, INITIATION_BYTES, Initiation, Initiator, Responder, parse_cookie, parse_reject,
};
use selfsame_core::identity::Identity;
use selfsame_core::random::Random;

use super::Target;
use super::lab::{START_MS, identity};
use crate::mutate::Shape;

/// First byte of an input: which message the rest changes or is.
const INITIATION: u8 = 0;
const RESPONSE: u8 = 1;
const CONFIRMATION: u8 = 2;
const OTHER: u8 = 3;

fn gate(identity: &Identity) -> Gate {
    Gate::new(identity.network(), None)
}

/// One handshake, held at every stage
pub(super) struct Handshake {
    alice: Identity,
    bob: Identity,
    initiator: Initiator,
    responder: Responder,
    confirmation: Vec<u8>,
    jar: CookieJar,
}

impl Handshake {
    /// Performs the handshake.
    pub(super) fn new() -> Self {
        let (alice, bob) = (identity(1), identity(2));
        let mut random = Random::new(&[6; 32]);
        let initiator = Initiator::new(&alice, &mut random, Some(bob.id()), 11);
        let frame: [u8; INITIATION_BYTES] = initiator.initiation().try_into().expect("m1 has its length");
        let responder = Responder::new(&bob, &mut random, &frame, 12).expect("a sound m1");
        let (_, confirmation) = initiator
            .finish(&alice, (&mut gate(&alice), 0), responder.response())
            .expect("a sound m2");
        let confirmation = confirmation.seal(&alice, b"payload");
        let jar = CookieJar::new(&mut random, START_MS);
        Self {
            alice,
            bob,
            initiator,
            responder,
            confirmation,
            jar,
        }
    }

    fn run_initiation(&mut self, frame: &[u8]) {
        let Ok(frame) = <&[u8; INITIATION_BYTES]>::try_from(frame) else {
            assert!(Initiation::parse(frame).is_err());
            return;
        };
        let mut random = Random::new(&[8; 32]);
        if let Ok(initiation) = Initiation::parse(frame) {
            assert!(
                !self
                    .jar
                    .accepts(&mut random, START_MS, "192.0.2.1:1", &initiation),
                "nobody was given a cookie"
            );
        }
        let Ok(responder) = Responder::new(&self.bob, &mut random, frame, 13) else {
            return;
        };
        let finished = self
            .initiator
            .finish(&self.alice, (&mut gate(&self.alice), 0), responder.response());
        assert_eq!(
            finished.is_ok(),
            frame == self.initiator.initiation(),
            "only a whole m1 is confirmed"
        );
    }
}

impl Target for Handshake {
    fn name(&self) -> &'static str {
        "handshake"
    }

    fn weight(&self) -> usize {
        25
    }

    fn shape(&self) -> Shape {
        Shape::Bytes
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let [initiation, response, confirmation] = [
            (INITIATION, self.initiator.initiation()),
            (RESPONSE, self.responder.response()),
            (CONFIRMATION, &self.confirmation[..]),
        ]
        .map(|(which, frame)| [&[which][..], frame].concat());
        let cookie = [&[OTHER, 4][..], &initiation[2..17], &[7; 32]].concat();
        let mut reject = [&[OTHER, 5][..], &initiation[2..17]].concat();
        reject.extend_from_slice(&Code::WrongPeer.as_u16().to_le_bytes());
        vec![initiation, response, confirmation, cookie, reject]
    }

    fn run(&mut self, input: &[u8]) {
        let Some((which, frame)) = input.split_first() else {
            return;
        };
        match *which {
            INITIATION => self.run_initiation(frame),
            RESPONSE => {
                let finished = self
                    .initiator
                    .finish(&self.alice, (&mut gate(&self.alice), 0), frame);
                assert_eq!(finished.is_ok(), frame == self.responder.response());
            }
            CONFIRMATION => {
                let finished = self.responder.finish(&self.bob, (&mut gate(&self.bob), 0), frame);
                assert_eq!(finished.is_ok(), frame == self.confirmation);
            }
            _ => {
                _ = Header::parse(frame).map(|header| header.check(&self.alice.network()));
                _ = parse_cookie(frame);
                _ = parse_reject(frame);
            }
        }
    }
}
