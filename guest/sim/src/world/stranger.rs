//! Connections from outside the simulation: whoever plays against a core makes their frames by hand.

use selfsame_codec::{Input, PathKind};

use super::World;
use crate::machine::Machine;

impl<M: Machine> World<M> {
    /// Opens an ordered connection to a host, as if dialled from `remote`; returns the host's number for the path.
    pub fn open_from_outside(&mut self, host: usize, remote: &str) -> u32 {
        let called = &mut self.hosts[host];
        called.last_path += 1;
        let path = called.last_path;
        called.outside.insert(path, Vec::new());
        let opened = Input::PathOpened {
            path,
            dial: 0,
            kind: PathKind::Ordered,
            remote,
        };
        self.step(host, &[opened]);
        path
    }

    /// Delivers a frame on such a connection and returns what the host has sent on it since the last call.
    pub fn say_from_outside(&mut self, host: usize, path: u32, frame: &[u8]) -> Vec<Vec<u8>> {
        if self.is_open_outside(host, path) {
            self.step(host, &[Input::Received { path, frame }]);
        }
        self.hear_outside(host, path)
    }

    /// Takes what a host has sent on such a connection.
    pub fn hear_outside(&mut self, host: usize, path: u32) -> Vec<Vec<u8>> {
        let inbox = self.hosts[host].outside.get_mut(&path);
        inbox.map(core::mem::take).unwrap_or_default()
    }

    /// Whether the host has left such a connection open.
    pub fn is_open_outside(&self, host: usize, path: u32) -> bool {
        self.hosts[host].outside.contains_key(&path)
    }

    /// Closes such a connection from outside.
    pub fn close_from_outside(&mut self, host: usize, path: u32) {
        if self.hosts[host].outside.remove(&path).is_some() {
            self.step(host, &[Input::PathClosed { path }]);
        }
    }
}
