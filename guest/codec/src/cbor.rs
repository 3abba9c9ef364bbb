//! Deterministic CBOR (RFC 8949, section 4.2.1): the subset in which messages are written.
//!
//! Unsigned integers, byte strings, text, arrays, maps, booleans and null, all of definite length and in their
//! shortest form. The decoder refuses every other encoding, so that a value has exactly one.

use alloc::vec::Vec;

use crate::field::{Malformed, Reader};

const UINT: u8 = 0;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// Appends values to a buffer
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends an unsigned integer.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.head(UINT, value)
    }

    /// Appends a byte string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.head(BYTES, value.len() as u64);
        self.out.extend_from_slice(value);
        self
    }

    /// Appends a text string.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.head(TEXT, value.len() as u64);
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// Appends the head of an array; `len` values follow.
    pub fn array(&mut self, len: usize) -> &mut Self {
        self.head(ARRAY, len as u64)
    }

    /// Appends the head of a map; `len` pairs follow, in the order of their encoded keys.
    pub fn map(&mut self, len: usize) -> &mut Self {
        self.head(MAP, len as u64)
    }

    /// Appends a boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.out.push(if value { TRUE } else { FALSE });
        self
    }

    /// Appends null.
    pub fn null(&mut self) -> &mut Self {
        self.out.push(NULL);
        self
    }

    #[inline(never)]
    fn head(&mut self, major: u8, value: u64) -> &mut Self {
        let major = major << 5;
        if value < 24 {
            self.out.push(major | value as u8);
        } else if let Ok(value) = u8::try_from(value) {
            self.out.extend_from_slice(&[major | 24, value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.out.push(major | 25);
            self.out.extend_from_slice(&value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.out.push(major | 26);
            self.out.extend_from_slice(&value.to_be_bytes());
        } else {
            self.out.push(major | 27);
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        self
    }
}

/// Reads values; every length is checked against the bytes that are there before anything is done with it
// The reads are called and not inlined: a configuration and a record make dozens of them, and an engine compiles a
// function before it runs it for the first time.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
        }
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none.
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        self.head(UINT)
    }

    /// Reads an unsigned integer of at most `max`.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or larger.
    pub fn uint_max(&mut self, max: u64) -> Result<u64, Malformed> {
        self.uint()
            .and_then(|value| if value <= max { Ok(value) } else { Err(Malformed) })
    }

    /// Reads an unsigned integer of 32 bits.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or larger.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(self.uint_max(u64::from(u32::MAX))? as u32)
    }

    /// Reads a byte string of at most `max` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or longer.
    #[inline(never)]
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = self.length(BYTES, max)?;
        self.reader.take(len)
    }

    /// Reads a byte string of exactly `N` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or of another length.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads a text string of at most `max` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none, longer, or not UTF-8.
    #[inline(never)]
    pub fn text(&mut self, max: usize) -> Result<&'a str, Malformed> {
        let len = self.length(TEXT, max)?;
        core::str::from_utf8(self.reader.take(len)?).map_err(|_| Malformed)
    }

    /// Reads the head of an array of at most `max` values.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or longer.
    pub fn array(&mut self, max: usize) -> Result<usize, Malformed> {
        self.length(ARRAY, max)
    }

    /// Reads the head of an array of exactly `len` values.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or of another length.
    pub fn array_of(&mut self, len: usize) -> Result<(), Malformed> {
        if self.array(len)? == len {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// Reads the head of a map of at most `max` pairs; the caller checks the order of the keys.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none or longer.
    pub fn map(&mut self, max: usize) -> Result<usize, Malformed> {
        self.length(MAP, max)
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.reader.field::<u8>()? {
            FALSE => Ok(false),
            TRUE => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Reads null if it is the next value, and says whether it was.
    pub fn null(&mut self) -> bool {
        let is_null = self.reader.rest().first() == Some(&NULL);
        if is_null {
            self.reader = Reader::new(&self.reader.rest()[1..]);
        }
        is_null
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Malformed`] when bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }

    fn length(&mut self, major: u8, max: usize) -> Result<usize, Malformed> {
        let len = usize::try_from(self.head(major)?).map_err(|_| Malformed)?;
        if len <= max { Ok(len) } else { Err(Malformed) }
    }

    #[inline(never)]
    fn head(&mut self, major: u8) -> Result<u64, Malformed> {
        let first: u8 = self.reader.field()?;
        if first >> 5 != major {
            return Err(Malformed);
        }
        let (value, least) = match first & 0x1f {
            small @ 0..24 => return Ok(u64::from(small)),
            24 => (u64::from(self.reader.array::<1>()?[0]), 24),
            25 => (u64::from(u16::from_be_bytes(self.reader.array()?)), 1 << 8),
            26 => (u64::from(u32::from_be_bytes(self.reader.array()?)), 1 << 16),
            27 => (u64::from_be_bytes(self.reader.array()?), 1 << 32),
            _ => return Err(Malformed),
        };
        if value >= least { Ok(value) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Encoder::new(&mut out));
        out
    }

    /// Values and encodings of RFC 8949, appendix A.
    #[test]
    fn integers_of_appendix_a() {
        let cases: &[(u64, &[u8])] = &[
            (0, &[0x00]),
            (23, &[0x17]),
            (24, &[0x18, 0x18]),
            (100, &[0x18, 0x64]),
            (1000, &[0x19, 0x03, 0xe8]),
            (1_000_000, &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
            (
                1_000_000_000_000,
                &[0x1b, 0x00, 0x00, 0x00, 0xe8, 0xd4, 0xa5, 0x10, 0x00],
            ),
            (u64::MAX, &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (value, bytes) in cases {
            assert_eq!(encoded(|e| _ = e.uint(*value)), *bytes);
            assert_eq!(Decoder::new(bytes).uint(), Ok(*value));
        }
    }

    #[test]
    fn a_longer_form_of_the_same_integer_is_refused() {
        for bytes in [
            &[0x18, 0x17][..],
            &[0x19, 0x00, 0xff],
            &[0x1a, 0, 0, 0xff, 0xff],
            &[0x1b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(Decoder::new(bytes).uint(), Err(Malformed));
        }
    }

    #[test]
    fn a_length_beyond_the_input_is_refused() {
        assert_eq!(
            Decoder::new(&[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).bytes(usize::MAX),
            Err(Malformed)
        );
        assert_eq!(Decoder::new(&[0x43, 1, 2]).bytes(3), Err(Malformed));
    }

    #[test]
    fn indefinite_lengths_are_refused() {
        assert_eq!(Decoder::new(&[0x5f, 0x41, 0, 0xff]).bytes(10), Err(Malformed));
        assert_eq!(Decoder::new(&[0x9f, 0xff]).array(10), Err(Malformed));
    }

    #[test]
    fn a_mixed_value_comes_back() {
        let bytes = encoded(|e| {
            e.array(5).bytes(&[1, 2]).text("\u{fc}").bool(true).null().map(1);
            e.uint(1).uint(2);
        });
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decoder.array_of(5), Ok(()));
        assert_eq!(decoder.fixed(), Ok([1, 2]));
        assert_eq!(decoder.text(2), Ok("\u{fc}"));
        assert_eq!(decoder.bool(), Ok(true));
        assert!(decoder.null());
        assert_eq!(decoder.map(1), Ok(1));
        assert_eq!(decoder.uint(), Ok(1));
        assert_eq!(decoder.uint_max(1), Err(Malformed));
        assert_eq!(decoder.finish(), Ok(()));
    }
}
