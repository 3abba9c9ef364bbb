use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use selfsame_host::capsule::WriteOptions;

use super::{Client, needs_key, print};
use crate::cli::args::AppendCommand;
use crate::cli::output::{Failure, Output};

/// Longest body of a record, and so of what becomes one.
const MAX_BODY: usize = 1 << 20;
/// Records that are written as one command, and their bytes: what one request to a server holds well.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

pub(super) async fn append(command: AppendCommand, output: Output) -> Result<(), Failure> {
    let AppendCommand {
        capsule,
        mut file,
        lines,
        together,
        after,
        merge,
    } = command;
    needs_key(&capsule.key)?;
    if file.is_empty() {
        file.push(PathBuf::from("-"));
    }
    let mut contents = Contents::open(&file, lines)?;
    let client = Client::open(&capsule, output).await?;
    client
        .with("writing records", output, async |capsule| {
            if after.is_some() {
                capsule.begin(after).await?;
            }
            let mut options = WriteOptions::new().merge(merge);
            if together {
                let parts = contents.all()?;
                let name = capsule.commit(parts, options).await?;
                return print(&[name], output);
            }
            while let Some(batch) = contents.batch()? {
                let names = capsule.append(batch, core::mem::take(&mut options)).await?;
                print(&names, output)?;
            }
            Ok(())
        })
        .await
}

type Source = (PathBuf, Box<dyn BufRead>);

/// What is written, read as it is needed: a record may be a line of a file that is longer than memory
struct Contents {
    sources: std::vec::IntoIter<Source>,
    current: Option<Source>,
    by_line: bool,
}

impl Contents {
    /// Opens all files, so that one that is missing is named before anything is written.
    fn open(paths: &[PathBuf], by_line: bool) -> Result<Self, Failure> {
        let sources: Result<Vec<Source>, Failure> = paths
            .iter()
            .map(|path| {
                Ok((
                    path.clone(),
                    source(path).map_err(|error| Failure::file(path, error))?,
                ))
            })
            .collect();
        Ok(Self {
            sources: sources?.into_iter(),
            current: None,
            by_line,
        })
    }

    /// The next contents, as many as are written at once.
    fn batch(&mut self) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        let batch = self.up_to(BATCH, BATCH_BYTES)?;
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// All contents, as the parts of one record; if they are too many for one, so many that they are refused.
    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        self.up_to(MAX_BODY, MAX_BODY)
    }

    /// The next contents, until they are so many or have so many bytes.
    fn up_to(&mut self, most: usize, most_bytes: usize) -> Result<Vec<Vec<u8>>, Failure> {
        let (mut contents, mut bytes) = (Vec::new(), 0);
        while contents.len() < most
            && bytes < most_bytes
            && let Some(content) = self.next().transpose()?
        {
            bytes += content.len();
            contents.push(content);
        }
        Ok(contents)
    }

    /// The next line of the present file, without its end.
    fn line(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        loop {
            if self.current.is_none() {
                self.current = Some(self.sources.next()?);
            }
            let (path, source) = self.current.as_mut()?;
            let mut line = Vec::new();
            match source.take(MAX_BODY as u64 + 2).read_until(b'\n', &mut line) {
                Ok(0) => self.current = None,
                Ok(_) => {
                    if line.ends_with(b"\n") {
                        line.pop();
                    }
                    return Some(bounded(line, path));
                }
                Err(error) => return Some(Err(Failure::file(path, error))),
            }
        }
    }

    /// The next file.
    fn file(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        let (path, source) = self.sources.next()?;
        let mut content = Vec::new();
        let read = source.take(MAX_BODY as u64 + 1).read_to_end(&mut content);
        Some(match read {
            Ok(_) => bounded(content, &path),
            Err(error) => Err(Failure::file(&path, error)),
        })
    }
}

impl Iterator for Contents {
    type Item = Result<Vec<u8>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.by_line { self.line() } else { self.file() }
    }
}

fn source(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    Ok(if path.as_os_str() == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(std::fs::File::open(path)?))
    })
}

fn bounded(content: Vec<u8>, path: &Path) -> Result<Vec<u8>, Failure> {
    if content.len() > MAX_BODY {
        let why = format_args!("a record has at most {MAX_BODY} bytes: cut it into several");
        return Err(Failure::file(path, why));
    }
    Ok(content)
}
