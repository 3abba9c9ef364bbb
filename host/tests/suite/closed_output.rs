//! Whoever reads the output may close it at any moment, as `head` does: a command ends there, quietly and in order.
#![cfg(unix)]

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, pipe};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::command;

const NO_ID: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn selfsame(folder: &Path, line: &str) -> Command {
    let mut command = command::selfsame(folder);
    command.args(line.split(' '));
    command
}

/// The writing end of a pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Runs a command whose output is closed from the beginning.
fn with_closed_output(folder: &Path, line: &str) -> Output {
    selfsame(folder, line)
        .stdout(closed())
        .stderr(Stdio::piped())
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("text")
}

/// A node that a test has started; it is killed when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended in order when all is well.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_command_whose_output_is_closed_ends_quietly_after_its_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    for line in [
        "--help",
        "--version",
        "id new --network t --data d",
        "id show --network t --data d --json",
    ] {
        let output = with_closed_output(path, line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{line}");
    }
    assert!(path.join("d/identity.key").exists());
}

#[test]
fn an_error_is_told_by_the_exit_code_when_the_standard_error_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let find = format!("find x --network t --unowned --log trace --join ws://127.0.0.1:1#{NO_ID}");
    for (line, exit) in [
        ("frobnicate", 2),
        ("id show --network t --data none", 2),
        (find.as_str(), 3),
    ] {
        let status = selfsame(folder.path(), line)
            .stdout(closed())
            .stderr(closed())
            .status()
            .expect("the program runs");
        assert_eq!(status.code(), Some(exit), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("the device");
    let output = selfsame(folder.path(), "id new --network t --data d")
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).starts_with("selfsame: the standard output: "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_node_whose_output_is_closed_leaves_the_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let listen = "node --network t --listen ws://127.0.0.1:0 --allow-private --json --data";
    let mut first = Running(
        selfsame(path, &format!("{listen} one"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs"),
    );
    let mut lines = BufReader::new(first.0.stdout.take().expect("its output")).lines();
    let line = lines.next().expect("a line").expect("text");
    let started: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let (address, id) = (&started["addresses"][0], &started["id"]);
    let join = format!(
        "{}#{}",
        address.as_str().expect("an address"),
        id.as_str().expect("an id")
    );

    let mut second = Running(
        selfsame(path, &format!("{listen} two --join {join}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs"),
    );
    // One line is read, as by `head -1`; the next one finds the pipe closed: at the latest that somebody has connected.
    let mut output = BufReader::new(second.0.stdout.take().expect("its output"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    drop(output);
    let started: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let join = format!(
        "{}#{}",
        started["addresses"][0].as_str().expect("an address"),
        started["id"].as_str().expect("an id")
    );
    let found = selfsame(path, &format!("find nothing --network t --unowned --join {join}")).output();
    assert!(!found.expect("the program runs").status.success());
    let mut errors = String::new();
    let mut stderr = second.0.stderr.take().expect("its errors");
    stderr.read_to_string(&mut errors).expect("text");
    assert_eq!(second.0.wait().expect("an end").code(), Some(0), "{errors}");
    assert_eq!(errors.lines().find(|line| line.contains("panicked")), None);

    // The first node hears the farewell: its ring is of one again.
    let alone = lines.map(|line| line.expect("text")).find(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
        message["event"] == "disconnected"
    });
    assert!(alone.is_some());
}
