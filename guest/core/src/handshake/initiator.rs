use alloc::vec::Vec;

use selfsame_codec::Code;
use selfsame_sodium::aead::Key;
use selfsame_sodium::xwing;

use super::transcript::{
    HandshakeKeys, SessionSecrets, Signer, hash_answer, hash_offer, open_proof, seal_proof, session_keys,
};
use super::wire::{
    COOKIE_BYTES, HEADER_BYTES, Header, INITIATION_BYTES, Kind, NONCE_BYTES, RESPONSE_CLEAR_BYTES,
    UNCOOKIED_BYTES,
};
use crate::admission::Gate;
use crate::identity::{Identity, PeerId};
use crate::random::Random;

/// The side that begins, between m1 and m3
pub struct Initiator {
    secret: xwing::SecretKey,
    initiation: Vec<u8>,
    target: Option<PeerId>,
    index: u32,
}

impl Initiator {
    /// Begins a handshake with `target`, or with whoever answers; `index` is our number for the session.
    #[must_use]
    pub fn new(identity: &Identity, random: &mut Random, target: Option<PeerId>, index: u32) -> Self {
        let (secret, key) = xwing::keypair(&random.secret());
        let mut initiation = Vec::with_capacity(INITIATION_BYTES);
        initiation
            .extend_from_slice(&Header::new(Kind::Initiation, index, 0, &identity.network()).to_bytes());
        initiation.extend_from_slice(&key);
        initiation.extend_from_slice(&random.bytes::<NONCE_BYTES>());
        initiation.extend_from_slice(&target.map_or([0; 32], |id| id.0));
        initiation.extend_from_slice(&[0; COOKIE_BYTES]);
        Self {
            secret,
            initiation,
            target,
            index,
        }
    }

    /// m1, to send now or again.
    #[must_use]
    pub fn initiation(&self) -> &[u8] {
        &self.initiation
    }

    /// Puts the responder's cookie into m1; it must be sent again.
    pub fn set_cookie(&mut self, cookie: &[u8; COOKIE_BYTES]) {
        self.initiation[UNCOOKIED_BYTES..].copy_from_slice(cookie);
    }

    /// Takes m2 from a peer that the gate admits at this time, and gives the session, and what m3 is made from. When it fails nothing has changed.
    ///
    /// # Errors
    /// What is wrong with m2; [`Code::WrongPeer`] when it is sound but from another peer than the target.
    pub fn finish(
        &self,
        identity: &Identity,
        admit: (&mut Gate, u64),
        frame: &[u8],
    ) -> Result<(SessionSecrets, Confirmation), Code> {
        let network = identity.network();
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        header.check(&network)?;
        let (clear, sealed) = frame
            .split_at_checked(RESPONSE_CLEAR_BYTES)
            .ok_or(Code::BadFrame)?;
        let ciphertext = clear[HEADER_BYTES..].first_chunk().ok_or(Code::BadFrame)?;
        let shared = xwing::decapsulate(&self.secret, ciphertext).map_err(|_| Code::BadHandshake)?;
        let offer = hash_offer(&self.initiation, clear);
        let keys = HandshakeKeys::derive(&shared, &offer, &network);
        let proof = open_proof(admit, Signer::Responder, &offer, &keys.responder, &offer, sealed)?;
        if !proof.payload.is_empty() {
            return Err(Code::BadFrame);
        }
        // Only a node that looks for another run of itself has its own id for the target.
        if self.target.unwrap_or(proof.peer) != proof.peer
            || (self.target.is_none() && proof.peer == identity.id())
        {
            return Err(Code::WrongPeer);
        }

        let answer = hash_answer(&offer, sealed);
        let (send, receive, session_id) = session_keys(&shared, &answer, &identity.id(), &proof.peer);
        let confirmation = Confirmation {
            key: keys.initiator,
            answer,
            header: Header::new(Kind::Confirmation, self.index, header.sender, &network),
            responder: proof.peer,
        };
        let secrets = SessionSecrets {
            send,
            receive,
            session_id,
            peer: proof.peer,
            peer_key: proof.peer_key,
            peer_boot: proof.peer_boot,
            admitted: proof.admitted,
        };
        Ok((secrets, confirmation))
    }
}

/// What m3 is made from
pub struct Confirmation {
    key: Key,
    answer: [u8; 32],
    header: Header,
    responder: PeerId,
}

impl Confirmation {
    /// The responder's number for the session.
    #[must_use]
    pub fn peer_index(&self) -> u32 {
        self.header.receiver
    }

    /// m3, with the first payload of the session in it.
    #[must_use]
    pub fn seal(self, identity: &Identity, payload: &[u8]) -> Vec<u8> {
        let header = self.header.to_bytes();
        let mut out = header.to_vec();
        let ad = [&self.answer[..], &header[..]].concat();
        seal_proof(
            identity,
            Signer::Initiator(&self.responder),
            &self.answer,
            &self.key,
            &ad,
            payload,
            &mut out,
        );
        out
    }
}
