//! Answers: of one datagram, which is kept until the client has it, or of many.

use alloc::vec::Vec;

use selfsame_codec::{BatchWriter, Code, Reader};

use super::Server;
use super::call::{Call, Download, Stage};
use super::request::Arrival;
use super::session::Session;
use crate::congestion::RoundTrip;
use crate::endpoint::Endpoint;
use crate::outbox::send;
use crate::ticket::{Grant, renewal_nonce};
use crate::transfer::{Acknowledgement, MAX_MESSAGE_BYTES, Transfer};
use crate::wire::{
    COOKIE_BYTES, MAX_RESPONSE_HEAD_BYTES, PACKET_FORM_BYTES, ResponseHead, ResponseKind, SessionId,
    TAG_BYTES,
};

/// Bytes of a packet of an answer around its part of the payload, but for the cookie in the first.
const PACKET_OVERHEAD: usize = MAX_RESPONSE_HEAD_BYTES + PACKET_FORM_BYTES + TAG_BYTES;
/// A new ticket that got lost is given again after this part of its life.
const RENEWALS_IN_LIFE: u32 = 16;

impl Server {
    /// Answers a call.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when the answer is too long: the call then fails for its caller, too.
    pub fn answer(&mut self, number: u32, payload: &[u8], out: &mut BatchWriter) -> Result<(), Code> {
        let Some(call) = self.calls.running(number) else {
            return Ok(());
        };
        if payload.len() > MAX_MESSAGE_BYTES {
            self.refuse(number, Code::TooLarge, out);
            return Err(Code::TooLarge);
        }
        let (endpoint, allowance) = (call.endpoint, call.allowance());
        let Some(session) = self.sessions.get(call.session) else {
            self.remove_call(number);
            return Ok(());
        };
        let is_proven = session.is_proven(&endpoint);
        let room = if is_proven {
            self.datagram_bytes
        } else {
            self.datagram_bytes.min(allowance)
        };
        match room.checked_sub(MAX_RESPONSE_HEAD_BYTES + address_bytes(call) + payload.len() + TAG_BYTES) {
            Some(left) => self.answer_whole(number, payload, left >= Grant::RENEWAL_BYTES, out),
            None => self.answer_in_packets(number, payload, room, out),
        }
        Ok(())
    }

    /// Answers with one datagram, which has room for a new ticket or not.
    fn answer_whole(&mut self, number: u32, payload: &[u8], has_room: bool, out: &mut BatchWriter) {
        let renewal = if has_room { self.renewal(number) } else { None };
        let limit = self.sessions.kept_limit();
        if let Some(call) = self.calls.get_mut(number)
            && let Some(session) = self.sessions.get_mut(call.session)
        {
            let responding = Responding::new(session, call.counter, call.server());
            let mut head = responding.head(ResponseKind::Answer, 0);
            head.has_ticket = renewal.is_some();
            responding.seal_with(&head, &mut self.sealed, |text| {
                if let Some(renewal) = &renewal {
                    renewal.write_renewal(text);
                }
                text.extend_from_slice(payload);
            });
            send(&call.endpoint, &self.sealed, out);
            session.keep(call.counter, &self.sealed, limit);
        }
        self.remove_call(number);
    }

    /// Answers with many packets, of which the first is at most so long.
    fn answer_in_packets(&mut self, number: u32, payload: &[u8], room: usize, out: &mut BatchWriter) {
        let address_bytes = self.calls.get_mut(number).map_or(0, |call| address_bytes(call));
        let packet_bytes = self.datagram_bytes - PACKET_OVERHEAD - address_bytes;
        let first_bytes = room.saturating_sub(PACKET_OVERHEAD + COOKIE_BYTES + address_bytes);
        let cookie = self.random.bytes();
        if let Some(call) = self.calls.get_mut(number) {
            call.stage = Stage::Download(Download {
                transfer: Transfer::new(payload.to_vec(), first_bytes, packet_bytes),
                rtt: RoundTrip::default(),
                cookie,
            });
        }
        self.send_packets(number, out);
    }

    /// Refuses a call that was not carried out.
    pub fn refuse(&mut self, number: u32, code: Code, out: &mut BatchWriter) {
        let Some(call) = self.calls.running(number) else {
            return;
        };
        let (id, counter, server, endpoint) = (call.session, call.counter, call.server(), call.endpoint);
        self.send_refusal(id, counter, server, &endpoint, code, out);
        self.remove_call(number);
    }

    /// Sends a refusal, and keeps it like an answer.
    pub(super) fn send_refusal(
        &mut self,
        id: SessionId,
        counter: u64,
        server: Option<Endpoint>,
        target: &Endpoint,
        code: Code,
        out: &mut BatchWriter,
    ) {
        let limit = self.sessions.kept_limit();
        if let Some(session) = self.sessions.get_mut(id) {
            let text = code.as_u16().to_le_bytes();
            Responding::new(session, counter, server).seal(ResponseKind::Drop, 0, &text, &mut self.sealed);
            send(target, &self.sealed, out);
            session.keep(counter, &self.sealed, limit);
        }
    }

    /// Returns a new ticket for the caller when half of the life of the present one is over.
    fn renewal(&mut self, number: u32) -> Option<Grant> {
        let now_s = self.now_s();
        let call = self.calls.get_mut(number)?;
        let (id, counter, endpoint) = (call.session, call.counter, call.endpoint);
        let session = self.sessions.get_mut(id)?;
        let life_s = session.expires_s - session.issued_s;
        let is_due = now_s >= session.issued_s + life_s / 2
            && now_s >= session.renewed_s + (life_s / RENEWALS_IN_LIFE).max(1);
        // Whoever knows the key of the present ticket reads the response: one that was replaced must not lead to the keys after it.
        if !is_due || !self.keys.have_issued(&session.nonce, &session.psk) {
            return None;
        }
        session.renewed_s = now_s;
        let nonce = renewal_nonce(&session.psk, &session.epoch, counter);
        let caller = session.caller;
        Some(self.ticket(caller, &endpoint, &nonce))
    }

    /// Sends packets of an answer that may leave now.
    pub(super) fn send_packets(&mut self, number: u32, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let Some(session) = self.sessions.get(call.session) else {
            return self.remove_call(number);
        };
        let address_bytes = address_bytes(call);
        let is_proven = session.is_proven(&call.endpoint);
        let mut allowance = if is_proven { usize::MAX } else { call.allowance() };
        let Stage::Download(Download {
            transfer,
            rtt,
            cookie,
        }) = &mut call.stage
        else {
            return;
        };
        transfer.check_timeout(now_us, rtt);
        // Until the address is proven only the first packet goes there, which asks for the proof.
        let limit = if is_proven { transfer.packets() } else { 1 };
        let least = PACKET_OVERHEAD + COOKIE_BYTES + address_bytes + transfer.first_bytes();
        while allowance >= least
            && let Some(packet) = transfer.next_packet(now_us, rtt, limit)
        {
            let responding = Responding::new(
                session,
                call.counter,
                call.forwarded.map(|forwarded| forwarded.server),
            );
            let head = responding.head(ResponseKind::Answer, packet).part();
            responding.seal_with(&head, &mut self.sealed, |text| {
                let prefix: &[u8] = if packet == 0 { cookie } else { &[] };
                transfer.write(packet, true, prefix, text);
            });
            call.sent_bytes += self.sealed.len();
            allowance = allowance.saturating_sub(self.sealed.len());
            send(&call.endpoint, &self.sealed, out);
        }
        // What may not be sent waits for the client, not for the time.
        let mut wake_us = call.deadline_us;
        if allowance >= least
            && let Some(at_us) = transfer.wake_at_us(rtt, limit)
        {
            wake_us = wake_us.min(at_us);
        }
        self.timers.insert((wake_us.max(now_us + 1), number));
    }

    /// Takes what a client says of packets of an answer.
    pub(super) fn acknowledged(
        &mut self,
        number: u32,
        source: &Endpoint,
        reader: &mut Reader<'_>,
        out: &mut BatchWriter,
    ) {
        let now_us = self.now_us;
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let Stage::Download(Download {
            transfer,
            rtt,
            cookie,
        }) = &mut call.stage
        else {
            return;
        };
        let Ok(told) = reader.array::<COOKIE_BYTES>() else {
            return;
        };
        let Ok(ack) = Acknowledgement::read(reader) else {
            return;
        };
        if told == *cookie
            && let Some(session) = self.sessions.get_mut(call.session)
        {
            session.proven = Some(source.address());
            call.endpoint = *source;
        }
        transfer.acknowledge(now_us, rtt, &ack);
        if transfer.is_complete() {
            self.remove_call(number);
        } else {
            self.send_packets(number, out);
        }
    }
}

/// Returns how many bytes the server's own address takes in responses to a call.
fn address_bytes(call: &Call) -> usize {
    call.forwarded.map_or(0, |_| Endpoint::BYTES)
}

/// A response that is being made: to which request, and what it says beside its payload.
#[derive(Clone, Copy)]
pub(super) struct Responding<'a> {
    session: &'a Session,
    counter: u64,
    /// Where the client reaches this server, if it must be told.
    server: Option<Endpoint>,
}

impl<'a> Responding<'a> {
    pub(super) fn new(session: &'a Session, counter: u64, server: Option<Endpoint>) -> Self {
        Self {
            session,
            counter,
            server,
        }
    }

    /// Replaces `out` by a response with a text.
    pub(super) fn seal(&self, kind: ResponseKind, packet: u16, text: &[u8], out: &mut Vec<u8>) {
        let head = self.head(kind, packet);
        self.seal_with(&head, out, |out| out.extend_from_slice(text));
    }

    fn head(&self, kind: ResponseKind, packet: u16) -> ResponseHead {
        ResponseHead {
            kind,
            has_ticket: false,
            is_part: false,
            has_address: self.server.is_some(),
            epoch: self.session.epoch,
            call: self.counter as u32,
            packet,
        }
    }

    fn seal_with(&self, head: &ResponseHead, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        out.clear();
        head.write(out);
        let from = out.len();
        if let Some(server) = &self.server {
            out.extend_from_slice(&server.0);
        }
        write(out);
        self.session
            .response_key
            .seal_response(head, self.counter, out, from);
    }
}

/// Asks for a request that is bound to this life of the session.
pub(super) fn ask_to_bind(
    session: &mut Session,
    arrival: Arrival<'_>,
    sealed: &mut Vec<u8>,
    out: &mut BatchWriter,
) {
    // Without an endpoint it is the same bytes each time, which may be sealed again: requests that strangers forge use no number up.
    let number = arrival.server.map_or(Some(0), |_| session.next_bind());
    if let Some(number) = number {
        let responding = Responding::new(session, arrival.head.counter, arrival.server);
        responding.seal(ResponseKind::Bind, number, &[], sealed);
        send(arrival.source, sealed, out);
    }
}
