//! What other replicas answer.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};

use crate::keys::Signature;
use crate::message::{Fingerprint, VERSION};
use crate::refusal::{Refusal, Result};
use crate::sketch::Sketch;

/// The response does not decode.
pub(crate) const BAD: Refusal = Refusal {
    code: Code::BadMessage,
    at: 0,
};

/// The results of a response, one after the other
pub(crate) struct Results<'a> {
    reader: Reader<'a>,
}

impl<'a> Results<'a> {
    /// Reads how a response begins.
    ///
    /// # Errors
    /// What refused the request as a whole, or [`Code::BadMessage`].
    pub(crate) fn read(response: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(response);
        if reader.field::<u8>().map_err(|Malformed| BAD)? != VERSION {
            return Err(BAD);
        }
        let mut results = Self { reader };
        results.next(|reader| reader.field::<u32>())?;
        Ok(results)
    }

    /// Reads the next result.
    ///
    /// # Errors
    /// What refused the operation, or [`Code::BadMessage`]; then there are no further results.
    pub(crate) fn next<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> core::result::Result<T, Malformed>,
    ) -> Result<T> {
        let read = self.try_next(read);
        read.unwrap_or_else(|Malformed| {
            self.reader = Reader::new(&[]);
            Err(BAD)
        })
    }

    fn try_next<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> core::result::Result<T, Malformed>,
    ) -> core::result::Result<Result<T>, Malformed> {
        let code: u16 = self.reader.field()?;
        if code == 0 {
            return read(&mut self.reader).map(Ok);
        }
        let at = self.reader.field()?;
        let code = Code::from_u16(code).ok_or(Malformed)?;
        Ok(Err(Refusal { code, at }))
    }
}

/// What comparing gives
///
/// ```text
/// compared = arrivals u64 | fingerprint 32 | symbols u32 | elements u64, symbols, if there are any
/// ```
pub(super) struct Compared {
    /// How many elements have arrived at the replica so far.
    pub(super) arrivals: u64,
    /// Of all that it stores.
    pub(super) fingerprint: Fingerprint,
    /// A sketch of the part that was asked for, unless it is not wanted.
    pub(super) sketch: Option<Sketch>,
}

impl<'a> Field<'a> for Compared {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        Ok(Self {
            arrivals: reader.field()?,
            fingerprint: reader.array()?,
            sketch: match reader.field::<u32>()? as usize {
                0 => None,
                symbols => {
                    let elements = reader.field()?;
                    Some(Sketch::read(reader, symbols, elements)?)
                }
            },
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.arrivals.write(out);
        out.extend_from_slice(&self.fingerprint);
        match &self.sketch {
            None => 0_u32.write(out),
            Some(sketch) => {
                (sketch.symbols() as u32).write(out);
                sketch.elements().write(out);
                sketch.write(out);
            }
        }
    }
}

/// A signature and what orders it
///
/// ```text
/// signed = is epoch u8 | sequence u64 | signature 64
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed {
    /// Whether the record is an epoch record.
    pub(super) is_epoch: bool,
    /// The record's sequence.
    pub(super) sequence: u64,
    /// The signature.
    pub(crate) signature: Signature,
}

impl<'a> Field<'a> for Signed {
    fn read(reader: &mut Reader<'a>) -> core::result::Result<Self, Malformed> {
        Ok(Self {
            is_epoch: reader.field()?,
            sequence: reader.field()?,
            signature: Signature(reader.array()?),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.is_epoch.write(out);
        self.sequence.write(out);
        out.extend_from_slice(&self.signature.0);
    }
}
