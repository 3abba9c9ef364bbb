//! Frames of a journal: `salt u64 | number u64 | rows' length u32 | CRC-32 u32 | rows`, all little-endian.
//!
//! A frame is written when all before it are on the disk, so that one that is there vouches for those. The salt is drawn for
//! each store and told nobody: what others have stored cannot look like a frame.

use core::ops::Range;

/// Bytes before the rows.
pub(crate) const HEADER: usize = 24;
/// Where the checksum stands, which is of all but itself.
const SUM: Range<usize> = 20..24;

/// A frame that is whole
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its place in the order of all frames.
    pub(crate) number: u64,
    /// Where its rows are; nowhere in one that only vouches for those before.
    pub(crate) rows: Range<usize>,
}

fn sum(header: &[u8], rows: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..SUM.start]);
    hasher.update(rows);
    hasher.finalize().to_le_bytes()
}

/// Writes the header of a frame over its first bytes.
pub(crate) fn seal(frame: &mut [u8], salt: u64, number: u64) {
    let (header, rows) = frame.split_at_mut(HEADER);
    header[..8].copy_from_slice(&salt.to_le_bytes());
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&(rows.len() as u32).to_le_bytes());
    let sum = sum(header, rows);
    header[SUM].copy_from_slice(&sum);
}

/// The frame that begins here, if it is whole.
fn frame_at(bytes: &[u8], at: usize) -> Option<Frame> {
    let header: &[u8; HEADER] = bytes.get(at..)?.first_chunk()?;
    let [_, number, lengths] = header.as_chunks::<8>().0 else {
        return None;
    };
    let rows_len = u32::from_le_bytes(*lengths.first_chunk()?) as usize;
    let rows = at + HEADER..(at + HEADER).checked_add(rows_len)?;
    (sum(header, bytes.get(rows.clone())?) == header[SUM]).then_some(Frame {
        number: u64::from_le_bytes(*number),
        rows,
    })
}

/// All whole frames with this salt, wherever they are.
pub(crate) fn find(bytes: &[u8], salt: u64) -> Vec<Frame> {
    let salt = salt.to_le_bytes();
    let mut frames = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= HEADER) {
        let found = if rest.starts_with(&salt) {
            frame_at(bytes, at)
        } else {
            None
        };
        match found {
            Some(frame) => {
                at = frame.rows.end;
                frames.push(frame);
            }
            None => at += 1,
        }
    }
    frames
}
