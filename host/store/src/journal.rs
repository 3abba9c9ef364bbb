//! The file of a journal: written and on the disk before a commit is acknowledged, and written again from its beginning once the
//! rows in it are in the tree.
//!
//! It grows in steps, with zeros: to write where a file has bytes already takes the disk a fraction of what a new length does. That of a
//! busy store grows in a thread of its own, before the room is needed.
//! Whole blocks are written: of the one in which frames end, what is before their end once more with the frames that follow.

use alloc::sync::Arc;
use core::ops::Range;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};

use selfsame_write_batch::WriteBatch;

use super::StoreError;
use super::aligned::{ALIGNED, Aligned};
use super::direct::{DirectFile, write};
use super::frame::{self, HEADER};

/// The first step, and the largest.
const STEPS: [usize; 2] = [64 << 10, 4 << 20];
/// Zeros that are written at once.
const ZEROS: usize = 256 << 10;
/// With so many bytes a journal is that of a busy store.
const BUSY: usize = 1 << 20;
/// So little room is left when one grows that is: what comes while it does fits.
const LITTLE: usize = 2 << 20;
/// Memory for frames that is used again: more than a busy store writes at once, and less than a large commit has.
const KEPT: usize = 4 << 20;

/// A journal
#[derive(Debug)]
pub(crate) struct Journal {
    file: DirectFile,
    /// Bytes of it that can be written again, whole blocks.
    len: usize,
    /// Bytes of frames that are on the disk since it began anew.
    written: usize,
    /// Bytes of frames that are there or on their way.
    end: usize,
    /// What the block in which they end has before that.
    tail: Vec<u8>,
    /// How it grows meanwhile.
    growth: Option<Growth>,
}

/// Zeros that are written behind what a journal has
#[derive(Debug)]
struct Growth {
    /// Bytes that it has then.
    len: usize,
    /// None once it was waited for.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Growth {
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for it; whether the zeros are there.
    fn wait(&mut self) -> bool {
        let written = self.thread.take().map(JoinHandle::join);
        matches!(written, Some(Ok(Ok(()))))
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        // Nobody writes to a file that somebody else may open next.
        self.wait();
    }
}

impl Journal {
    /// Creates one, empty.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be created, or one is there.
    pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
        let created = File::create_new(path);
        created.map(drop).map_err(|error| StoreError::io(path, error))
    }

    /// Opens one; its bytes.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or is not there.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<u8>), StoreError> {
        let opened = fs::read(path).and_then(|bytes| Ok((DirectFile::open(path)?, bytes)));
        let (file, bytes) = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::corrupt(path, "it is missing"),
            _ => StoreError::io(path, error),
        })?;
        let journal = Self {
            file,
            len: 0,
            written: 0,
            end: 0,
            tail: Vec::new(),
            growth: None,
        };
        Ok((journal, bytes))
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether something is on the disk since it began anew.
    pub(crate) fn is_used(&self) -> bool {
        self.written > 0
    }

    /// Makes room for a frame of so many bytes of rows, and for what vouches for it.
    ///
    /// # Errors
    /// [`StoreError`] when the disk has none; the next try may find some.
    pub(crate) fn grow(&mut self, rows: usize) -> Result<(), StoreError> {
        let needed = self.end + HEADER + rows + HEADER;
        if needed > self.len || self.growth.as_ref().is_some_and(Growth::has_ended) {
            self.rest();
        }
        let [least, most] = STEPS;
        if needed > self.len {
            let goal = (needed + needed.clamp(least, most)).next_multiple_of(ALIGNED);
            self.fill(goal)?;
        }
        if self.growth.is_none() && self.len > BUSY && self.len - needed < LITTLE {
            self.growth = self.begin_growth(self.len + most);
        }
        Ok(())
    }

    fn fill(&mut self, goal: usize) -> Result<(), StoreError> {
        // The first write shows how the file can be written.
        let zeros = Aligned::zeros(ALIGNED.min(goal - self.len));
        let filled = self.file.write(self.len as u64, zeros.bytes());
        let filled = filled.and_then(|()| fill(self.file.file(), self.len + zeros.len()..goal));
        filled.map_err(|error| StoreError::io(self.path(), error))?;
        self.len = goal;
        Ok(())
    }

    /// Nothing if there are no more threads: then it grows when it must.
    fn begin_growth(&self, goal: usize) -> Option<Growth> {
        let (file, len) = (Arc::clone(self.file.file()), self.len);
        let begun = thread::Builder::new()
            .name("selfsame-grow".into())
            .spawn(move || fill(&file, len..goal));
        Some(Growth {
            len: goal,
            thread: Some(begun.ok()?),
        })
    }

    /// Waits until nothing is written but what is asked for.
    pub(crate) fn rest(&mut self) {
        if let Some(mut growth) = self.growth.take()
            && growth.wait()
        {
            self.len = growth.len;
        }
    }

    /// A frame of batches, for which there is room, that follows the ones before. They are copied to `memory`.
    pub(crate) fn frame(
        &mut self,
        batches: &[WriteBatch],
        mut memory: Aligned,
        (salt, number): (u64, u64),
    ) -> Pending {
        let rows: usize = batches.iter().map(WriteBatch::len).sum();
        let needed = self.tail.len() + HEADER + rows + ALIGNED;
        if memory.room() < needed {
            // What comes next is hardly ever much more.
            memory = Aligned::with_room(needed + needed / 2);
        }
        memory.clear();
        memory.push(&self.tail);
        memory.push(&[0; HEADER]);
        batches.iter().for_each(|batch| memory.push(batch.as_bytes()));
        frame::seal(&mut memory.bytes_mut()[self.tail.len()..], salt, number);
        let mut vouching = [0; HEADER];
        frame::seal(&mut vouching, salt, number + 1);
        let at = self.end - self.tail.len();
        self.end += HEADER + rows;
        let len = memory.len();
        self.tail.clear();
        self.tail
            .extend_from_slice(&memory.bytes()[len - len % ALIGNED..]);
        Pending {
            file: Arc::clone(self.file.file()),
            at: at as u64,
            frames: memory,
            vouching,
        }
    }

    /// Takes note that all frames are on the disk.
    pub(crate) fn synced(&mut self) {
        self.written = self.end;
    }

    /// Begins anew: its rows are in the tree.
    pub(crate) fn restart(&mut self) {
        (self.written, self.end) = (0, 0);
        self.tail.clear();
    }

    /// Empties the file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn clear(&mut self) -> Result<(), StoreError> {
        self.rest();
        self.restart();
        self.len = 0;
        let cleared = self.file.set_len(0);
        cleared.map_err(|error| StoreError::io(self.path(), error))
    }
}

/// Writes zeros where a file has nothing yet.
fn fill(file: &File, place: Range<usize>) -> io::Result<()> {
    let zeros = Aligned::zeros(ZEROS.min(place.len()));
    for at in place.clone().step_by(ZEROS) {
        write(file, at as u64, &zeros.bytes()[..ZEROS.min(place.end - at)])?;
    }
    Ok(())
}

/// A frame that is to be written, in any thread
#[derive(Debug)]
pub(crate) struct Pending {
    file: Arc<File>,
    /// Where the block begins in which it does.
    at: u64,
    /// That block from there on, and what follows.
    frames: Aligned,
    /// A frame that only vouches for it and those before, so that damage to the last one is seen even if no other follows.
    vouching: [u8; HEADER],
}

/// What vouches for the frames that were written last, unless others follow them: the next one takes its place
#[derive(Debug, Default)]
pub(crate) struct Last {
    /// Where it goes; nowhere once it is there.
    place: Option<(Arc<File>, u64)>,
    /// The block in which those frames end, with it behind them.
    block: Aligned,
}

impl Pending {
    /// Puts them on the disk, for which `last` is to vouch then. What came of it, and their memory, to be used again; after an error
    /// nobody knows what is there.
    pub(crate) fn write(mut self, last: &mut Last) -> (io::Result<()>, Aligned) {
        last.place = None;
        let len = self.frames.len();
        self.frames.pad();
        let written = write(&self.file, self.at, self.frames.bytes()).and_then(|()| self.file.sync_data());
        if written.is_ok() {
            last.follow(&self, len);
        }
        let memory = if self.frames.room() > KEPT {
            Aligned::default()
        } else {
            self.frames
        };
        (written, memory)
    }
}

impl Last {
    /// Is to vouch for frames of so many bytes.
    fn follow(&mut self, written: &Pending, len: usize) {
        let begin = len - len % ALIGNED;
        if self.block.room() == 0 {
            self.block = Aligned::with_room(2 * ALIGNED);
        }
        self.block.clear();
        self.block.push(&written.frames.bytes()[begin..len]);
        self.block.push(&written.vouching);
        self.block.pad();
        self.place = Some((Arc::clone(&written.file), written.at + begin as u64));
    }

    /// Whether there is nothing to vouch for.
    pub(crate) fn is_vouched_for(&self) -> bool {
        self.place.is_none()
    }

    /// Vouches for them.
    pub(crate) fn vouch(&mut self) {
        if let Some((file, at)) = self.place.take() {
            // What it is for is on the disk already.
            _ = write(&file, at, self.block.bytes());
        }
    }
}
