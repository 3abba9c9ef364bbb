//! A new file whose bytes go to the disk past the system's cache, where the system can do that. Much is written that is read late if
//! ever: in the cache it would take a page for each 4 KiB, and push out what is read often.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// What places in memory and in the file are multiples of: no disk's blocks are larger.
const ALIGNED: usize = 4096;
/// Bytes that are written at once: enough for a disk to be busy, few enough to be in a processor's cache still.
const AT_ONCE: usize = 512 << 10;

/// A file that is being written, from its beginning to its end
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Where the aligned part of the buffer begins, and where what waits there ends.
    start: usize,
    end: usize,
    /// Bytes that the file has.
    written: u64,
}

impl DirectFile {
    /// Creates it, or empties the one that is there.
    ///
    /// # Errors
    /// What the system says, here and in all that follows.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = match past_the_cache(&options).open(path) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => options.open(path)?,
            opened => opened?,
        };
        let buffer = vec![0; AT_ONCE + ALIGNED];
        let address = buffer.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNED) - address;
        Ok(Self {
            file,
            path: path.into(),
            buffer,
            start,
            end: start,
            written: 0,
        })
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.start + AT_ONCE - self.end;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer[self.end..self.end + now.len()].copy_from_slice(now);
            self.end += now.len();
            bytes = later;
            if now.len() == room {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Waits until the disk has all of it.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let len = self.written + (self.end - self.start) as u64;
        let padded = self.start + (self.end - self.start).next_multiple_of(ALIGNED);
        self.buffer[self.end..padded].fill(0);
        self.end = padded;
        self.write()?;
        self.file.set_len(len)?;
        self.file.sync_data()
    }

    /// Writes what waits.
    fn write(&mut self) -> io::Result<()> {
        let waiting = &self.buffer[self.start..self.end];
        match self.file.write_all(waiting) {
            // A file system that takes such a file may yet refuse such a write.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                self.file = OpenOptions::new().write(true).open(&self.path)?;
                self.file.seek(SeekFrom::Start(self.written))?;
                self.file.write_all(waiting)?;
            }
            written => written?,
        }
        self.written += waiting.len() as u64;
        self.end = self.start;
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn past_the_cache(options: &OpenOptions) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = options.clone();
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    options
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn past_the_cache(options: &OpenOptions) -> OpenOptions {
    options.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    fn written(len: usize, misaligned: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes(2 * ALIGNED)).unwrap();
        let mut file = DirectFile::create(&path).unwrap();
        file.start += misaligned;
        file.end += misaligned;
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
            assert!(written(len, 0) == bytes(len), "{len} bytes");
        }
    }

    #[test]
    fn what_the_file_system_refuses_goes_through_the_cache() {
        assert!(written(3 * AT_ONCE + 1, 1) == bytes(3 * AT_ONCE + 1));
    }
}
