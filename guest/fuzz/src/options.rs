//! The command line.

use std::io;
use std::path::PathBuf;

use crate::targets::{self, Target};

/// What to type.
pub(crate) const USAGE: &str = "usage: selfsame-fuzz [run | replay FILE | minimise FOLDER...] [--runs N] [--seed N] \
[--targets NAME,...] [--corpus FOLDER] [--grow FOLDER]";

/// What to do
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Fuzz.
    Run,
    /// Run one input: a file with the name of its target, a space and the input in hexadecimal digits.
    Replay {
        /// The file.
        file: PathBuf,
    },
    /// Make the corpus small, with inputs from these folders in it.
    Minimise {
        /// Folders like that of the corpus.
        candidates: Vec<PathBuf>,
    },
}

/// What was asked for
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) command: Command,
    /// New inputs to run.
    pub(crate) runs: u64,
    /// What all inputs follow from.
    pub(crate) seed: u64,
    /// Where the known inputs are.
    pub(crate) corpus: PathBuf,
    /// Where to write inputs that reached new points.
    pub(crate) grow: Option<PathBuf>,
    /// The targets that were named; none stands for all.
    pub(crate) names: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Command::Run,
            runs: 100_000,
            seed: 1,
            corpus: "guest/fuzz/corpus".into(),
            grow: None,
            names: Vec::new(),
        }
    }
}

impl Options {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = Vec::new();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") {
                words.push(argument);
                continue;
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{argument} needs a value"))?;
            let number = || {
                let number = value.replace('_', "").parse::<u64>();
                number.map_err(|_| format!("{argument} needs a number, not {value}"))
            };
            match argument.as_str() {
                "--runs" => options.runs = number()?,
                "--seed" => options.seed = number()?,
                "--corpus" => options.corpus = value.into(),
                "--grow" => options.grow = Some(value.into()),
                "--targets" => options.names = value.split(',').map(String::from).collect(),
                _ => return Err(format!("there is no option {argument}")),
            }
        }
        options.command = command(&words)?;
        Ok(options)
    }

    /// The targets that were named, or all.
    pub(crate) fn targets(&self) -> io::Result<Vec<Box<dyn Target>>> {
        let mut all = targets::all();
        if self.names.is_empty() {
            return Ok(all);
        }
        let known: Vec<&str> = all.iter().map(|target| target.name()).collect();
        if let Some(name) = self.names.iter().find(|name| !known.contains(&name.as_str())) {
            let message = format!("there is no target {name}; there are: {}", known.join(", "));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        all.retain(|target| self.names.iter().any(|name| name == target.name()));
        Ok(all)
    }
}

fn command(words: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["run"] => Ok(Command::Run),
        ["replay", file] => Ok(Command::Replay { file: file.into() }),
        ["minimise", ref folders @ ..] => Ok(Command::Minimise {
            candidates: folders.iter().map(PathBuf::from).collect(),
        }),
        _ => Err(format!("what is meant by {}?", words.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--runs 10_000_000 --seed 7 --targets cbor,frames").expect("sound");
        assert_eq!(
            (options.runs, options.seed, options.command == Command::Run),
            (10_000_000, 7, true)
        );
        assert_eq!(options.targets().map(|targets| targets.len()).ok(), Some(2));
        let replay = parse("replay a/b").expect("sound");
        assert_eq!(replay.command, Command::Replay { file: "a/b".into() });
    }

    #[test]
    fn mistakes_are_named() {
        for (line, what) in [
            ("--runs", "--runs needs a value"),
            ("--runs many", "--runs needs a number, not many"),
            ("--speed 1", "there is no option --speed"),
            ("replay", "what is meant by replay?"),
            ("walk", "what is meant by walk?"),
        ] {
            assert_eq!(parse(line).err().as_deref(), Some(what), "{line}");
        }
        let unknown = parse("--targets nothing").expect("sound").targets();
        assert!(unknown.is_err_and(|error| error.to_string().starts_with("there is no target nothing")));
    }
}
