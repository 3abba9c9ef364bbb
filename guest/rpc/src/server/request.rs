//! What a server does with a request: who sent it, whether it came before, whether it may be carried out.

use selfsame_codec::rpc::{IDEMPOTENT, Output};
use selfsame_codec::{BatchWriter, Code, Reader};

use super::answer::{Responding, ask_to_bind};
use super::call::{AMPLIFICATION, Call, Stage};
use super::session::Session;
use super::{Replay, Server};
use crate::assembly::Assembly;
use crate::endpoint::Endpoint;
use crate::keys::session_of;
use crate::outbox::send;
use crate::transfer::Acknowledgement;
use crate::window::Use;
use crate::wire::{
    Control, Credential, FIRST_PACKET, RejectReason, RequestHead, RequestPreamble, ResponseKind, SessionId,
    Ticket, ticket_nonce, write_reject,
};

/// How far the age that a client claims may be off: clocks of replicas differ by a second or two, and a delayed datagram is resent.
const AGE_TOLERANCE_MS: u64 = 10_000;
/// A client that has used up half of all counters is none of ours.
const MAX_COUNTER: u64 = u64::MAX / 2;

/// A request with the session that it is sealed under.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) source: &'a Endpoint,
    pub(super) head: &'a RequestHead<'a>,
    sealed: &'a [u8],
    /// Of the whole datagram.
    len: usize,
    /// Where the client reaches this server, if it must be told.
    pub(super) server: Option<Endpoint>,
}

impl Server {
    pub(super) fn request(
        &mut self,
        source: &Endpoint,
        head: &RequestHead<'_>,
        sealed: &[u8],
        len: usize,
        out: &mut BatchWriter,
    ) {
        if head.counter > MAX_COUNTER {
            return;
        }
        let arrival = Arrival {
            source,
            head,
            sealed,
            len,
            server: self.forwarded.map(|forwarded| forwarded.server),
        };
        match head.credential {
            Credential::Session(id) if self.sessions.get(id).is_some() => self.known(id, arrival, out),
            Credential::Session(_) => self.reject(RejectReason::Session, arrival, out),
            Credential::Ticket(ticket) => self.with_ticket(ticket, arrival, out),
        }
    }

    /// Takes a request with a ticket, which begins a session unless there is one.
    fn with_ticket(&mut self, ticket: &Ticket, arrival: Arrival<'_>, out: &mut BatchWriter) {
        let nonce = ticket_nonce(ticket);
        let id = session_of(&nonce);
        if self
            .sessions
            .get(id)
            .is_some_and(|session| session.nonce == nonce)
        {
            return self.known(id, arrival, out);
        }
        let now_s = self.now_s();
        let Some(key) = self.keys.of(ticket) else {
            return self.reject(RejectReason::Ticket, arrival, out);
        };
        // One that is forged gets no answer.
        let Some(opened) = key.open(ticket) else { return };
        if now_s >= opened.content.expires_s {
            return self.reject(RejectReason::Ticket, arrival, out);
        }
        let is_proven = key.proves(&opened.content, arrival.source);
        let epoch = self.random.bytes();
        let mut session = Session::new(opened, epoch, arrival.source.prefix(), self.now_us);
        session.first = arrival.head.counter;
        session.proven = is_proven.then(|| arrival.source.address());
        let Arrival { head, sealed, .. } = arrival;
        if head.flags.is_bound() {
            // It is bound to a life of the session that has ended, here or elsewhere.
            return ask_to_bind(&mut session, arrival, &mut self.sealed, out);
        }
        // Only a request that is sealed with it begins a session.
        if session
            .request_key
            .open_request(head, None, sealed, &mut self.opened)
            .is_ok()
        {
            self.sessions.insert(id, session, now_s);
            self.opened(id, arrival, out);
        }
    }

    /// Takes a request of a session.
    fn known(&mut self, id: SessionId, arrival: Arrival<'_>, out: &mut BatchWriter) {
        let now_s = self.now_s();
        let Arrival { head, sealed, .. } = arrival;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if now_s >= session.expires_s {
            return self.reject(RejectReason::Ticket, arrival, out);
        }
        let bound = head.flags.is_bound().then_some(&session.epoch);
        if session
            .request_key
            .open_request(head, bound, sealed, &mut self.opened)
            .is_ok()
        {
            self.opened(id, arrival, out);
        } else if head.flags.is_bound() {
            ask_to_bind(session, arrival, &mut self.sealed, out);
        }
    }

    /// Takes a request that was opened.
    fn opened(&mut self, id: SessionId, arrival: Arrival<'_>, out: &mut BatchWriter) {
        let opened = core::mem::take(&mut self.opened);
        let head = arrival.head;
        let mut reader = Reader::new(&opened);
        if head.flags.is_control() {
            self.control(id, arrival, &mut reader, out);
        } else if head.flags.is_part() && head.packet != FIRST_PACKET {
            self.next_part(id, arrival, reader, out);
        } else if let Ok(preamble) = RequestPreamble::read(&mut reader) {
            self.first(id, arrival, preamble, reader, out);
        }
        self.opened = opened;
    }

    /// Takes a whole request, or the first packet of many.
    fn first(
        &mut self,
        id: SessionId,
        arrival: Arrival<'_>,
        preamble: RequestPreamble,
        reader: Reader<'_>,
        out: &mut BatchWriter,
    ) {
        let (now_us, now_ms) = (self.now_us, self.now_ms());
        let counter = arrival.head.counter;
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.used_us = now_us;
        if self.streams {
            session.proven = Some(arrival.source.address());
        }
        let sent_ms = u64::from(session.issued_s) * 1000 + u64::from(preamble.age_ms);
        match session.window.check(counter) {
            Use::Used => return self.repeated(id, arrival, out),
            Use::TooOld => return,
            Use::New => {}
        }
        let is_bound = arrival.head.flags.is_bound();
        // Before this life of the session it was rejected, and its client may have sealed the call again.
        let is_rejected =
            matches!(arrival.head.credential, Credential::Session(_)) && counter < session.first;
        if !is_bound && (is_rejected || !self.accepts_early(sent_ms)) {
            if let Some(session) = self.sessions.get_mut(id) {
                ask_to_bind(session, arrival, &mut self.sealed, out);
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.window.mark(counter);
        session.latest_ms = session.latest_ms.max(sent_ms.min(now_ms));
        session.settle(counter.saturating_sub(u64::from(preamble.older_calls)));
        let idempotent = if is_bound { 0 } else { IDEMPOTENT };
        let call = Call {
            session: id,
            counter,
            endpoint: *arrival.source,
            source: session.source,
            options: arrival.head.flags.policy() as u8 | idempotent,
            forwarded: self.forwarded.take(),
            timeout_ms: preamble.timeout_ms,
            deadline_us: now_us + u64::from(preamble.timeout_ms) * 1000,
            received_bytes: arrival.len,
            sent_bytes: 0,
            acknowledgements: 0,
            stage: Stage::Running,
        };
        self.begin(call, arrival, reader, out);
    }

    /// Whether a request that is bound to no replica may be carried out here.
    fn accepts_early(&self, sent_ms: u64) -> bool {
        self.replay == Replay::Idempotent
            && sent_ms.abs_diff(self.now_ms()) <= AGE_TOLERANCE_MS
            && sent_ms >= self.not_before_ms
            && !self.sessions.may_have_forgotten(sent_ms)
    }

    fn begin(&mut self, call: Call, arrival: Arrival<'_>, reader: Reader<'_>, out: &mut BatchWriter) {
        let (id, source, deadline_us) = (call.session, call.source, call.deadline_us);
        let has_room = self.sessions.begin_call(source);
        let number = if has_room { self.calls.insert(call) } else { None };
        let Some(number) = number else {
            if has_room {
                self.sessions.end_call(&source);
            }
            let (counter, target) = (arrival.head.counter, arrival.source);
            return self.send_refusal(id, counter, arrival.server, target, Code::TooManyRequests, out);
        };
        if let Some(session) = self.sessions.get_mut(id) {
            session.calls.push((arrival.head.counter, number));
        }
        if !arrival.head.flags.is_part() {
            return self.serve(number, reader.rest(), out);
        }
        if let Some(call) = self.calls.get_mut(number) {
            call.stage = Stage::Upload(Assembly::default());
        }
        self.timers.insert((deadline_us, number));
        self.take_part(number, 0, reader);
    }

    /// Takes another packet of a request.
    fn next_part(&mut self, id: SessionId, arrival: Arrival<'_>, reader: Reader<'_>, out: &mut BatchWriter) {
        let number = self
            .sessions
            .get(id)
            .and_then(|session| session.call(arrival.head.counter));
        let Some(number) = number else {
            // It was answered: the client has heard neither that nor that its last packets arrived.
            return self.repeated(id, arrival, out);
        };
        if let Some(call) = self.calls.get_mut(number) {
            call.received_bytes += arrival.len;
            self.take_part(number, arrival.head.packet, reader);
        }
    }

    fn take_part(&mut self, number: u32, packet: u16, reader: Reader<'_>) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let Stage::Upload(assembly) = &mut call.stage else {
            // It is whole: the client has not heard so yet.
            self.due.note(number);
            return;
        };
        let before = assembly.len();
        let source = call.source;
        let is_right = assembly.take(packet, reader, 0).is_ok();
        let grown = assembly.len() - before;
        self.due.note(number);
        if !is_right || !self.sessions.reserve(&source, grown) {
            self.sessions.release(&source, before);
            if let Some(call) = self.calls.get_mut(number) {
                call.stage = Stage::Running;
            }
            self.remove_call(number);
        }
    }

    /// Acknowledges packets of a request, and lets it be carried out when it is whole.
    pub(super) fn acknowledge(&mut self, number: u32, out: &mut BatchWriter) {
        let Some(call) = self.calls.get_mut(number) else {
            return;
        };
        let Some(session) = self.sessions.get(call.session) else {
            return;
        };
        let Some(packet) = call.next_acknowledgement() else {
            return;
        };
        let ack = match &call.stage {
            Stage::Upload(assembly) => assembly.acknowledgement(),
            Stage::Running | Stage::Download(_) => Acknowledgement::all(),
        };
        let mut text = alloc::vec::Vec::new();
        ack.write(&mut text);
        Responding::new(session, call.counter, call.server()).seal(
            ResponseKind::Ack,
            packet,
            &text,
            &mut self.sealed,
        );
        call.sent_bytes += self.sealed.len();
        send(&call.endpoint, &self.sealed, out);
        match &mut call.stage {
            Stage::Upload(assembly) if assembly.is_complete() => {
                let len = assembly.len();
                let payload = assembly.take_body();
                let source = call.source;
                call.stage = Stage::Running;
                self.sessions.release(&source, len);
                self.serve(number, &payload, out);
            }
            // More may go to an address that is not proven.
            Stage::Download(_) => self.send_packets(number, out),
            Stage::Upload(_) | Stage::Running => {}
        }
    }

    fn serve(&mut self, number: u32, payload: &[u8], out: &mut BatchWriter) {
        if let Some(call) = self.calls.get_mut(number)
            && let Some(session) = self.sessions.get(call.session)
        {
            Output::Serve {
                call: number,
                caller: session.caller,
                source: call.endpoint.0,
                options: call.options,
                timeout_ms: call.timeout_ms,
                payload,
            }
            .encode(out);
        }
    }

    /// Takes a request that came before: the answer again if it is kept, else that it is under way.
    fn repeated(&mut self, id: SessionId, arrival: Arrival<'_>, out: &mut BatchWriter) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let counter = arrival.head.counter;
        if let Some(answer) = session.kept(counter) {
            if session.is_proven(arrival.source) || answer.len() <= AMPLIFICATION * arrival.len {
                send(arrival.source, answer, out);
            }
        } else if let Some(number) = session.call(counter)
            && let Some(call) = self.calls.get_mut(number)
        {
            call.received_bytes += arrival.len;
            self.due.note(number);
        }
    }

    fn control(
        &mut self,
        id: SessionId,
        arrival: Arrival<'_>,
        reader: &mut Reader<'_>,
        out: &mut BatchWriter,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let number = session.call(arrival.head.counter);
        match Control::read(reader) {
            Ok(Control::Probe) => ask_to_bind(session, arrival, &mut self.sealed, out),
            Ok(Control::Cancel) => {
                if let Some(number) = number {
                    Output::Cancelled { call: number }.encode(out);
                    self.remove_call(number);
                }
            }
            Ok(Control::Acknowledge) => {
                if let Some(number) = number {
                    self.acknowledged(number, arrival.source, reader, out);
                }
            }
            Err(_) => {}
        }
    }

    fn reject(&mut self, reason: RejectReason, arrival: Arrival<'_>, out: &mut BatchWriter) {
        self.sealed.clear();
        write_reject(reason, arrival.head, arrival.sealed, &mut self.sealed);
        send(arrival.source, &self.sealed, out);
    }
}
