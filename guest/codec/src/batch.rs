use alloc::vec::Vec;

use crate::field::{Field, Malformed, Reader};

/// A kind of item and its number on the boundary
pub trait ItemKind {
    /// The byte that stands before the item's length.
    fn kind(&self) -> u8;
}

/// One item of a batch before its payload is looked at
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Number of the kind.
    pub kind: u8,
    /// The payload; its layout depends on the kind.
    pub payload: &'a [u8],
}

/// Reads the items of a batch
///
/// ```text
/// item: kind u8 | length u32 | payload (length bytes)
/// ```
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    reader: Reader<'a>,
}

impl<'a> BatchReader<'a> {
    /// Checks the framing of a whole batch before any of its items is handed out.
    ///
    /// # Errors
    /// [`Malformed`] when the items do not fill the bytes exactly.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut probe = Self {
            reader: Reader::new(bytes),
        };
        while !probe.reader.is_empty() {
            probe.next_item()?;
        }
        Ok(Self {
            reader: Reader::new(bytes),
        })
    }

    fn next_item(&mut self) -> Result<Item<'a>, Malformed> {
        let kind = self.reader.field::<u8>()?;
        let payload = self.reader.field::<&[u8]>()?;
        Ok(Item { kind, payload })
    }
}

impl<'a> Iterator for BatchReader<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if self.reader.is_empty() {
            None
        } else {
            self.next_item().ok()
        }
    }
}

/// Appends items to a batch, each in place
#[derive(Debug, Default)]
pub struct BatchWriter {
    bytes: Vec<u8>,
}

impl BatchWriter {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an item whose payload `write` produces.
    pub fn item<R>(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let length_at = self.begin(kind);
        let result = write(&mut self.bytes);
        self.patch_length(length_at);
        result
    }

    /// Appends an item of one `u32` and one variable field that `write` produces in place, so that a packet
    /// can be sealed where the host will read it.
    pub fn item_with_body<R>(&mut self, kind: u8, head: u32, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let length_at = self.begin(kind);
        head.write(&mut self.bytes);
        let body_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let result = write(&mut self.bytes);
        self.patch_length(body_at);
        self.patch_length(length_at);
        result
    }

    /// The batch so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The batch, for whoever has to wipe it.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets everything from `len` on, to take back an item that could not be finished.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Appends all items of another batch.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Empties the batch; its memory is kept unless it exceeds `keep` bytes.
    pub fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
    }

    /// Starts an item and returns where its length belongs. This and what ends it are not inlined into all that write one.
    #[inline(never)]
    fn begin(&mut self, kind: u8) -> usize {
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
        self.bytes.len() - 4
    }

    #[inline(never)]
    fn patch_length(&mut self, at: usize) {
        let start = at + 4;
        let len = u32::try_from(self.bytes.len() - start).expect("an item is shorter than 4 GiB");
        self.bytes[at..start].copy_from_slice(&len.to_le_bytes());
    }
}

/// Declares an enum of items with their numbers and layouts, and derives both directions of the codec.
macro_rules! items {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$variant_meta:meta])*
                $kind:literal $variant:ident { $( $(#[$field_meta:meta])* $field:ident : $ty:ty ),* $(,)? }
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the sentence of a variant names its fields")]
        pub enum $name<'a> {
            $( $(#[$variant_meta])* $variant { $( $(#[$field_meta])* $field: $ty ),* } ),*
        }

        impl $crate::ItemKind for $name<'_> {
            fn kind(&self) -> u8 {
                match self { $( Self::$variant { .. } => $kind ),* }
            }
        }

        impl<'a> $name<'a> {
            /// Decodes an item of a batch.
            ///
            /// # Errors
            /// [`Malformed`](crate::Malformed) when the kind is unknown or the payload does not fit it exactly.
            pub fn decode(item: $crate::Item<'a>) -> Result<Self, $crate::Malformed> {
                let mut reader = $crate::Reader::new(item.payload);
                let decoded = match item.kind {
                    $( $kind => Self::$variant { $( $field: reader.field::<$ty>()? ),* }, )*
                    _ => return Err($crate::Malformed),
                };
                reader.finish()?;
                Ok(decoded)
            }

            /// Appends the item to a batch.
            // Inlined, so that who knows the kind calls its part at once: engines compile what is called first.
            #[inline(always)]
            pub fn encode(&self, batch: &mut $crate::BatchWriter) {
                match *self {
                    $( Self::$variant { $( $field ),* } => {
                        #[inline(never)]
                        #[allow(
                            clippy::too_many_arguments,
                            clippy::extra_unused_lifetimes,
                            reason = "one for each field, whatever those are"
                        )]
                        fn append<'a>(batch: &mut $crate::BatchWriter, $( $field: $ty ),*) {
                            batch.item($kind, |out| { $( $crate::Field::write(&$field, out); )* let _ = &out; });
                        }
                        append(batch, $( $field ),*)
                    } ),*
                }
            }
        }
    };
}
pub(crate) use items;
