use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::Code;
use selfsame_sodium::SharedSecret;
use selfsame_sodium::aead::{self, Key};
use selfsame_sodium::hash::{derive_key, keyed};
use zeroize::{Zeroize, Zeroizing};

use super::wire::{PROOF_BYTES, SUITE, TAG_BYTES, VERSION};
use crate::admission::{Certificate, Gate, MAX_EVIDENCE_BYTES};
use crate::boot::BootId;
use crate::identity::Admitted;
use crate::identity::{Identity, NetworkId, PeerId, PublicKey, Signature, labelled_hash};

const OFFER: &str = "selfsame/1 handshake transcript offer";
const ANSWER: &str = "selfsame/1 handshake transcript answer";
const HANDSHAKE_KEYS: &str = "selfsame/1 handshake keys";
const SESSION_KEYS: &str = "selfsame/1 session keys";
const RESPONDER: &str = "selfsame/1 handshake responder signature";
const INITIATOR: &str = "selfsame/1 handshake initiator signature";

// The numbers of the keys that one root key is expanded to.
const OF_INITIATOR: u8 = 0;
const OF_RESPONDER: u8 = 1;
const OF_SESSION: u8 = 2;

/// A handshake key seals one message, so its nonce is fixed.
const ONLY_NONCE: [u8; aead::NONCE_BYTES] = [0; aead::NONCE_BYTES];

/// What a session is made from, seen from one side
pub struct SessionSecrets {
    /// Seals what this side sends.
    pub send: Key,
    /// Opens what this side receives.
    pub receive: Key,
    /// The same on both sides, different for each session.
    pub session_id: [u8; 16],
    /// Who is at the other end.
    pub peer: PeerId,
    /// The key that proved it.
    pub peer_key: PublicKey,
    /// The run of the peer.
    pub peer_boot: BootId,
    /// For how long the network admits the peer.
    pub admitted: Admitted,
}

/// Hash of m1 and the clear part of m2.
pub(super) fn hash_offer(initiation: &[u8], response_clear: &[u8]) -> [u8; 32] {
    labelled_hash(OFFER, &[initiation, response_clear])
}

/// Hash of all of m1 and m2.
pub(super) fn hash_answer(offer: &[u8; 32], response_sealed: &[u8]) -> [u8; 32] {
    labelled_hash(ANSWER, &[offer, response_sealed])
}

/// The keys that seal m2 (the responder's) and m3 (the initiator's).
pub(super) struct HandshakeKeys {
    pub(super) responder: Key,
    pub(super) initiator: Key,
}

impl HandshakeKeys {
    pub(super) fn derive(secret: &SharedSecret, offer: &[u8; 32], network: &NetworkId) -> Self {
        let root = root_key(HANDSHAKE_KEYS, [secret.as_bytes(), offer, &network.0]);
        Self {
            initiator: Key::new(expand(&root, OF_INITIATOR)),
            responder: Key::new(expand(&root, OF_RESPONDER)),
        }
    }
}

/// Derives a session's keys: the key of the initiator's packets, the key of the responder's, the session id.
pub(super) fn session_keys(
    secret: &SharedSecret,
    answer: &[u8; 32],
    initiator: &PeerId,
    responder: &PeerId,
) -> (Key, Key, [u8; 16]) {
    let root = root_key(
        SESSION_KEYS,
        [secret.as_bytes(), answer, &initiator.0, &responder.0],
    );
    let session = expand(&root, OF_SESSION);
    let (id, _) = session.split_first_chunk().expect("32 bytes hold 16");
    (
        Key::new(expand(&root, OF_INITIATOR)),
        Key::new(expand(&root, OF_RESPONDER)),
        *id,
    )
}

/// The key from which a secret's keys are expanded; what they are bound to has a fixed length.
fn root_key<const N: usize>(context: &'static str, material: [&[u8; 32]; N]) -> Zeroizing<[u8; 32]> {
    let mut joined = material.map(|part| *part);
    let key = derive_key(context, joined.as_flattened());
    joined.zeroize();
    Zeroizing::new(key)
}

/// The key with this number under a root key.
fn expand(root: &[u8; 32], number: u8) -> [u8; 32] {
    keyed(root, &[number])
}

/// The side that signs
#[derive(Clone, Copy)]
pub(super) enum Signer<'a> {
    Responder,
    /// With the id of the responder, so that the initiator cannot be made to speak to another.
    Initiator(&'a PeerId),
}

impl Signer<'_> {
    fn statement(
        self,
        transcript: &[u8; 32],
        key: &PublicKey,
        network: &NetworkId,
    ) -> (&'static str, Vec<u8>) {
        let mut out = Vec::with_capacity(2 + 4 * 32);
        out.extend_from_slice(&[VERSION, SUITE]);
        out.extend_from_slice(&network.0);
        out.extend_from_slice(transcript);
        out.extend_from_slice(&key.0);
        match self {
            Self::Responder => (RESPONDER, out),
            Self::Initiator(responder) => {
                out.extend_from_slice(&responder.0);
                (INITIATOR, out)
            }
        }
    }
}

/// Appends the sealed proof of who this side is, and `payload` behind it.
pub(super) fn seal_proof(
    identity: &Identity,
    signer: Signer<'_>,
    transcript: &[u8; 32],
    key: &Key,
    ad: &[u8],
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let (label, statement) = signer.statement(transcript, &identity.public(), &identity.network());
    let start = out.len();
    out.extend_from_slice(&identity.public().0);
    out.extend_from_slice(&identity.sign(label, &statement).0);
    out.extend_from_slice(&identity.boot().0);
    let evidence = identity.evidence();
    out.extend_from_slice(&(evidence.len() as u16).to_le_bytes());
    out.extend_from_slice(evidence);
    out.extend_from_slice(payload);
    let tag = aead::seal_in_place(key, &ONLY_NONCE, ad, &mut out[start..]);
    out.extend_from_slice(&tag);
}

/// A proof that was opened and verified
pub(super) struct Proof {
    pub(super) peer: PeerId,
    pub(super) peer_key: PublicKey,
    pub(super) peer_boot: BootId,
    pub(super) admitted: Admitted,
    /// The address that its certificate names.
    pub(super) address: Option<String>,
    pub(super) payload: Vec<u8>,
}

/// Opens and verifies what [`seal_proof`] made, of a peer that the gate admits now.
pub(super) fn open_proof(
    (gate, now_ms): (&mut Gate, u64),
    signer: Signer<'_>,
    transcript: &[u8; 32],
    key: &Key,
    ad: &[u8],
    sealed: &[u8],
) -> Result<Proof, Code> {
    let (body, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(Code::BadFrame)?;
    if body.len() < PROOF_BYTES {
        return Err(Code::BadFrame);
    }
    let mut body = body.to_vec();
    aead::open_in_place(key, &ONLY_NONCE, ad, &mut body, tag).map_err(|_| Code::BadHandshake)?;
    let (peer_key, rest) = body.split_first_chunk().ok_or(Code::BadFrame)?;
    let (signature, rest) = rest.split_first_chunk().ok_or(Code::BadFrame)?;
    let (boot, rest) = rest.split_first_chunk().ok_or(Code::BadFrame)?;
    let (len, rest) = rest.split_first_chunk().ok_or(Code::BadFrame)?;
    let len = usize::from(u16::from_le_bytes(*len));
    // Longer evidence than any mode has is refused before it is looked at.
    if len > MAX_EVIDENCE_BYTES {
        return Err(Code::BadHandshake);
    }
    let (evidence, rest) = rest.split_at_checked(len).ok_or(Code::BadFrame)?;
    let network = &gate.network().clone();
    let peer_key = PublicKey(*peer_key);
    let certificate = gate.admit_now(&peer_key, evidence, now_ms)?;
    let (label, statement) = signer.statement(transcript, &peer_key, network);
    if !peer_key.verifies(label, &statement, &Signature(*signature)) {
        return Err(Code::BadSignature);
    }
    Ok(Proof {
        peer: certificate
            .as_ref()
            .map_or_else(|| PeerId::of(&peer_key, network), Certificate::id),
        peer_key,
        peer_boot: BootId(*boot),
        admitted: certificate.as_ref().map_or(Admitted::EVER, Certificate::admitted),
        address: certificate.and_then(|certificate| certificate.terms().address.clone()),
        payload: rest.to_vec(),
    })
}
