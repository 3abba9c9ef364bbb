use alloc::vec::Vec;

/// The bytes do not follow the layout that was expected of them
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("malformed bytes")
    }
}

impl core::error::Error for Malformed {}

/// A cursor over borrowed bytes; every read is checked
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes the next `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    /// Takes the next `N` bytes as an array.
    ///
    /// # Errors
    /// [`Malformed`] when fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Takes one field.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes do not hold one.
    pub fn field<T: Field<'a>>(&mut self) -> Result<T, Malformed> {
        T::read(self)
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether every byte was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Malformed`] when bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// A value with one fixed layout: integers little-endian, variable bytes after a `u32` length
pub trait Field<'a>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes do not hold one.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! integer_fields {
    ($($ty:ty),*) => {$(
        impl<'a> Field<'a> for $ty {
            fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                reader.array().map(Self::from_le_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                append(out, &self.to_le_bytes());
            }
        }
    )*};
}

integer_fields!(u8, u16, u32, u64);

impl<'a, const N: usize> Field<'a> for [u8; N] {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.array()
    }

    fn write(&self, out: &mut Vec<u8>) {
        append(out, self);
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let len = u32::read(reader)?;
        reader.take(usize::try_from(len).map_err(|_| Malformed)?)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_len(self.len(), out);
        append(out, self);
    }
}

impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        core::str::from_utf8(<&[u8]>::read(reader)?).map_err(|_| Malformed)
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.as_bytes().write(out);
    }
}

/// A flag: one byte, 0 or 1
impl<'a> Field<'a> for bool {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match u8::read(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

/// Appends a length as `u32`.
pub(crate) fn write_len(len: usize, out: &mut Vec<u8>) {
    let len = u32::try_from(len).expect("a field is shorter than 4 GiB");
    append(out, &len.to_le_bytes());
}

// Called and not inlined: there are some hundred calls of it, and each would bring its own way to grow the buffer.
#[inline(never)]
fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}
