use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::Code;
use selfsame_sodium::{SharedSecret, xwing};

use super::transcript::{
    HandshakeKeys, SessionSecrets, Signer, hash_answer, hash_offer, open_proof, seal_proof, session_keys,
};
use super::wire::{
    HEADER_BYTES, Header, INITIATION_BYTES, Initiation, Kind, NONCE_BYTES, RESPONSE_MIN_BYTES,
};
use crate::admission::Gate;
use crate::identity::{Identity, PeerId, labelled_hash};
use crate::random::Random;

const INITIATION: &str = "selfsame/1 handshake initiation";

/// The side that answers, between m2 and m3: half open
pub struct Responder {
    shared: SharedSecret,
    keys: HandshakeKeys,
    answer: [u8; 32],
    response: Vec<u8>,
    initiation: [u8; 32],
    peer_index: u32,
    id: PeerId,
}

/// What m3 brought
pub struct Confirmed {
    /// The session.
    pub secrets: SessionSecrets,
    /// The payload of m3, which may be empty.
    pub payload: Vec<u8>,
    /// The address that the peer's certificate names.
    pub address: Option<String>,
}

impl Responder {
    /// Answers m1, which was found to be for us; `index` is our number for the session.
    ///
    /// # Errors
    /// [`Code::BadHandshake`] when the initiator's key is not usable.
    pub fn new(
        identity: &Identity,
        random: &mut Random,
        frame: &[u8; INITIATION_BYTES],
        index: u32,
    ) -> Result<Self, Code> {
        let network = identity.network();
        let initiation = Initiation::parse(frame).map_err(|_| Code::BadFrame)?;
        let (ciphertext, shared) =
            xwing::encapsulate(initiation.key, &random.secret()).map_err(|_| Code::BadHandshake)?;
        let peer_index = initiation.header.sender;
        let mut response = Vec::with_capacity(RESPONSE_MIN_BYTES);
        response.extend_from_slice(&Header::new(Kind::Response, index, peer_index, &network).to_bytes());
        response.extend_from_slice(&ciphertext);
        response.extend_from_slice(&random.bytes::<NONCE_BYTES>());
        let clear = response.len();
        let offer = hash_offer(frame, &response);
        let keys = HandshakeKeys::derive(&shared, &offer, &network);
        seal_proof(
            identity,
            Signer::Responder,
            &offer,
            &keys.responder,
            &offer,
            &[],
            &mut response,
        );
        let answer = hash_answer(&offer, &response[clear..]);
        let initiation = labelled_hash(INITIATION, &[frame]);
        Ok(Self {
            shared,
            keys,
            answer,
            response,
            initiation,
            peer_index,
            id: identity.id(),
        })
    }

    /// m2, to send now or again.
    #[must_use]
    pub fn response(&self) -> &[u8] {
        &self.response
    }

    /// Whether `frame` is the m1 that this answers, sent again.
    #[must_use]
    pub fn answers(&self, frame: &[u8]) -> bool {
        self.initiation == labelled_hash(INITIATION, &[frame])
    }

    /// The initiator's number for the session.
    #[must_use]
    pub fn peer_index(&self) -> u32 {
        self.peer_index
    }

    /// Takes m3 from a peer that the gate admits at this time. When it fails nothing has changed.
    ///
    /// # Errors
    /// What is wrong with m3.
    pub fn finish(
        &self,
        identity: &Identity,
        admit: (&mut Gate, u64),
        frame: &[u8],
    ) -> Result<Confirmed, Code> {
        let network = identity.network();
        let header = Header::parse(frame).map_err(|_| Code::BadFrame)?;
        header.check(&network)?;
        if header.sender != self.peer_index {
            return Err(Code::BadHandshake);
        }
        let (header, sealed) = frame.split_at(HEADER_BYTES);
        let ad = [&self.answer[..], header].concat();
        let proof = open_proof(
            admit,
            Signer::Initiator(&self.id),
            &self.answer,
            &self.keys.initiator,
            &ad,
            sealed,
        )?;
        let (receive, send, session_id) = session_keys(&self.shared, &self.answer, &proof.peer, &self.id);
        let secrets = SessionSecrets {
            send,
            receive,
            session_id,
            peer: proof.peer,
            peer_key: proof.peer_key,
            peer_boot: proof.peer_boot,
            admitted: proof.admitted,
        };
        Ok(Confirmed {
            secrets,
            payload: proof.payload,
            address: proof.address,
        })
    }
}
