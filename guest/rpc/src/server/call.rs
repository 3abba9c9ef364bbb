//! Calls that a server carries out.

use alloc::vec::Vec;

use crate::assembly::Assembly;
use crate::congestion::RoundTrip;
use crate::endpoint::Endpoint;
use crate::forward::Forwarded;
use crate::transfer::Transfer;
use crate::wire::{COOKIE_BYTES, SessionId};

/// An address that is not proven gets at most so many times the bytes that came from it (RFC 9000, section 8).
pub(super) const AMPLIFICATION: usize = 3;

/// A call from its first packet to the end of its answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) session: SessionId,
    pub(super) counter: u64,
    /// Where the request came from, and the answer goes.
    pub(super) endpoint: Endpoint,
    /// Whose quota it counts against.
    pub(super) source: Endpoint,
    pub(super) options: u8,
    pub(super) timeout_ms: u32,
    pub(super) deadline_us: u64,
    pub(super) received_bytes: usize,
    pub(super) sent_bytes: usize,
    /// Acknowledgements that were sealed for it: the number of each is its own.
    pub(super) acknowledgements: u16,
    /// How its request came, if through a router.
    pub(super) forwarded: Option<Forwarded>,
    pub(super) stage: Stage,
}

/// What a call waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// More packets of the request.
    Upload(Assembly),
    /// The application.
    Running,
    /// The client, to acknowledge packets of the answer.
    Download(Download),
}

/// An answer of many packets.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) transfer: Transfer,
    pub(super) rtt: RoundTrip,
    pub(super) cookie: [u8; COOKIE_BYTES],
}

impl Call {
    /// Returns how many bytes may go to its address while that is not proven.
    pub(super) fn allowance(&self) -> usize {
        (AMPLIFICATION * self.received_bytes).saturating_sub(self.sent_bytes)
    }

    /// Returns where the client reaches this server, if it must be told.
    pub(super) fn server(&self) -> Option<Endpoint> {
        self.forwarded.map(|forwarded| forwarded.server)
    }

    /// Takes the number of the next acknowledgement; `None` after too many.
    pub(super) fn next_acknowledgement(&mut self) -> Option<u16> {
        let number = self.acknowledgements;
        self.acknowledgements = number.checked_add(1)?;
        Some(number)
    }
}

/// Calls by their numbers, which are not used again soon.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<(u16, Option<Call>)>,
    free: Vec<u16>,
}

impl Calls {
    /// Adds a call; `None` when there are as many as numbers.
    pub(super) fn insert(&mut self, call: Call) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.slots.len()).ok()?;
                self.slots.push((0, None));
                index
            }
        };
        let (generation, slot) = &mut self.slots[usize::from(index)];
        *slot = Some(call);
        Some(u32::from(*generation) << 16 | u32::from(index))
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Call> {
        let (generation, slot) = self.slots.get_mut(number as usize & 0xffff)?;
        slot.as_mut().filter(|_| u32::from(*generation) == number >> 16)
    }

    /// Returns a call that waits for the application.
    pub(super) fn running(&mut self, number: u32) -> Option<&mut Call> {
        self.get_mut(number)
            .filter(|call| matches!(call.stage, Stage::Running))
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Call> {
        let (generation, slot) = self.slots.get_mut(number as usize & 0xffff)?;
        if u32::from(*generation) != number >> 16 {
            return None;
        }
        let call = slot.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(number as u16);
        Some(call)
    }
}
