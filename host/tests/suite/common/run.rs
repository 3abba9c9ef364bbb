//! The program, run to its end.

use std::path::Path;
use std::process::Output;

use super::command;

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    command::selfsame(folder)
        .args(arguments)
        .output()
        .expect("the program runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone())
        .expect("text")
        .trim_end()
        .to_owned()
}

/// The standard error without what is told on a slow machine only: how long something takes.
pub(crate) fn stderr(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    text.lines()
        .filter(|line| !line.ends_with(" s)"))
        .map(|line| line.to_owned() + "\n")
        .collect()
}

/// Runs a command that succeeds and returns what it prints.
pub(crate) fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

/// Runs a command that fails with one line that holds each of the words.
pub(crate) fn fail(folder: &Path, arguments: &[&str], exit: i32, words: &[&str]) {
    let output = run(folder, arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: one line, not\n{text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: no {word:?} in {text}");
    }
    assert_eq!(stdout(&output), "", "{arguments:?}");
}
