use selfsame_codec::{Code, Malformed, Reader};

/// Why something was not accepted: what is wrong with it, and where
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub code: Code,
    /// Where: the offset in bytes in what was given, or the number of the element, from 0, where elements are given.
    pub at: u32,
}

impl Refusal {
    /// Refuses what lies at an offset.
    #[must_use]
    pub fn new(code: Code, at: usize) -> Self {
        Self {
            code,
            at: u32::try_from(at).unwrap_or(u32::MAX),
        }
    }

    /// The same refusal of something that begins `by` bytes later in what was given.
    #[must_use]
    pub fn further(self, by: usize) -> Self {
        Self::new(self.code, by.saturating_add(self.at as usize))
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}, at {}", self.code, self.at)
    }
}

impl core::error::Error for Refusal {}

/// What reading comes to
pub type Result<T> = core::result::Result<T, Refusal>;

/// Turns a reading that failed into a refusal that says how far it came.
pub(crate) fn placed<'a, T>(
    whole: &'a [u8],
    code: Code,
    read: impl FnOnce(&mut Reader<'a>) -> core::result::Result<T, Malformed>,
) -> Result<T> {
    let mut reader = Reader::new(whole);
    let read = read(&mut reader);
    let at = whole.len() - reader.rest().len();
    read.map_err(|Malformed| Refusal::new(code, at))
}
