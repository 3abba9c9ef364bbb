//! A file whose bytes go to the disk past the system's cache, where the system can do that. Much is written that is read late if
//! ever: in the cache it would take a page for each 4 KiB, and push out what is read often.

use alloc::sync::Arc;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file that is written in whole blocks from aligned memory
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: Arc<File>,
    path: PathBuf,
}

impl DirectFile {
    /// Creates it, or empties the one that is there.
    ///
    /// # Errors
    /// What the system says, here and in all that follows.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::open_with(OpenOptions::new().write(true).create(true).truncate(true), path)
    }

    /// Opens one that is there.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(OpenOptions::new().write(true), path)
    }

    fn open_with(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        let file = match past_the_cache(options).open(path) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => options.open(path)?,
            opened => opened?,
        };
        Ok(Self {
            file: Arc::new(file),
            path: path.into(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to be written in another thread: only once [`Self::write`] has shown how it can be.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Writes whole blocks at a place that is a multiple of one.
    pub(crate) fn write(&mut self, at: u64, blocks: &[u8]) -> io::Result<()> {
        match write(&self.file, at, blocks) {
            // A file system that takes such a file may yet refuse such a write.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                self.file = Arc::new(OpenOptions::new().write(true).open(&self.path)?);
                write(&self.file, at, blocks)
            }
            written => written,
        }
    }

    /// Cuts the file, or fills it up with zeros.
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Waits until the disk has all of it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Writes bytes at a place of a file; several threads may, each at places of its own.
#[cfg(unix)]
pub(crate) fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
pub(crate) fn write(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
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

    #[test]
    fn what_the_file_system_refuses_goes_through_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::create(&path).unwrap();
        let bytes: Vec<u8> = (0..10_001).map(|at| (at % 251) as u8).collect();
        file.write(0, &bytes[..5000]).unwrap();
        file.write(5000, &bytes[5000..]).unwrap();
        file.sync().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
