use alloc::vec::Vec;

use crate::field::{Field, Malformed, Reader};

/// One change of a commit
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Write a value, in place of an old one.
    Put {
        /// At most 256 bytes.
        key: &'a [u8],
        /// At most 60 KiB.
        value: &'a [u8],
    },
    /// Remove a value; it need not exist.
    Delete {
        /// At most 256 bytes.
        key: &'a [u8],
    },
}

/// Builds the `operations` of a commit
///
/// ```text
/// put:    1 u8 | key length u32 | key | value length u32 | value
/// delete: 2 u8 | key length u32 | key
/// ```
#[derive(Debug, Default)]
pub struct OperationWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl OperationWriter {
    /// No operations yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an operation.
    pub fn push(&mut self, operation: Operation<'_>) {
        self.count += 1;
        match operation {
            Operation::Put { key, value } => {
                self.bytes.push(1);
                key.write(&mut self.bytes);
                value.write(&mut self.bytes);
            }
            Operation::Delete { key } => {
                self.bytes.push(2);
                key.write(&mut self.bytes);
            }
        }
    }

    /// Operations so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The encoding so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the `operations` of a commit
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    reader: Reader<'a>,
}

impl<'a> Operations<'a> {
    /// Operations in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
        }
    }

    fn read(&mut self) -> Result<Operation<'a>, Malformed> {
        match self.reader.field::<u8>()? {
            1 => Ok(Operation::Put {
                key: self.reader.field()?,
                value: self.reader.field()?,
            }),
            2 => Ok(Operation::Delete {
                key: self.reader.field()?,
            }),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let operation = self.read();
        if operation.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(operation)
    }
}

/// Builds the `entries` of a `StoreRead`: key and value, each after its `u32` length
#[derive(Debug, Default)]
pub struct EntryWriter {
    bytes: Vec<u8>,
}

impl EntryWriter {
    /// No entries yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an entry.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        key.write(&mut self.bytes);
        value.write(&mut self.bytes);
    }

    /// The encoding so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the `entries` of a `StoreRead`
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// Entries in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self
            .reader
            .field()
            .and_then(|key| Ok((key, self.reader.field()?)));
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}
