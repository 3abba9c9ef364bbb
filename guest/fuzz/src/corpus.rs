//! Inputs in files: one file for each target, one line of hexadecimal digits for each input.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::hex;

/// Longest input that is worth a line in the repository.
pub(crate) const MAX_KEPT_BYTES: usize = 2 * 1024;

fn file(folder: &Path, target: &str) -> PathBuf {
    folder.join(format!("{target}.hex"))
}

/// The inputs of a target; none when there is no file.
pub(crate) fn read(folder: &Path, target: &str) -> io::Result<Vec<Vec<u8>>> {
    let path = file(folder, target);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text).ok_or_else(|| {
            let message = format!("{}: a line is not in hexadecimal digits", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Option<Vec<Vec<u8>>> {
    text.lines().map(hex::decode).collect()
}

/// Reads one input with the name of its target before it.
pub(crate) fn read_one(path: &Path) -> io::Result<(String, Vec<u8>)> {
    let text = fs::read_to_string(path)?;
    text.trim_end()
        .split_once(' ')
        .and_then(|(target, digits)| Some((target.into(), hex::decode(digits)?)))
        .ok_or_else(|| {
            let message = format!(
                "{}: expected a target, a space and hexadecimal digits",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
}

/// Writes the inputs of a target in place of those that were there.
pub(crate) fn write(folder: &Path, target: &str, inputs: &[Vec<u8>]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let text: String = inputs.iter().map(|input| hex::encode(input) + "\n").collect();
    fs::write(file(folder, target), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_inputs() {
        assert_eq!(parse("00ff\n\n"), Some(vec![vec![0, 255], vec![]]));
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(parse("0\n"), None);
    }
}
