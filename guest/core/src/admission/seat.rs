//! Seats: where on the ring a closed network puts its members.

use crate::identity::labelled_hash;

/// Length of a seat: half of an id.
pub const SEAT_BYTES: usize = 16;

const SEAT: &str = "selfsame/1 seat of an address";

/// The first half of the id of a member of a closed network, which its certificate names; the other half is of its key
///
/// A member cannot choose where it stands, since its address decides that (Secure Chord, section 3.1), and nobody else has its
/// id, since that commits to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat(pub [u8; SEAT_BYTES]);

impl Seat {
    /// The seat of an address, `host:port`, as certificates hold it.
    #[must_use]
    pub fn of_address(address: &str) -> Self {
        let mut seat = [0; SEAT_BYTES];
        seat.copy_from_slice(&labelled_hash(SEAT, &[address.as_bytes()])[..SEAT_BYTES]);
        Self(seat)
    }
}
