use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed, Reader};
use selfsame_sodium::xwing;

use crate::boot::BOOT_ID_BYTES;
use crate::identity::{NetworkId, PeerId};

/// Version of the protocol.
pub const VERSION: u8 = 2;
/// Suite 1: Ed25519, X-Wing, ChaCha20-Poly1305, BLAKE3.
pub const SUITE: u8 = 1;
/// Length of a handshake header.
pub(super) const HEADER_BYTES: usize = 16;
/// Length of a nonce.
pub(super) const NONCE_BYTES: usize = 32;
/// Length of a cookie.
pub const COOKIE_BYTES: usize = 32;
/// Length of m1.
pub const INITIATION_BYTES: usize = HEADER_BYTES + xwing::PUBLIC_KEY_BYTES + NONCE_BYTES + 32 + COOKIE_BYTES;
/// Length of the part of m1 that the cookie covers.
pub(super) const UNCOOKIED_BYTES: usize = INITIATION_BYTES - COOKIE_BYTES;
/// Length of the part of m2 that is in the clear.
pub(super) const RESPONSE_CLEAR_BYTES: usize = HEADER_BYTES + xwing::CIPHERTEXT_BYTES + NONCE_BYTES;
/// Length of a public key, a signature, a boot id and the length of the evidence.
pub(super) const PROOF_BYTES: usize = 32 + 64 + BOOT_ID_BYTES + 2;
/// Length of an authentication tag.
pub(super) const TAG_BYTES: usize = 16;
/// Length of the shortest m2.
pub const RESPONSE_MIN_BYTES: usize = RESPONSE_CLEAR_BYTES + PROOF_BYTES + TAG_BYTES;
/// What a frame on a path is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// m1
    Initiation,
    /// m2
    Response,
    /// m3
    Confirmation,
    /// A cookie that m1 must carry
    Cookie,
    /// Why a handshake cannot go on; not authenticated, so it is a hint
    Reject,
    /// A sealed packet of a session
    Packet,
}

impl Kind {
    /// The kind that a first byte stands for.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        match frame.first()? {
            1 => Some(Self::Initiation),
            2 => Some(Self::Response),
            3 => Some(Self::Confirmation),
            4 => Some(Self::Cookie),
            5 => Some(Self::Reject),
            16 => Some(Self::Packet),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Initiation => 1,
            Self::Response => 2,
            Self::Confirmation => 3,
            Self::Cookie => 4,
            Self::Reject => 5,
            Self::Packet => 16,
        }
    }
}

/// The first 16 bytes of every handshake frame
///
/// ```text
/// 0      1         2       3      4              8                12
/// kind | version | suite | zero | sender index | receiver index | network tag
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the frame.
    pub kind: Kind,
    /// Version of the sender.
    pub version: u8,
    /// Suite of the sender.
    pub suite: u8,
    /// The sender's number for the session.
    pub sender: u32,
    /// The receiver's number for the session; 0 in m1.
    pub receiver: u32,
    /// First bytes of the network id, so that a wrong network is named and not just a bad key.
    pub network_tag: u32,
}

impl Header {
    /// A header of our version and suite.
    #[must_use]
    pub fn new(kind: Kind, sender: u32, receiver: u32, network: &NetworkId) -> Self {
        Self {
            kind,
            version: VERSION,
            suite: SUITE,
            sender,
            receiver,
            network_tag: network_tag(network),
        }
    }

    /// Reads the header of a handshake frame, whatever its version.
    ///
    /// # Errors
    /// [`Malformed`] when the frame is shorter or its kind unknown.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let kind = Kind::of(frame).ok_or(Malformed)?;
        let mut reader = Reader::new(frame);
        let [_, version, suite, zero] = reader.array::<4>()?;
        if zero != 0 {
            return Err(Malformed);
        }
        Ok(Self {
            kind,
            version,
            suite,
            sender: reader.field()?,
            receiver: reader.field()?,
            network_tag: reader.field()?,
        })
    }

    /// Refuses a header that is not of our version, suite and network.
    ///
    /// # Errors
    /// The code that names the difference.
    pub fn check(&self, network: &NetworkId) -> Result<(), Code> {
        if self.version != VERSION {
            return Err(Code::WrongVersion);
        }
        if self.suite != SUITE {
            return Err(Code::WrongSuite);
        }
        if self.network_tag != network_tag(network) {
            return Err(Code::WrongNetwork);
        }
        Ok(())
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..3].copy_from_slice(&[self.kind.byte(), self.version, self.suite]);
        out[4..8].copy_from_slice(&self.sender.to_le_bytes());
        out[8..12].copy_from_slice(&self.receiver.to_le_bytes());
        out[12..].copy_from_slice(&self.network_tag.to_le_bytes());
        out
    }
}

/// First bytes of the network id, as they stand in a header.
#[must_use]
pub fn network_tag(network: &NetworkId) -> u32 {
    let [a, b, c, d, ..] = network.0;
    u32::from_le_bytes([a, b, c, d])
}

/// The fields of m1
#[derive(Clone, Debug)]
pub struct Initiation<'a> {
    /// Its header.
    pub header: Header,
    /// The initiator's ephemeral X-Wing key.
    pub(super) key: &'a [u8; xwing::PUBLIC_KEY_BYTES],
    /// Whom it is for; `None` when the initiator takes whoever answers.
    pub target: Option<PeerId>,
    /// The cookie; all zero when the initiator has none.
    pub(super) cookie: &'a [u8; COOKIE_BYTES],
    /// What the cookie covers.
    pub(super) uncookied: &'a [u8],
}

impl<'a> Initiation<'a> {
    /// Reads m1.
    ///
    /// # Errors
    /// [`Malformed`] when it has another length or kind.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let header = Header::parse(frame)?;
        if header.kind != Kind::Initiation || frame.len() != INITIATION_BYTES {
            return Err(Malformed);
        }
        let (_, rest) = frame.split_at(HEADER_BYTES);
        let (key, rest) = rest.split_first_chunk().ok_or(Malformed)?;
        let (_nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Malformed)?;
        let (target, cookie) = rest.split_first_chunk::<32>().ok_or(Malformed)?;
        let target = (*target != [0; 32]).then_some(PeerId(*target));
        let cookie = cookie.try_into().map_err(|_| Malformed)?;
        Ok(Self {
            header,
            key,
            target,
            cookie,
            uncookied: &frame[..UNCOOKIED_BYTES],
        })
    }
}

/// A frame that gives a cookie to the sender of `header`.
#[must_use]
pub fn cookie_frame(header: &Header, network: &NetworkId, cookie: &[u8; COOKIE_BYTES]) -> Vec<u8> {
    let mut out = Header::new(Kind::Cookie, 0, header.sender, network)
        .to_bytes()
        .to_vec();
    out.extend_from_slice(cookie);
    out
}

/// Reads the cookie of a cookie frame.
///
/// # Errors
/// [`Malformed`] when the frame has another length.
pub fn parse_cookie(frame: &[u8]) -> Result<[u8; COOKIE_BYTES], Malformed> {
    frame
        .get(HEADER_BYTES..)
        .and_then(|cookie| cookie.try_into().ok())
        .ok_or(Malformed)
}

/// A frame that tells the sender of `header` why its handshake cannot go on.
#[must_use]
pub fn reject_frame(header: &Header, network: &NetworkId, code: Code) -> Vec<u8> {
    let mut out = Header::new(Kind::Reject, 0, header.sender, network)
        .to_bytes()
        .to_vec();
    out.extend_from_slice(&code.as_u16().to_le_bytes());
    out
}

/// Whether a peer has not proven by a proof that opened who it is, or that the network admits it.
pub(crate) fn is_unproven(code: Code) -> bool {
    matches!(
        code,
        Code::BadSignature
            | Code::NoCertificate
            | Code::BadCertificate
            | Code::WrongIssuer
            | Code::WrongSeat
            | Code::WrongAddress
            | Code::RevokedCertificate
            | Code::Convicted
            | Code::EarlyCertificate
            | Code::ExpiredCertificate
    )
}

/// Reads the reason of a reject frame; only reasons that a responder may give count.
///
/// # Errors
/// [`Malformed`] when the frame has another length or another reason.
pub fn parse_reject(frame: &[u8]) -> Result<Code, Malformed> {
    let code: [u8; 2] = frame
        .get(HEADER_BYTES..)
        .and_then(|code| code.try_into().ok())
        .ok_or(Malformed)?;
    match Code::from_u16(u16::from_le_bytes(code)) {
        Some(
            code @ (Code::WrongVersion
            | Code::WrongSuite
            | Code::WrongNetwork
            | Code::WrongPeer
            | Code::TooManyHandshakes
            | Code::TooManySessions),
        ) => Ok(code),
        Some(code) if is_unproven(code) => Ok(code),
        _ => Err(Malformed),
    }
}
