//! The program while it runs a node.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
#[cfg(unix)]
use std::process::Command;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::command;

/// A node that runs until it is dropped, and what it prints.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = command::selfsame(folder)
            .args(arguments)
            .args(["--json", "--end-with-input"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// The next message of a kind.
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        for line in self.lines.by_ref() {
            let message: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            if message["event"] == kind {
                return message;
            }
        }
        panic!("it ended without {kind}");
    }

    /// Sends a signal, such as `-TERM`.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Lets the node end in order.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.event("left");
        self.exit()
    }

    /// Ends what is no node.
    pub(crate) fn exit(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
