//! What stores are compared by.

use bench_pair::Outcome;

/// What a write survives
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing: it is on its way to the disk when there is time.
    None,
    /// The end of the process: the system has it.
    Logged,
    /// A power loss: it is on the disk before it is acknowledged.
    Synced,
}

impl Durability {
    /// That of a word.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn named(word: &str) -> Outcome<Self> {
        match word {
            "none" => Ok(Self::None),
            "logged" => Ok(Self::Logged),
            "synced" => Ok(Self::Synced),
            _ => Err(format!("no durability {word}")),
        }
    }
}

/// An item and its new value
pub(crate) type Write<'a> = (u32, &'a [u8]);

/// Who is told what batches came to, in their order
pub(crate) trait Observer {
    /// The value of the read at a place of the oldest batch that is not done.
    fn value(&mut self, place: usize, value: &[u8]);

    /// The oldest batch is done: what it wrote is stored, and what it read was told.
    fn done(&mut self);
}

/// What a thread uses a store through
pub(crate) trait Backend {
    /// Forgets what it has verified, if it verifies. No batch is under way.
    ///
    /// # Errors
    /// When the store fails.
    async fn forget(&mut self) -> Outcome<()>;

    /// Writes items, and then reads items, which need not be done when it returns.
    ///
    /// # Errors
    /// When the store fails or does not hold an item.
    async fn batch(
        &mut self,
        writes: &[Write<'_>],
        reads: &[u32],
        observer: &mut dyn Observer,
    ) -> Outcome<()>;

    /// Waits until all batches are done.
    ///
    /// # Errors
    /// When the store fails.
    async fn settle(&mut self, observer: &mut dyn Observer) -> Outcome<()>;
}
