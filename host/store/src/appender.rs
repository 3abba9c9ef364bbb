//! A new file that is written from its beginning to its end.

use std::io;
use std::path::Path;

use super::aligned::Aligned;
use super::direct::DirectFile;

/// Bytes that are written at once: enough for a disk to be busy, few enough to be in a processor's cache still.
const AT_ONCE: usize = 512 << 10;

/// A file that is being written
#[derive(Debug)]
pub(crate) struct Appender {
    file: DirectFile,
    waiting: Aligned,
    /// Bytes that the file has.
    written: u64,
}

impl Appender {
    /// Creates the file, or empties the one that is there.
    ///
    /// # Errors
    /// What the system says, here and in all that follows.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: DirectFile::create(path)?,
            waiting: Aligned::with_room(AT_ONCE),
            written: 0,
        })
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = AT_ONCE - self.waiting.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.waiting.push(now);
            bytes = later;
            if now.len() == room {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Waits until the disk has all of it.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let len = self.written + self.waiting.len() as u64;
        self.waiting.pad();
        self.write()?;
        self.file.set_len(len)?;
        self.file.sync()
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write(self.written, self.waiting.bytes())?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::aligned::ALIGNED;
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    fn written(len: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes(2 * ALIGNED)).unwrap();
        let mut file = Appender::create(&path).unwrap();
        for part in bytes(len).chunks(70_001) {
            file.append(part).unwrap();
        }
        file.finish().unwrap();
        std::fs::read(&path).unwrap()
    }

    #[test]
    fn a_file_has_what_was_appended_whatever_its_length() {
        for len in [
            0,
            1,
            ALIGNED,
            AT_ONCE - 1,
            AT_ONCE,
            AT_ONCE + 1,
            3 * AT_ONCE + 4097,
        ] {
            assert!(written(len) == bytes(len), "{len} bytes");
        }
    }
}
