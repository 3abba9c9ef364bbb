//! Hibernating paths: their sessions survive the loss of the host's memory.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, PathKind, Reader};

use super::Node;
use super::connection::Connection;
use super::paths::{Path, RELAY_PATHS, Way};
use crate::admission::KNOWS_CLOSED;
use crate::boot::BootId;
use crate::channel::Session;

/// What a platform keeps with a hibernating socket, less what the host adds.
const MAX_SNAPSHOT: usize = 1900;

impl Node {
    /// Gives the host a snapshot of each hibernating path whose keys or counters have changed.
    pub(super) fn save_paths(&mut self) {
        for number in core::mem::take(&mut self.paths.unsaved) {
            self.save_path(number);
        }
    }

    #[inline(never)]
    fn save_path(&mut self, number: u32) {
        let Some(path) = self.paths.table.get_mut(&number) else {
            return;
        };
        path.unsaved = false;
        let mut snapshot = self.identity.boot().0.to_vec();
        // The newest sessions are those in use; a path carries more than one only while they change.
        for index in path.connections.iter().rev() {
            let before = snapshot.len();
            if let Some(connection) = self.connections.get(index) {
                index.write(&mut snapshot);
                connection.save(&mut snapshot);
            }
            if snapshot.len() > MAX_SNAPSHOT {
                snapshot.truncate(before);
            }
        }
        self.out.push_snapshot(number, &snapshot);
    }

    /// A path is back with what was saved of it.
    pub(super) fn path_resumed(&mut self, number: u32, remote: &str, snapshot: &[u8]) -> Result<(), Code> {
        if number >= RELAY_PATHS || self.paths.table.contains_key(&number) {
            return Err(Code::UnknownPath);
        }
        let mut reader = Reader::new(snapshot);
        let boot = BootId(reader.field().map_err(|_| Code::BadInput)?);
        let mut connections = Vec::new();
        while !reader.is_empty() {
            let index: u32 = reader.field().map_err(|_| Code::BadInput)?;
            let connection =
                Connection::load(&mut reader, number, self.now_ms).map_err(|_| Code::BadInput)?;
            connections.push((index, connection));
        }
        self.wake_as(boot);
        self.paths.table.insert(
            number,
            Path::new(Way::Host(PathKind::Hibernating), remote, None, self.now_ms),
        );
        for (index, connection) in connections {
            if !self.connections.contains_key(&index) {
                self.establish(index, connection);
            }
        }
        if KNOWS_CLOSED {
            // Its peer may have been revoked while it slept.
            self.shut_out();
        }
        Ok(())
    }
}

impl Connection {
    /// Appends what must survive: the session, and the next numbers, so that none is used twice.
    fn save(&self, out: &mut Vec<u8>) {
        self.streams.next_number().write(out);
        self.next_request.write(out);
        self.session.save(out);
    }

    fn load(reader: &mut Reader<'_>, path: u32, now_ms: u64) -> Result<Self, Malformed> {
        let next_stream = reader.field()?;
        let next_request = reader.field()?;
        let mut connection = Self::new(Session::load(reader)?, path, true, None, now_ms);
        connection.streams.skip_to(next_stream);
        connection.next_request = next_request;
        Ok(connection)
    }
}
