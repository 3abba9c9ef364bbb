use alloc::string::String;
use alloc::vec::Vec;

use crate::hex;
use crate::identity::PeerId;
use selfsame_codec::{BatchWriter, Code, LogLevel, Output};
use selfsame_sorted_map::Map;

/// Log records of one code in one second; a flood of bad frames must not become a flood of records.
const RECORDS_PER_SECOND: u32 = 10;
/// Number of the `Transmit` item, which is written in place.
const TRANSMIT: u8 = 1;

#[derive(Default)]
struct Logged {
    total: u64,
    second: u64,
    in_second: u32,
}

/// The batch of outputs, the log and the counters
#[derive(Default)]
pub(super) struct Outbox {
    batch: BatchWriter,
    /// Snapshots stand before everything else.
    snapshots: BatchWriter,
    now_ms: u64,
    logged: Map<Code, Logged>,
}

impl Outbox {
    pub(super) fn clear(&mut self, keep: usize) {
        self.batch.clear(keep);
        self.snapshots.clear(keep);
    }

    pub(super) fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    #[inline(always)]
    pub(super) fn push(&mut self, output: &Output<'_>) {
        output.encode(&mut self.batch);
    }

    pub(super) fn push_snapshot(&mut self, path: u32, snapshot: &[u8]) {
        Output::Snapshot { path, snapshot }.encode(&mut self.snapshots);
    }

    /// Appends a frame to be sent that `write` produces in place; takes it back when `write` fails.
    pub(super) fn transmit(
        &mut self,
        path: u32,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let before = self.batch.len();
        let written = self.batch.item_with_body(TRANSMIT, path, write);
        if written.is_err() {
            self.batch.truncate(before);
        }
        written
    }

    /// Counts an event of this kind, and writes it to the log unless it is too frequent. An empty text stands for the
    /// code's own, which the host knows.
    pub(super) fn log(&mut self, level: LogLevel, code: Code, path: u32, text: &str) {
        if self.count(code) {
            self.push(&Output::Log {
                level,
                code: code.as_u16(),
                path,
                text,
            });
        }
    }

    /// [`Self::log`] of what a peer did.
    pub(super) fn log_peer(&mut self, level: LogLevel, code: Code, text: &str, peer: &PeerId) {
        if self.count(code) {
            let mut line = String::from(text);
            line.push_str(": ");
            hex::push(&mut line, &peer.0);
            self.push(&Output::Log {
                level,
                code: code.as_u16(),
                path: 0,
                text: &line,
            });
        }
    }

    /// Counts an event and tells whether it may be written to the log.
    fn count(&mut self, code: Code) -> bool {
        let entry = self.logged.get_or_insert_with(code, Logged::default);
        entry.total += 1;
        let second = self.now_ms / 1000;
        if entry.second != second {
            entry.second = second;
            entry.in_second = 0;
        }
        entry.in_second += 1;
        entry.in_second <= RECORDS_PER_SECOND
    }

    /// A frame or message from outside was dropped.
    pub(super) fn dropped(&mut self, code: Code, path: u32) {
        self.log(LogLevel::Debug, code, path, "");
    }

    /// How often each code was logged.
    pub(super) fn counters(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.logged
            .iter()
            .map(|(code, logged)| (code.as_u16(), logged.total))
    }

    /// Ends the batch.
    pub(super) fn finish(&mut self, at_ms: u64) -> &[u8] {
        self.push(&Output::Wake { at_ms });
        if self.snapshots.is_empty() {
            return self.batch.as_bytes();
        }
        self.snapshots.append(&self.batch);
        self.snapshots.as_bytes()
    }
}
