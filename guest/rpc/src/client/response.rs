//! What a client does with the responses of servers.

use selfsame_codec::rpc::Output;
use selfsame_codec::{BatchWriter, Code, Reader};

use super::call::{Download, Purpose};
use super::session::Response;
use super::{ACCEPTED_RESEND_US, Client, under_way};
use crate::endpoint::Endpoint;
use crate::ticket::{Grant, renewal_nonce};
use crate::transfer::Acknowledgement;
use crate::wire::{Epoch, ResponseHead, ResponseKind};

impl Client {
    /// Takes a response, if its seal opens.
    pub(super) fn response(&mut self, id: u32, response: Response<'_>, out: &mut BatchWriter) {
        let head = response.head;
        let now_us = self.now_us;
        let Some((attempt, service)) = under_way(&mut self.calls, &mut self.services, id) else {
            return;
        };
        let place = (attempt.generation, attempt.counter, attempt.target);
        let Some(server) = service.open(now_us, place, response, &mut self.opened) else {
            return;
        };
        if attempt.sends == 1 && !attempt.is_accepted && attempt.timeouts == 0 {
            service
                .replicas
                .round_trip(attempt.target)
                .sample(now_us - attempt.sent_us);
        }
        attempt.timeouts = 0;
        match head.kind {
            _ if attempt.purpose == Purpose::Linger => self.due.note(id),
            ResponseKind::Answer if head.is_part => self.answer_part(id, server, head, out),
            ResponseKind::Answer => self.answer(id, server, head, out),
            ResponseKind::Ack => self.accepted(id, server, head, out),
            ResponseKind::Drop => {
                let code = Reader::new(&self.opened).field().ok().and_then(Code::from_u16);
                self.fail(id, code.unwrap_or(Code::BadMessage), out);
            }
            ResponseKind::Bind => self.bind(id, server, head.epoch, out),
        }
    }

    /// Takes an answer of one datagram.
    fn answer(&mut self, id: u32, server: Endpoint, head: &ResponseHead, out: &mut BatchWriter) {
        let opened = core::mem::take(&mut self.opened);
        let mut reader = Reader::new(&opened);
        let is_right = !head.has_ticket || self.renew(id, head.epoch, &mut reader);
        if is_right {
            let (source, payload) = (server.0, reader.rest());
            Output::Done {
                call: id,
                source,
                payload,
            }
            .encode(out);
            self.remove(id);
        }
        self.opened = opened;
    }

    /// Begins to use the ticket that came with an answer; whether there was one.
    fn renew(&mut self, id: u32, epoch: Epoch, reader: &mut Reader<'_>) -> bool {
        let now_us = self.now_us;
        let Some((attempt, service)) = under_way(&mut self.calls, &mut self.services, id) else {
            return false;
        };
        let Some((session, _)) = service.session(attempt.generation) else {
            return false;
        };
        let nonce = renewal_nonce(&session.grant.psk, &epoch, attempt.counter);
        let Ok(grant) = Grant::read_renewal(reader, &nonce) else {
            return false;
        };
        // Every replica gives one: the first is enough.
        if service.is_newest(attempt.generation) {
            service.use_ticket(grant, now_us);
        }
        true
    }

    /// Takes a packet of an answer of many.
    fn answer_part(&mut self, id: u32, server: Endpoint, head: &ResponseHead, out: &mut BatchWriter) {
        let Some(attempt) = self.calls.get_mut(&id).and_then(|call| call.attempt.as_mut()) else {
            return;
        };
        let download = attempt.download.get_or_insert_with(|| Download::new(head.epoch));
        attempt.target = server;
        // Another replica's packets do not belong to it.
        if download.epoch != head.epoch || !download.take(head.packet, &self.opened) {
            return;
        }
        attempt.is_accepted = true;
        if !download.assembly.is_complete() {
            self.due.note(id);
            return;
        }
        let payload = download.assembly.take_body();
        attempt.purpose = Purpose::Linger;
        Output::Done {
            call: id,
            source: server.0,
            payload: &payload,
        }
        .encode(out);
        self.due.note(id);
        self.linger(id);
    }

    /// Takes what a server says of a request that has arrived, or of packets of it.
    fn accepted(&mut self, id: u32, server: Endpoint, head: &ResponseHead, out: &mut BatchWriter) {
        let now_us = self.now_us;
        let Some((attempt, service)) = under_way(&mut self.calls, &mut self.services, id) else {
            return;
        };
        let rtt = service.replicas.round_trip(server);
        if !attempt.is_accepted {
            (attempt.is_accepted, attempt.target, attempt.epoch) = (true, server, Some(head.epoch));
        }
        attempt.resend_at_us = now_us + ACCEPTED_RESEND_US;
        if let Some(upload) = attempt
            .upload
            .as_mut()
            .filter(|_| attempt.epoch == Some(head.epoch))
            && let Ok(ack) = Acknowledgement::read(&mut Reader::new(&self.opened))
        {
            upload.acknowledge(now_us, rtt, &ack);
        }
        self.send_packets(id, out);
    }

    /// Binds a call to the replica life that asks for it.
    fn bind(&mut self, id: u32, server: Endpoint, epoch: Epoch, out: &mut BatchWriter) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.bound.is_some() {
            // The life that it was bound to may have carried it out before it ended.
            return self.fail(id, Code::OutcomeUnknown, out);
        }
        (call.bound, call.target) = (Some(epoch), server);
        self.withdraw_attempt(id);
        self.attempt(id, out);
    }
}
