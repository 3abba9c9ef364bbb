//! Witnesses: by which way a server proves a record (DCS, section 3.3).
//!
//! ```text
//! witness = 0 | 1 signature 64 | 2, or 3 if it is its writer's, age u32 steps u32 next record 32
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};

use crate::hash::RecordName;
use crate::keys::Signature;

/// How a record is proven
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Not yet: nothing that is signed leads to it.
    Unproven,
    /// By a writer's signature of its own name.
    Signed(Signature),
    /// By a record that points to it, which is proven itself.
    Through {
        /// How many writers had been revoked when this was found: a way may lead over a signature that counts no more.
        age: u32,
        /// That record.
        next: RecordName,
        /// How many headers there are at most on the way to a signed one, that one included.
        steps: u32,
        /// Whether it is its writer's: all on the way names the same writer, with falling sequences, from its signature on. So a way
        /// that shows it is kept, though one over another writer's record may be shorter.
        is_own: bool,
    },
}

impl Witness {
    /// How many bytes it is encoded in.
    pub(crate) fn encoded_len(&self) -> usize {
        match self {
            Self::Unproven => 1,
            Self::Signed(signature) => 1 + signature.0.len(),
            Self::Through { next, .. } => 1 + 2 * size_of::<u32>() + next.0.len(),
        }
    }
}

impl<'a> Field<'a> for Witness {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.field::<u8>()? {
            0 => Ok(Self::Unproven),
            1 => Ok(Self::Signed(Signature(reader.array()?))),
            kind @ 2..=3 => Ok(Self::Through {
                age: reader.field()?,
                steps: reader.field()?,
                next: RecordName(reader.array()?),
                is_own: kind == 3,
            }),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unproven => out.push(0),
            Self::Signed(signature) => {
                out.push(1);
                out.extend_from_slice(&signature.0);
            }
            Self::Through {
                age,
                next,
                steps,
                is_own,
            } => {
                out.push(2 + u8::from(*is_own));
                age.write(out);
                steps.write(out);
                out.extend_from_slice(&next.0);
            }
        }
    }
}
