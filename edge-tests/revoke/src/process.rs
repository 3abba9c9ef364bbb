//! A member that is a process of `selfsame`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::Instant;

use crate::Outcome;
use crate::network::{Network, program};

/// A process that ends when this is dropped
pub(crate) struct Process {
    child: Child,
    lines: UnboundedReceiver<(Instant, Value)>,
}

impl Process {
    /// Starts a member that joins through another one and serves its number as a name; it reads revocations from a file in its folder.
    pub(crate) fn start(network: &Network, number: u16, bootstrap: &str) -> Outcome<Self> {
        let folder = network.folder(number);
        network.settle(number)?;
        std::fs::write(folder.join("revocations"), network.revoke(&[])?.to_string())?;
        let serve = format!("{}=http://127.0.0.1:1", service(number));
        let mut child = Command::new(program()?)
            .args([
                "--json",
                "node",
                "--end-with-input",
                "--allow-private",
                "--unowned",
                "--data",
                ".",
            ])
            .args(["--certificate", "certificate", "--revocations", "revocations"])
            .args(["--network", &network.name, "--listen", "ws://127.0.0.1:0"])
            .args(["--join", bootstrap, "--serve", &serve])
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, lines) = mpsc::unbounded_channel();
        let output = BufReader::new(child.stdout.take().ok_or("a process has an output")?);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    _ = sender.send((Instant::now(), event));
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// Waits for an event of a kind, about a peer if one is named.
    pub(crate) async fn event(&mut self, kind: &str, peer: Option<&str>) -> Outcome<(Instant, Value)> {
        while let Some((at, event)) = self.lines.recv().await {
            if event["event"] == kind && peer.is_none_or(|peer| event["peer"] == peer) {
                return Ok((at, event));
            }
        }
        Err(format!("a process ended without {kind}").into())
    }

    /// Sends a signal, such as `-HUP`.
    pub(crate) fn signal(&self, name: &str) -> Outcome<()> {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()?;
        if sent.success() {
            Ok(())
        } else {
            Err("kill fails".into())
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The name that a member serves.
pub(crate) fn service(number: u16) -> String {
    format!("member-{number}")
}

/// Puts a list where a process reads it when it is told to.
pub(crate) fn write_revocations(folder: &Path, list: &str) -> Outcome<()> {
    Ok(std::fs::write(folder.join("revocations"), list)?)
}
