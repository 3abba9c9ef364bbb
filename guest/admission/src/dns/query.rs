use alloc::vec::Vec;

use super::message::{Header, IS_AUTHENTIC, RECURSION_DESIRED, TYPE_OPT, TYPE_TXT, put_question, put_record};
use super::name::Name;

/// UDP payload that responses may have: what crosses every path in one piece (RFC 6891, section 6.2.5; DNS flag day 2020).
const UDP_PAYLOAD_BYTES: u16 = 1232;

/// A query for the TXT records of a name
#[derive(Clone, Debug)]
pub struct Query {
    /// A random number, by which the response is known.
    pub id: u16,
    /// The name, in a case of the host's choice.
    pub name: Name,
}

impl Query {
    /// The message: recursion and authenticated data are asked for (RFC 6840, section 5.7).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let header = Header {
            id: self.id,
            flags: RECURSION_DESIRED | IS_AUTHENTIC,
            counts: [1, 0, 0, 1],
        };
        header.write(&mut out);
        put_question(&self.name, TYPE_TXT, &mut out);
        put_record(&Name::root(), TYPE_OPT, UDP_PAYLOAD_BYTES, 0, &[], &mut out);
        out
    }
}
