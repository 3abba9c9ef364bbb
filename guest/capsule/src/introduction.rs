//! How a writer makes itself known to a server: so a server keeps what the writer has not signed yet for it, and tells it from what
//! anybody could send.
//!
//! ```text
//! introduction = writer u16 | time ms u64 | signature 64
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};

use crate::hash::CapsuleName;
use crate::keys::{Key, KeyPair, Signature};
use crate::verifier::Verifier;

const SESSION: &str = "selfsame/1 capsule session";

/// How far the clocks of a writer and a server may be apart, or how old an introduction may be.
pub const MAX_AGE_MS: u64 = 60 * 60 * 1000;

/// The session of a request: random, chosen by the client
pub type SessionId = [u8; 16];

/// Where an introduction counts: nowhere else, so that what one server is told is of no use at another
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The server.
    pub server: &'a Key,
    /// The capsule.
    pub capsule: &'a CapsuleName,
    /// The session.
    pub session: &'a SessionId,
}

/// A writer's signature of a session with one server
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The number of the writer.
    pub writer: u16,
    /// When, by its clock.
    pub time_ms: u64,
    /// Its signature.
    pub signature: Signature,
}

impl Introduction {
    /// Signs a session.
    #[must_use]
    pub fn sign(key: &KeyPair, writer: u16, place: &Place<'_>, time_ms: u64) -> Self {
        Self {
            writer,
            time_ms,
            signature: key.sign(SESSION, &statement(place, time_ms)),
        }
    }

    /// Checks that the writer with this key has signed the session lately.
    ///
    /// # Errors
    /// [`Code::Replayed`] if it is too old or from the future, [`Code::BadSignature`].
    pub fn verify(
        &self,
        verifier: &mut Verifier,
        key: &Key,
        place: &Place<'_>,
        now_ms: u64,
    ) -> Result<(), Code> {
        if self.time_ms.abs_diff(now_ms) > MAX_AGE_MS {
            return Err(Code::Replayed);
        }
        let statement = statement(place, self.time_ms);
        match verifier.verifies(key, SESSION, &statement, &self.signature) {
            true => Ok(()),
            false => Err(Code::BadSignature),
        }
    }
}

fn statement(place: &Place<'_>, time_ms: u64) -> Vec<u8> {
    let mut statement = [&place.server.0[..], &place.capsule.0, place.session].concat();
    time_ms.write(&mut statement);
    statement
}

impl<'a> Field<'a> for Introduction {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            writer: reader.field()?,
            time_ms: reader.field()?,
            signature: Signature(reader.array()?),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.writer.write(out);
        self.time_ms.write(out);
        out.extend_from_slice(&self.signature.0);
    }
}
