//! Requests of a client as they are sealed.

use alloc::vec::Vec;

use super::call::{Call, Purpose};
use super::session::Session;
use crate::transfer::Transfer;
use crate::wire::{
    Control, Epoch, FIRST_PACKET, MAX_REQUEST_HEAD_BYTES, PACKET_FORM_BYTES, PREAMBLE_BYTES, RequestFlags,
    RequestPreamble, TAG_BYTES,
};

/// A request that can be sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) purpose: Purpose,
    /// The datagram, or the first of many.
    pub(super) datagram: Vec<u8>,
    /// What follows when a server has taken the first of many.
    pub(super) upload: Option<Transfer>,
}

/// What a request is sealed with.
pub(super) struct Sealing<'a> {
    pub(super) session: &'a Session,
    /// Whether the target knows the session.
    pub(super) is_known: bool,
    pub(super) counter: u64,
    pub(super) now_us: u64,
    pub(super) datagram_bytes: usize,
}

/// Returns the flags of all packets of a call.
pub(super) fn flags(call: &Call) -> RequestFlags {
    let flags = RequestFlags::new(call.policy);
    if call.bound.is_some() {
        flags.bound()
    } else {
        flags
    }
}

impl Sealing<'_> {
    /// Seals the request of a call, or the question for a replica's epoch if it must be bound to one that is not known.
    pub(super) fn seal(&self, call: &Call) -> Request {
        let flags = flags(call);
        if !call.is_idempotent && call.bound.is_none() {
            let datagram = self.datagram(flags.control(), 0, None, |text| text.push(Control::Probe as u8));
            return request(Purpose::Probe, datagram, None);
        }
        let bound = call.bound.as_ref();
        let preamble = self.preamble(call);
        let most_bytes = self.datagram_bytes - MAX_REQUEST_HEAD_BYTES - PREAMBLE_BYTES - TAG_BYTES;
        if call.payload.len() <= most_bytes {
            let datagram = self.datagram(flags, 0, bound, |text| {
                preamble.write(text);
                text.extend_from_slice(&call.payload);
            });
            return request(Purpose::Request, datagram, None);
        }
        let transfer = Transfer::new(
            call.payload.clone(),
            most_bytes - PACKET_FORM_BYTES,
            self.datagram_bytes - MAX_REQUEST_HEAD_BYTES - PACKET_FORM_BYTES - TAG_BYTES,
        );
        let datagram = self.datagram(flags.part(), FIRST_PACKET, bound, |text| {
            preamble.write(text);
            transfer.write(0, false, &[], text);
        });
        request(Purpose::Request, datagram, Some(transfer))
    }

    fn datagram(
        &self,
        flags: RequestFlags,
        packet: u16,
        bound: Option<&Epoch>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Vec<u8> {
        let mut datagram = Vec::new();
        let head = self.session.head(self.is_known, flags, self.counter, packet);
        self.session.seal(&head, bound, &mut datagram, write);
        datagram
    }

    fn preamble(&self, call: &Call) -> RequestPreamble {
        let timeout_ms = call.deadline_us.saturating_sub(self.now_us) / 1000;
        RequestPreamble {
            age_ms: u32::try_from(self.session.age_ms(self.now_us)).unwrap_or(u32::MAX),
            timeout_ms: u32::try_from(timeout_ms).unwrap_or(u32::MAX),
            older_calls: self.session.older_than(self.counter),
        }
    }
}

fn request(purpose: Purpose, datagram: Vec<u8>, upload: Option<Transfer>) -> Request {
    Request {
        purpose,
        datagram,
        upload,
    }
}
