//! Layouts of datagrams (docs/specification/rpc.md, "Datagrams").

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};

use crate::endpoint::Endpoint;

/// Length of a ticket.
pub(crate) const TICKET_BYTES: usize = 92;
/// Length of the tag at the end of what is sealed, and of its echo in a rejection.
pub(crate) const TAG_BYTES: usize = 16;
/// Length of the head of a request with a ticket and a packet number.
pub(crate) const MAX_REQUEST_HEAD_BYTES: usize = 2 + TICKET_BYTES + 8 + 2;
/// Length of the head of a response with a packet number.
pub(crate) const MAX_RESPONSE_HEAD_BYTES: usize = 2 + 8 + 4 + 2;
/// Length of offset and total before each part of a message of many packets.
pub(crate) const PACKET_FORM_BYTES: usize = 8;
/// Length of what proves to a server that a response arrived where it was sent.
pub(crate) const COOKIE_BYTES: usize = 8;
/// Number of the first packet of a request of many, which does not know yet how many follow: -1 (paper, section III.A).
pub(crate) const FIRST_PACKET: u16 = 0xffff;

pub(crate) type Ticket = [u8; TICKET_BYTES];
/// Length of the id of a ticket's key, with which a ticket begins, and of the nonce that follows.
pub(crate) const KEY_ID_BYTES: usize = 4;
pub(crate) const TICKET_NONCE_BYTES: usize = 24;
/// Identifies a session at one replica: the first bytes of its ticket's nonce.
pub(crate) type SessionId = u64;
/// Identifies one life of a session at one replica; another one after a restart or an eviction.
pub(crate) type Epoch = [u8; 8];

const TICKET_REQUEST: u8 = 0x60;
const SESSION_REQUEST: u8 = 0x61;
const RESPONSE: u8 = 0x62;
const REJECT: u8 = 0x63;
const REDIRECT: u8 = 0x66;
const ROUTER_DROP: u8 = 0x67;

/// A datagram whose layout is right; nothing in it is authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    Request {
        head: RequestHead<'a>,
        sealed: &'a [u8],
    },
    Response {
        head: ResponseHead,
        sealed: &'a [u8],
    },
    /// The replica has no use for the request's ticket or session; echoes the request's tag.
    Reject {
        reason: RejectReason,
        /// The low half of the request's counter.
        call: u32,
        tag: [u8; TAG_BYTES],
    },
    /// A router says which server to ask.
    Redirect {
        call: u32,
        tag: [u8; TAG_BYTES],
        server: Endpoint,
    },
    /// A router has not passed the request on.
    RouterDrop {
        call: u32,
        tag: [u8; TAG_BYTES],
        code: u16,
    },
}

/// Which server a router picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The one with the least to do.
    LoadBalance = 0,
    /// The same for all requests of a session.
    Fixed = 1,
    /// All of them.
    Replicated = 2,
    /// One of them: it changes nothing that the others would have to know.
    ReplicatedRead = 3,
}

/// What a request is sealed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    Ticket(&'a Ticket),
    Session(SessionId),
}

/// The clear part of a request, which is authenticated with the sealed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead<'a> {
    pub(crate) credential: Credential<'a>,
    pub(crate) flags: RequestFlags,
    pub(crate) counter: u64,
    /// Of a request of many packets, and of what acknowledges a response of many; else 0.
    pub(crate) packet: u16,
}

/// The clear part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) kind: ResponseKind,
    /// A new ticket precedes the payload.
    pub(crate) has_ticket: bool,
    /// It is one packet of many.
    pub(crate) is_part: bool,
    /// The address of the server precedes all else.
    pub(crate) has_address: bool,
    pub(crate) epoch: Epoch,
    /// The low half of the request's counter.
    pub(crate) call: u32,
    pub(crate) packet: u16,
}

/// Why a replica does not open a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// The ticket's key is unknown or erased, or the ticket has expired.
    Ticket = 1,
    /// The session is not known here.
    Session = 2,
}

/// What a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Answer = 0,
    /// The request arrived, or these packets of it did.
    Ack = 1,
    /// The request is not carried out; the payload is a code.
    Drop = 2,
    /// The request is not carried out unless it is bound to this epoch.
    Bind = 3,
}

impl ResponseKind {
    /// Whether there may be several to one request, each with a number of its own.
    fn is_numbered(self) -> bool {
        matches!(self, Self::Ack | Self::Bind)
    }
}

/// Policy, binding and packet form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFlags(u8);

impl RequestFlags {
    const POLICY: u8 = 0b0000_0011;
    const BOUND: u8 = 0b0000_0100;
    const PART: u8 = 0b0000_1000;
    const CONTROL: u8 = 0b0001_0000;
    const ALL: u8 = 0b0001_1111;

    pub(crate) fn new(policy: u8) -> Self {
        Self(policy & Self::POLICY)
    }

    /// Only the replica with this epoch carries it out.
    pub(crate) fn bound(self) -> Self {
        Self(self.0 | Self::BOUND)
    }

    /// It is one packet of many.
    pub(crate) fn part(self) -> Self {
        Self(self.0 | Self::PART)
    }

    /// It acknowledges packets of a response, or cancels.
    pub(crate) fn control(self) -> Self {
        Self(self.0 | Self::CONTROL)
    }

    pub(crate) fn policy(self) -> Policy {
        match self.0 & Self::POLICY {
            0 => Policy::LoadBalance,
            1 => Policy::Fixed,
            2 => Policy::Replicated,
            _ => Policy::ReplicatedRead,
        }
    }

    pub(crate) fn is_bound(self) -> bool {
        self.0 & Self::BOUND != 0
    }

    pub(crate) fn is_part(self) -> bool {
        self.0 & Self::PART != 0
    }

    pub(crate) fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    fn has_packet(self) -> bool {
        self.is_part() || self.is_control()
    }

    fn read(byte: u8) -> Result<Self, Malformed> {
        let flags = Self(byte);
        let is_valid = byte & !Self::ALL == 0 && !(flags.is_part() && flags.is_control());
        is_valid.then_some(flags).ok_or(Malformed)
    }
}

impl<'a> Datagram<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Malformed`] when it is none of ours or too short.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.field::<u8>()? {
            TICKET_REQUEST => {
                let flags = RequestFlags::read(reader.field()?)?;
                let ticket = reader.take(TICKET_BYTES)?.first_chunk().ok_or(Malformed)?;
                read_request(reader, flags, Credential::Ticket(ticket))
            }
            SESSION_REQUEST => {
                let flags = RequestFlags::read(reader.field()?)?;
                let session = reader.field()?;
                read_request(reader, flags, Credential::Session(session))
            }
            RESPONSE => read_response(reader),
            REJECT => {
                let reason = match reader.field::<u8>()? {
                    1 => RejectReason::Ticket,
                    2 => RejectReason::Session,
                    _ => return Err(Malformed),
                };
                let (call, tag) = (reader.field()?, reader.array()?);
                reader.finish()?;
                Ok(Self::Reject { reason, call, tag })
            }
            REDIRECT => {
                let (call, tag, server) = (reader.field()?, reader.array()?, reader.array()?);
                reader.finish()?;
                let server = Endpoint(server);
                Ok(Self::Redirect { call, tag, server })
            }
            ROUTER_DROP => {
                let (call, tag, code) = (reader.field()?, reader.array()?, reader.field()?);
                reader.finish()?;
                Ok(Self::RouterDrop { call, tag, code })
            }
            _ => Err(Malformed),
        }
    }
}

fn read_request<'a>(
    mut reader: Reader<'a>,
    flags: RequestFlags,
    credential: Credential<'a>,
) -> Result<Datagram<'a>, Malformed> {
    let head = RequestHead {
        credential,
        flags,
        counter: reader.field()?,
        packet: if flags.has_packet() { reader.field()? } else { 0 },
    };
    let sealed = sealed(reader)?;
    Ok(Datagram::Request { head, sealed })
}

const RESPONSE_KIND: u8 = 0b0000_0011;
const RESPONSE_TICKET: u8 = 0b0000_0100;
const RESPONSE_PART: u8 = 0b0000_1000;
const RESPONSE_ADDRESS: u8 = 0b0001_0000;

fn read_response(mut reader: Reader<'_>) -> Result<Datagram<'_>, Malformed> {
    let flags: u8 = reader.field()?;
    if flags & !(RESPONSE_KIND | RESPONSE_TICKET | RESPONSE_PART | RESPONSE_ADDRESS) != 0 {
        return Err(Malformed);
    }
    let kind = match flags & RESPONSE_KIND {
        0 => ResponseKind::Answer,
        1 => ResponseKind::Ack,
        2 => ResponseKind::Drop,
        _ => ResponseKind::Bind,
    };
    let is_part = flags & RESPONSE_PART != 0;
    let (epoch, call) = (reader.field()?, reader.field()?);
    let packet = if is_part || kind.is_numbered() {
        reader.field()?
    } else {
        0
    };
    let head = ResponseHead {
        kind,
        has_ticket: flags & RESPONSE_TICKET != 0,
        is_part,
        has_address: flags & RESPONSE_ADDRESS != 0,
        epoch,
        call,
        packet,
    };
    let sealed = sealed(reader)?;
    Ok(Datagram::Response { head, sealed })
}

fn sealed<'a>(reader: Reader<'a>) -> Result<&'a [u8], Malformed> {
    let rest = reader.rest();
    if rest.len() < TAG_BYTES {
        Err(Malformed)
    } else {
        Ok(rest)
    }
}

impl RequestHead<'_> {
    /// Kind and flags, which are authenticated; credential and counter are bound by key and nonce.
    pub(crate) fn first_bytes(&self) -> [u8; 2] {
        let kind = match self.credential {
            Credential::Ticket(_) => TICKET_REQUEST,
            Credential::Session(_) => SESSION_REQUEST,
        };
        [kind, self.flags.0]
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first_bytes());
        match self.credential {
            Credential::Ticket(ticket) => out.extend_from_slice(ticket),
            Credential::Session(session) => out.extend_from_slice(&session.to_le_bytes()),
        }
        out.extend_from_slice(&self.counter.to_le_bytes());
        if self.flags.has_packet() {
            out.extend_from_slice(&self.packet.to_le_bytes());
        }
    }

    /// Number in the nonce of this packet of the request.
    pub(crate) fn nonce_packet(&self) -> u32 {
        u32::from(self.packet)
            + if self.flags.is_control() {
                CONTROL_NONCES
            } else {
                0
            }
    }
}

/// Nonces of what acknowledges begin here, above all packet numbers.
const CONTROL_NONCES: u32 = 1 << 16;
/// Nonce of a response that asks to bind the request.
const BIND_NONCE: u32 = 2 << 16;
/// Nonces of responses with a code.
const DROP_NONCES: u32 = 3 << 16;

/// Returns the nonce of a ticket.
pub(crate) fn ticket_nonce(ticket: &Ticket) -> [u8; TICKET_NONCE_BYTES] {
    let mut nonce = [0; TICKET_NONCE_BYTES];
    nonce.copy_from_slice(&ticket[KEY_ID_BYTES..][..TICKET_NONCE_BYTES]);
    nonce
}

impl ResponseHead {
    /// It is one packet of many.
    pub(crate) fn part(self) -> Self {
        Self {
            is_part: true,
            ..self
        }
    }

    pub(crate) fn first_bytes(&self) -> [u8; 2] {
        let ticket = if self.has_ticket { RESPONSE_TICKET } else { 0 };
        let part = if self.is_part { RESPONSE_PART } else { 0 };
        let address = if self.has_address { RESPONSE_ADDRESS } else { 0 };
        [RESPONSE, self.kind as u8 | ticket | part | address]
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first_bytes());
        out.extend_from_slice(&self.epoch);
        out.extend_from_slice(&self.call.to_le_bytes());
        if self.is_part || self.kind.is_numbered() {
            out.extend_from_slice(&self.packet.to_le_bytes());
        }
    }

    /// Number in the nonce of this packet; no two of one request with different contents have the same.
    pub(crate) fn nonce_packet(&self) -> u32 {
        u32::from(self.packet)
            + match self.kind {
                ResponseKind::Answer => 0,
                ResponseKind::Ack => CONTROL_NONCES,
                ResponseKind::Bind => BIND_NONCE,
                ResponseKind::Drop => DROP_NONCES,
            }
    }
}

/// Appends a rejection of the request whose sealed part is given.
pub(crate) fn write_reject(reason: RejectReason, head: &RequestHead<'_>, sealed: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[REJECT, reason as u8]);
    (head.counter as u32).write(out);
    out.extend_from_slice(&sealed[sealed.len() - TAG_BYTES..]);
}

/// Appends a router's word of which server to ask.
pub(crate) fn write_redirect(
    head: &RequestHead<'_>,
    tag: &[u8; TAG_BYTES],
    server: &Endpoint,
    out: &mut Vec<u8>,
) {
    out.push(REDIRECT);
    (head.counter as u32).write(out);
    out.extend_from_slice(tag);
    out.extend_from_slice(&server.0);
}

/// Appends a router's word that it has not passed a request on.
pub(crate) fn write_router_drop(head: &RequestHead<'_>, tag: &[u8; TAG_BYTES], code: u16, out: &mut Vec<u8>) {
    out.push(ROUTER_DROP);
    (head.counter as u32).write(out);
    out.extend_from_slice(tag);
    code.write(out);
}

/// What precedes the payload of a request, sealed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPreamble {
    /// Since the ticket was issued: what is older than a few seconds when it arrives was held back.
    pub(crate) age_ms: u32,
    /// How long the caller waits.
    pub(crate) timeout_ms: u32,
    /// Calls with lower counters that may still be under way; what was answered before those is settled.
    pub(crate) older_calls: u16,
}

/// Length of a preamble.
pub(crate) const PREAMBLE_BYTES: usize = 10;

impl RequestPreamble {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.age_ms.write(out);
        self.timeout_ms.write(out);
        self.older_calls.write(out);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            age_ms: reader.field()?,
            timeout_ms: reader.field()?,
            older_calls: reader.field()?,
        })
    }
}

/// First byte of a sealed control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Packets of a response have arrived: `cookie 8 | acknowledgement`.
    Acknowledge = 0,
    /// The caller has given up.
    Cancel = 1,
    /// The caller asks for the session's epoch.
    Probe = 2,
}

impl Control {
    /// Number of the packet that cancels, above those that acknowledge.
    pub(crate) const CANCEL_PACKET: u16 = u16::MAX;

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            0 => Ok(Self::Acknowledge),
            1 => Ok(Self::Cancel),
            2 => Ok(Self::Probe),
            _ => Err(Malformed),
        }
    }
}
