//! How much memory a replica uses.

/// How much memory a replica uses
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the store that it remembers, 4 MiB or more: half of them hold what any one step reads, some 1.7 MB at most.
    pub cache: usize,
    /// Bytes of mirrors of readers' caches.
    pub mirrors: usize,
}

impl Default for Limits {
    /// For the smallest platform: an isolate of 128 MB that it shares with others.
    fn default() -> Self {
        Self {
            cache: 16 << 20,
            mirrors: 8 << 20,
        }
    }
}
