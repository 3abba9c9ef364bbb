//! The client: calls go in, sealed datagrams and answers come out.

use alloc::vec::Vec;

use selfsame_codec::rpc::{IDEMPOTENT, Output};
use selfsame_codec::{BatchWriter, Code};
use selfsame_sorted_map::{Map, Set};

use crate::endpoint::Endpoint;
use crate::outbox::{DueAcknowledgements, send};
use crate::ticket::Grant;
use crate::transfer::MAX_MESSAGE_BYTES;
use crate::wire::{Control, Datagram, RejectReason, TAG_BYTES};

mod replicas;

mod session;
use session::{Response, Service};

mod call;
use call::{Attempt, Call, Purpose};

mod request;
use request::Sealing;

mod response;

/// Calls under way: each holds its datagram.
const MAX_CALLS: usize = 65_536;
/// Requests that are sealed for one call: with the ticket, with a new one, bound, and one more.
const MAX_ATTEMPTS: u8 = 4;
/// How long packets of an answer that come again are acknowledged.
const LINGER_US: u64 = 2_000_000;
/// How long a client waits for more from a server that has said that the request arrived.
const ACCEPTED_RESEND_US: u64 = 1_000_000;

const POLICY_BITS: u8 = IDEMPOTENT - 1;

/// A client of any number of services.
#[derive(Debug)]
pub struct Client {
    now_us: u64,
    datagram_bytes: usize,
    services: Map<u32, Service>,
    calls: Map<u32, Call>,
    /// Calls by the low half of their request's counter, which responses name.
    by_counter: Map<u32, u32>,
    timers: Set<(u64, u32)>,
    /// Calls of whose answers packets are to be acknowledged.
    due: DueAcknowledgements,
    /// What was opened last, and what was sealed last; kept for their memory.
    opened: Vec<u8>,
    sealed: Vec<u8>,
}

/// A call as the application makes it.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<'a> {
    /// Number of the service.
    pub service: u32,
    /// Where the request goes: a server or a router.
    pub target: Endpoint,
    /// Policy in bits 0 and 1, idempotent in bit 2.
    pub options: u8,
    /// How long the application waits.
    pub timeout_ms: u32,
    /// The request.
    pub payload: &'a [u8],
}

impl Client {
    /// A client whose datagrams are at most so long.
    #[must_use]
    pub fn new(datagram_bytes: usize) -> Self {
        Self {
            now_us: 0,
            datagram_bytes,
            services: Map::new(),
            calls: Map::new(),
            by_counter: Map::new(),
            timers: Set::new(),
            due: DueAcknowledgements::default(),
            opened: Vec::new(),
            sealed: Vec::new(),
        }
    }

    /// Tells the time, in microseconds since 1970.
    pub fn tick(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// Begins a call.
    ///
    /// # Errors
    /// [`Code`] of what is wrong with it; it then has no other answer.
    pub fn call(&mut self, id: u32, new: NewCall<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        if self.calls.contains_key(&id) || new.options & !(POLICY_BITS | IDEMPOTENT) != 0 {
            return Err(Code::BadInput);
        }
        if new.payload.len() > MAX_MESSAGE_BYTES {
            return Err(Code::TooLarge);
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(Code::TooManyRequests);
        }
        let deadline_us = self.now_us + u64::from(new.timeout_ms) * 1000;
        let call = Call {
            service: new.service,
            target: new.target,
            policy: new.options & POLICY_BITS,
            is_idempotent: new.options & IDEMPOTENT != 0,
            payload: new.payload.to_vec(),
            deadline_us,
            bound: None,
            generation: 0,
            attempts: 0,
            attempt: None,
            timer_us: deadline_us,
        };
        self.timers.insert((deadline_us, id));
        self.calls.insert(id, call);
        self.attempt(id, out);
        Ok(())
    }

    /// Gives up a call, and tells its server.
    pub fn cancel(&mut self, id: u32, out: &mut BatchWriter) {
        let Some(call) = self.calls.get(&id) else { return };
        let attempt = call.attempt.as_ref();
        if attempt.is_none_or(|attempt| attempt.purpose != Purpose::Linger) {
            self.send_control(id, Control::CANCEL_PACKET, out, |text| {
                text.push(Control::Cancel as u8)
            });
            self.remove(id);
        }
    }

    /// Uses a ticket for a service from now on, or learns that there is none.
    pub fn use_ticket(&mut self, service: u32, grant: Option<Grant>, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let known = self.services.get_or_insert_with(service, Service::default);
        let waiting = core::mem::take(&mut known.waiting);
        let has_ticket = grant.is_some();
        if let Some(grant) = grant {
            known.use_ticket(grant, now_us);
        }
        for id in waiting {
            match has_ticket {
                true => self.attempt(id, out),
                false => self.fail(id, Code::NoProvider, out),
            }
        }
    }

    /// Takes a datagram; one that nobody waits for is dropped.
    pub fn datagram(&mut self, source: &Endpoint, bytes: &[u8], out: &mut BatchWriter) {
        match Datagram::read(bytes) {
            Ok(Datagram::Response { head, sealed }) => {
                if let Some(&id) = self.by_counter.get(&head.call) {
                    let response = Response {
                        source,
                        head: &head,
                        sealed,
                    };
                    self.response(id, response, out);
                }
            }
            Ok(Datagram::Reject { reason, call, tag }) => {
                if let Some(&id) = self.by_counter.get(&call) {
                    self.rejected(id, reason, &tag, out);
                }
            }
            Ok(Datagram::Redirect { call, tag, server }) => {
                if let Some(&id) = self.by_counter.get(&call) {
                    self.redirected(id, &tag, server, out);
                }
            }
            Ok(Datagram::RouterDrop { call, tag, code }) => {
                if let Some(&id) = self.by_counter.get(&call) {
                    self.dropped_by_router(id, &tag, code, out);
                }
            }
            Ok(Datagram::Request { .. }) | Err(_) => {}
        }
    }

    /// Does what is due.
    pub fn wake(&mut self, out: &mut BatchWriter) {
        while let Some((_, id)) = self
            .timers
            .first()
            .copied()
            .filter(|(at_us, _)| *at_us <= self.now_us)
        {
            self.call_is_due(id, out);
        }
    }

    /// Returns when to wake it.
    #[must_use]
    pub fn wake_at_us(&self) -> Option<u64> {
        self.timers.first().map(|(at_us, _)| *at_us)
    }

    /// Ends a batch: acknowledges packets of answers that arrived in it.
    pub fn end_batch(&mut self, out: &mut BatchWriter) {
        for id in self.due.take() {
            self.acknowledge(id, out);
        }
    }

    /// Seals a request for a call and sends it, or waits for a ticket.
    fn attempt(&mut self, id: u32, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.attempts == MAX_ATTEMPTS {
            return self.fail(id, Code::TimedOut, out);
        }
        let service = self.services.get_or_insert_with(call.service, Service::default);
        let timeout_us = service.replicas.round_trip(call.target).timeout_us();
        let Some((generation, session, replicas)) = service.current(now_us) else {
            if service.waiting.is_empty() {
                Output::TicketWanted {
                    service: call.service,
                }
                .encode(out);
            }
            service.waiting.push(id);
            return;
        };
        call.attempts += 1;
        if core::mem::replace(&mut call.generation, generation) != generation {
            call.bound = None;
        }
        if !call.is_idempotent && call.bound.is_none() {
            call.bound = replicas.fresh_epoch(&call.target, generation, now_us);
        }
        let by_counter = &self.by_counter;
        let counter = session.take_counter(|low| by_counter.contains_key(&low));
        self.by_counter.insert(counter as u32, id);
        let is_known = replicas.session(&call.target, generation).is_some();
        let sealing = Sealing {
            session,
            is_known,
            counter,
            now_us,
            datagram_bytes: self.datagram_bytes,
        };
        let request = sealing.seal(call);
        send(&call.target, &request.datagram, out);
        call.attempt = Some(Attempt::new(
            generation,
            counter,
            call.target,
            request,
            now_us,
            timeout_us,
        ));
        self.set_timer(id);
    }

    /// Takes the word of whoever has seen the request that the replica has no use for its ticket or session.
    fn rejected(&mut self, id: u32, reason: RejectReason, tag: &[u8; TAG_BYTES], out: &mut BatchWriter) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let Some(attempt) = call.attempt.as_ref() else {
            return;
        };
        if attempt.purpose == Purpose::Linger || attempt.is_accepted || !attempt.has_tag(tag) {
            return;
        }
        // Nobody has signed it: what was bound may have been carried out all the same.
        if attempt.purpose == Purpose::Request && call.bound.is_some() {
            return self.fail(id, Code::OutcomeUnknown, out);
        }
        if let Some(service) = self.services.get_mut(&call.service) {
            match reason {
                RejectReason::Ticket => service.discard_ticket(attempt.generation),
                RejectReason::Session => service.replicas.forget(&attempt.target),
            }
        }
        self.withdraw_attempt(id);
        self.attempt(id, out);
    }

    /// Sends a request to the server that a router names.
    fn redirected(&mut self, id: u32, tag: &[u8; TAG_BYTES], server: Endpoint, out: &mut BatchWriter) {
        if let Some(call) = self.calls.get_mut(&id)
            && let Some(attempt) = call.attempt.as_mut()
            && !attempt.is_accepted
            && attempt.has_tag(tag)
        {
            attempt.target = server;
            attempt.sends += 1;
            send(&server, &attempt.datagram, out);
        }
    }

    /// Ends a call whose request a router has not passed on, unless a server may have it all the same.
    fn dropped_by_router(&mut self, id: u32, tag: &[u8; TAG_BYTES], code: u16, out: &mut BatchWriter) {
        if let Some(call) = self.calls.get_mut(&id)
            && let Some(attempt) = call.attempt.as_ref()
            && !attempt.is_accepted
            && attempt.has_tag(tag)
            && (call.bound.is_none() || attempt.purpose == Purpose::Probe)
        {
            let code = Code::from_u16(code).unwrap_or(Code::BadMessage);
            self.fail(id, code, out);
        }
    }

    /// Does what is due of one call.
    fn call_is_due(&mut self, id: u32, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.deadline_us <= now_us {
            return match &call.attempt {
                Some(attempt) if attempt.purpose == Purpose::Linger => self.remove(id),
                Some(attempt) if attempt.purpose == Purpose::Request && !call.is_idempotent => {
                    self.fail(id, Code::OutcomeUnknown, out);
                }
                _ => self.fail(id, Code::TimedOut, out),
            };
        }
        let Some(attempt) = call.attempt.as_mut() else {
            return;
        };
        if attempt.resend_at_us <= now_us {
            let rtt = self
                .services
                .get_mut(&call.service)
                .map(|service| *service.replicas.round_trip(attempt.target));
            attempt.timeouts += 1;
            attempt.sends += 1;
            attempt.resend_at_us = now_us + rtt.unwrap_or_default().backed_off_us(attempt.timeouts);
            send(&attempt.target, &attempt.datagram, out);
        }
        self.send_packets(id, out);
    }

    /// Sends packets of a request of many that may leave now.
    fn send_packets(&mut self, id: u32, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let flags = request::flags(call).part();
        if let Some(attempt) = call.attempt.as_mut().filter(|attempt| attempt.is_accepted)
            && let Some(upload) = attempt.upload.as_mut()
            && let Some(service) = self.services.get_mut(&call.service)
        {
            let rtt = *service.replicas.round_trip(attempt.target);
            upload.check_timeout(now_us, &rtt);
            if let Some((session, replicas)) = service.session(attempt.generation) {
                let is_known = replicas.session(&attempt.target, attempt.generation).is_some();
                while let Some(packet) = upload.next_packet(now_us, &rtt, upload.packets()) {
                    if packet == 0 {
                        send(&attempt.target, &attempt.datagram, out);
                        continue;
                    }
                    let head = session.head(is_known, flags, attempt.counter, packet);
                    session.seal(&head, call.bound.as_ref(), &mut self.sealed, |text| {
                        upload.write(packet, true, &[], text);
                    });
                    send(&attempt.target, &self.sealed, out);
                }
            }
            if upload.is_complete() {
                attempt.upload = None;
            }
        }
        self.set_timer(id);
    }

    /// Acknowledges what has arrived of an answer.
    fn acknowledge(&mut self, id: u32, out: &mut BatchWriter) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let download = call
            .attempt
            .as_mut()
            .and_then(|attempt| attempt.download.as_mut());
        let Some(download) = download else { return };
        let Some(number) = download.next_acknowledgement() else {
            return;
        };
        let ack = download.assembly.acknowledgement();
        let cookie = download.cookie;
        self.send_control(id, number, out, |text| {
            text.push(Control::Acknowledge as u8);
            text.extend_from_slice(&cookie);
            ack.write(text);
        });
    }

    /// Sends a control packet about a call's request, if one was sent.
    fn send_control(
        &mut self,
        id: u32,
        packet: u16,
        out: &mut BatchWriter,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(call) = self.calls.get(&id)
            && let Some(attempt) = &call.attempt
            && let Some(service) = self.services.get_mut(&call.service)
            && let Some((session, replicas)) = service.session(attempt.generation)
        {
            let is_known = replicas.session(&attempt.target, attempt.generation).is_some();
            let head = session.head(is_known, request::flags(call).control(), attempt.counter, packet);
            session.seal(&head, call.bound.as_ref(), &mut self.sealed, write);
            send(&attempt.target, &self.sealed, out);
        }
    }

    fn fail(&mut self, id: u32, code: Code, out: &mut BatchWriter) {
        let code = code.as_u16();
        Output::Failed { call: id, code }.encode(out);
        self.remove(id);
    }

    fn remove(&mut self, id: u32) {
        self.withdraw_attempt(id);
        if let Some(call) = self.calls.remove(&id) {
            self.timers.remove(&(call.timer_us, id));
            if let Some(service) = self.services.get_mut(&call.service) {
                service.waiting.retain(|waiting| *waiting != id);
            }
        }
    }

    /// Forgets the request of a call: an answer to it is not waited for.
    fn withdraw_attempt(&mut self, id: u32) {
        if let Some(call) = self.calls.get_mut(&id)
            && let Some(attempt) = call.attempt.take()
        {
            self.by_counter.remove(&(attempt.counter as u32));
            let service = self.services.get_mut(&call.service);
            if let Some((session, _)) = service.and_then(|service| service.session(attempt.generation)) {
                session.settle(attempt.counter);
            }
        }
    }

    /// Keeps an answered call for a while, to acknowledge what comes again.
    fn linger(&mut self, id: u32) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.deadline_us = self.now_us + LINGER_US;
            call.payload = Vec::new();
        }
        self.set_timer(id);
    }

    fn set_timer(&mut self, id: u32) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let wake_us = match (&call.attempt, self.services.get_mut(&call.service)) {
            (Some(attempt), Some(service)) => attempt.wake_at_us(service.replicas.round_trip(attempt.target)),
            _ => u64::MAX,
        };
        let timer_us = wake_us.min(call.deadline_us);
        if timer_us != call.timer_us {
            self.timers.remove(&(call.timer_us, id));
            self.timers.insert((timer_us, id));
            call.timer_us = timer_us;
        }
    }
}

/// Returns the request of a call that is under way, and its service.
fn under_way<'a>(
    calls: &'a mut Map<u32, Call>,
    services: &'a mut Map<u32, Service>,
    id: u32,
) -> Option<(&'a mut Attempt, &'a mut Service)> {
    let call = calls.get_mut(&id)?;
    Some((call.attempt.as_mut()?, services.get_mut(&call.service)?))
}
