//! Who answers for a record: a signature vouches for all that it leads to, and is its signer's word on the signer's own records
//! alone.
//!
//! A header is its writer's if that writer signed it, or if a header that is that writer's points to it, names the same writer and
//! has a higher sequence. Anybody can make a header that names somebody else, and point to it.

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};

use crate::header::HeaderView;

/// Who answers for a record that is proven
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Authorship {
    /// The writer that the record names has signed it, or a later record of its own that leads there.
    SignedBy(u16),
    /// Another writer has signed what leads there: nothing shows that the writer that the record names made it.
    VouchedForBy(u16),
}

impl Authorship {
    /// Whether the writer that the record names made it.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, Self::SignedBy(_))
    }
}

/// ```text
/// authorship = 1 signed by, 2 vouched for by u8 | number of the signer u16
/// ```
impl<'a> Field<'a> for Authorship {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind: u8 = reader.field()?;
        let signer = reader.field()?;
        match kind {
            1 => Ok(Self::SignedBy(signer)),
            2 => Ok(Self::VouchedForBy(signer)),
            _ => Err(Malformed),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (kind, signer) = match self {
            Self::SignedBy(signer) => (1, signer),
            Self::VouchedForBy(signer) => (2, signer),
        };
        out.push(kind);
        signer.write(out);
    }
}

/// What a verified way to a name says, before the header with that name is seen
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The record is the signer's if it names it with at most this sequence.
    highest: u64,
    signer: u16,
    /// Whether nobody's header but the signer's lies on the way.
    is_unbroken: bool,
}

impl Attribution {
    /// A header whose name carries its writer's signature.
    #[must_use]
    pub fn signed(header: &HeaderView<'_>) -> Self {
        Self {
            highest: header.sequence(),
            signer: header.writer(),
            is_unbroken: true,
        }
    }

    /// Who answers for the record with this header.
    #[must_use]
    pub fn authorship(&self, header: &HeaderView<'_>) -> Authorship {
        let is_own = self.is_unbroken && header.writer() == self.signer && header.sequence() <= self.highest;
        if is_own {
            Authorship::SignedBy(self.signer)
        } else {
            Authorship::VouchedForBy(self.signer)
        }
    }

    /// The same, now that the header is seen.
    #[must_use]
    pub fn seen(self, header: &HeaderView<'_>) -> Self {
        match self.authorship(header) {
            Authorship::SignedBy(_) => Self::signed(header),
            Authorship::VouchedForBy(_) => self,
        }
    }

    /// What this says of the records that the header with this attribution points to.
    #[must_use]
    pub fn below(self, header: &HeaderView<'_>) -> Self {
        let before = header.sequence().checked_sub(1);
        let before = before.filter(|_| self.authorship(header).is_signed());
        Self {
            highest: before.unwrap_or(0),
            signer: self.signer,
            is_unbroken: before.is_some(),
        }
    }

    /// What says more of the same name: this, or what was learned now.
    #[must_use]
    pub fn or_better(self, other: Self) -> Self {
        let same = self.signer == other.signer && self.is_unbroken == other.is_unbroken;
        let stays = if same {
            self.highest > other.highest
        } else {
            self.is_unbroken && !other.is_unbroken
        };
        if stays { self } else { other }
    }
}
