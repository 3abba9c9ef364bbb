//! Memory that a disk takes bytes from as it is.

/// What places in memory and in a file are multiples of: no disk's blocks are larger.
pub(crate) const ALIGNED: usize = 4096;

/// Bytes whose first one has an aligned address
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// None, and room for so many, which is not touched before they are there.
    pub(crate) fn with_room(room: usize) -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(room + ALIGNED);
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNED) - address;
        memory.resize(start, 0);
        Self { memory, start }
    }

    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut zeros = Self::with_room(len);
        zeros.memory.resize(zeros.start + len, 0);
        zeros
    }

    /// How many it has room for, those that are there included.
    pub(crate) fn room(&self) -> usize {
        self.memory.capacity().saturating_sub(ALIGNED)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// When there is no room for them.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        assert!(self.len() + bytes.len() <= self.room(), "there is no room");
        self.memory.extend_from_slice(bytes);
    }

    /// Fills the last block up with zeros.
    ///
    /// # Panics
    /// When there is no room for them.
    pub(crate) fn pad(&mut self) {
        let len = self.len().next_multiple_of(ALIGNED);
        assert!(len <= self.room(), "there is no room");
        self.memory.resize(self.start + len, 0);
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.memory.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_at_an_aligned_address_whatever_is_done_to_them() {
        let mut aligned = Aligned::with_room(3 * ALIGNED);
        let is_aligned = |aligned: &Aligned| aligned.bytes().as_ptr().addr().is_multiple_of(ALIGNED);
        let bytes: Vec<u8> = (0..ALIGNED + 10).map(|at| at as u8).collect();
        aligned.push(&bytes);
        assert!(is_aligned(&aligned) && aligned.bytes() == bytes);
        aligned.pad();
        assert_eq!(aligned.len(), 2 * ALIGNED);
        assert!(aligned.bytes()[bytes.len()..].iter().all(|byte| *byte == 0));
        aligned.clear();
        assert!(aligned.bytes().is_empty());
        assert_eq!(aligned.room(), 3 * ALIGNED);
    }
}
