//! Whether a file is as it was written.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use selfsame_write_batch::{LENGTHS, len_behind};
use xxhash_rust::xxh3::Xxh3Default;

use super::Listed;
use super::draft::MARKED;

/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Reads all of a file.
///
/// # Errors
/// Of [`ErrorKind::InvalidData`] when it is another one than is listed.
pub(super) fn check(path: &Path, listed: &Listed) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut sums = Xxh3Default::new();
    let mut marks = Vec::new();
    let mut at = 0;
    for row in 0..listed.rows {
        if row.is_multiple_of(MARKED) {
            marks.extend_from_slice(&u64::to_le_bytes(at));
        }
        let (len, sum) = sum_of_row(&mut reader)?;
        sums.update(&sum.to_le_bytes());
        at += len;
    }
    let mut rest = Vec::new();
    reader.take(marks.len() as u64 + 1).read_to_end(&mut rest)?;
    if at != listed.len || sums.digest() != listed.sum || rest != marks {
        return Err(invalid("its checksum is another one"));
    }
    Ok(())
}

/// The length and the sum of the row that comes next.
fn sum_of_row(reader: &mut impl Read) -> io::Result<(u64, u64)> {
    let mut lengths = [0; LENGTHS];
    reader.read_exact(&mut lengths)?;
    let rest = len_behind(lengths);
    let mut hasher = Xxh3Default::new();
    hasher.update(&lengths);
    let mut left = reader.take(rest);
    let mut buffer = [0; 4096];
    loop {
        match left.read(&mut buffer)? {
            0 => break,
            len => hasher.update(&buffer[..len]),
        }
    }
    if left.limit() > 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((LENGTHS as u64 + rest, hasher.digest()))
}
