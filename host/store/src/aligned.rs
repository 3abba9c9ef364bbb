//! Memory that a disk takes bytes from as it is.

/// What places in memory and in a file are multiples of: no disk's blocks are larger.
pub(crate) const ALIGNED: usize = 4096;

/// Bytes whose first one has an aligned address
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Aligned {
    /// None, and room for so many.
    pub(crate) fn with_room(room: usize) -> Self {
        let mut none = Self::zeros(room);
        none.clear();
        none
    }

    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let memory = vec![0; len + ALIGNED];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNED) - address;
        Self {
            memory,
            start,
            end: start + len,
        }
    }

    /// How many it has room for, those that are there included.
    pub(crate) fn room(&self) -> usize {
        self.memory.len().saturating_sub(ALIGNED)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// When there is no room for them.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.memory[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Fills the last block up with zeros.
    ///
    /// # Panics
    /// When there is no room for them.
    pub(crate) fn pad(&mut self) {
        let end = self.start + self.len().next_multiple_of(ALIGNED);
        self.memory[self.end..end].fill(0);
        self.end = end;
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.end = self.start;
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
