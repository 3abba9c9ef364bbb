//! Whole capsules as files: written out of what a replica gives, verified, and stored at one.

use std::io::Read;

use bytes::Bytes;
use selfsame_codec::capsule::{ExporterConfig, IMPORTER_CONFIG, Input, Output, VERIFIER_CONFIG};
use selfsame_codec::{BatchReader, BatchWriter};

use super::{CapsuleName, Peer};
use crate::core::{Core, CoreModule};
use crate::error::Error;

/// Most bytes of a file that are given to the module at a time.
const CHUNK: usize = 1 << 20;

/// What an export file holds
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportInfo {
    /// The capsule.
    pub capsule: CapsuleName,
    /// How many records there are.
    pub records: u64,
    /// How many records are pointed to and not there.
    pub holes: u64,
}

/// A capsule on its way from a replica into a file, as it is when this begins
///
/// Whoever has the same proven records gives the same bytes. What the replica gives is verified; it can leave out what is newest.
#[derive(Debug)]
pub struct Export {
    core: Core,
    peer: Peer,
    /// What the module waits for, or where it ended.
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Asking { tag: u32, message: Bytes },
    Done(ExportInfo),
}

impl Export {
    /// Begins an export out of what a replica has.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the module cannot be used.
    pub fn begin(capsule: CapsuleName, from: &Peer) -> Result<Self, Error> {
        let capsule = capsule.0;
        let mut core = start(ExporterConfig { capsule }.encode())?;
        let said = step(&mut core, None)?;
        let (tag, message) = said.ask.ok_or_else(Error::version_skew)?;
        let stage = Stage::Asking { tag, message };
        Ok(Self {
            core,
            peer: from.clone(),
            stage,
        })
    }

    /// The next bytes of the file; nothing at its end.
    ///
    /// # Errors
    /// [`Error::Core`] when the replica does not give the capsule, or gives what is false.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let mut pieces = Vec::new();
        while let Stage::Asking { tag, message } = &self.stage {
            let response = self.peer.ask(message.clone()).await?;
            let answered = Input::Answered {
                tag: *tag,
                ok: true,
                response: &response,
            };
            let said = step(&mut self.core, Some(&answered))?;
            pieces.extend_from_slice(&said.bytes);
            self.stage = match (said.ask, said.end) {
                (Some((tag, message)), None) => Stage::Asking { tag, message },
                (None, Some(info)) => Stage::Done(info),
                _ => return Err(Error::version_skew()),
            };
            if pieces.len() >= CHUNK / 16 {
                break;
            }
        }
        Ok((!pieces.is_empty()).then(|| pieces.into()))
    }

    /// What the file holds, once all of it was given.
    #[must_use]
    pub fn info(&self) -> Option<ExportInfo> {
        match self.stage {
            Stage::Asking { .. } => None,
            Stage::Done(info) => Some(info),
        }
    }
}

/// A capsule on its way from a file to a replica
///
/// Only what is verified is stored; of a file that is wrong somewhere, what comes before that.
#[derive(Debug)]
pub struct Import {
    core: Core,
    peer: Peer,
}

impl Import {
    /// Begins an import into a replica.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the module cannot be used.
    pub fn begin(to: &Peer) -> Result<Self, Error> {
        Ok(Self {
            core: start(IMPORTER_CONFIG.to_vec())?,
            peer: to.clone(),
        })
    }

    /// Takes the next bytes of the file, and returns when what they complete is stored.
    ///
    /// # Errors
    /// [`Error::Core`] says what is wrong first in the file and at which offset, or what the replica refuses.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for bytes in bytes.chunks(CHUNK) {
            self.feed(&Input::Chunk { bytes }).await?;
        }
        Ok(())
    }

    /// Says that the file ends here; what it held, all of which is stored.
    ///
    /// # Errors
    /// As [`Self::push`]; `BadFile` for a file that is cut short.
    pub async fn finish(mut self) -> Result<ExportInfo, Error> {
        let end = self.feed(&Input::End {}).await?;
        end.ok_or_else(Error::version_skew)
    }

    async fn feed(&mut self, input: &Input<'_>) -> Result<Option<ExportInfo>, Error> {
        let mut said = step(&mut self.core, Some(input))?;
        while let Some((tag, message)) = said.ask {
            let response = self.peer.ask(message).await?;
            let answered = Input::Answered {
                tag,
                ok: true,
                response: &response,
            };
            said = step(&mut self.core, Some(&answered))?;
        }
        Ok(said.end)
    }
}

/// Verifies an export file of any length while it is read. Nobody is asked.
///
/// # Errors
/// [`Error::Core`] says what is wrong with it, and at which offset; [`Error::Io`] when it cannot be read.
pub fn verify_export(mut file: impl Read) -> Result<ExportInfo, Error> {
    let mut core = start(VERIFIER_CONFIG.to_vec())?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk);
        let input = match read.map_err(|error| Error::io("the export file", error))? {
            0 => Input::End {},
            read => Input::Chunk {
                bytes: &chunk[..read],
            },
        };
        let is_whole = matches!(input, Input::End {});
        match step(&mut core, Some(&input))?.end {
            Some(info) => return Ok(info),
            None if is_whole => return Err(Error::version_skew()),
            None => {}
        }
    }
}

fn start(config: Vec<u8>) -> Result<Core, Error> {
    let mut core = CoreModule::capsules()?.instantiate()?;
    core.create_encoded(config)?;
    Ok(core)
}

/// What the module says in one step
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    ask: Option<(u32, Bytes)>,
    end: Option<ExportInfo>,
}

fn step(core: &mut Core, input: Option<&Input<'_>>) -> Result<Said, Error> {
    let mut batch = BatchWriter::new();
    if let Some(input) = input {
        input.encode(&mut batch);
    }
    let outputs = core.step(0, batch.as_bytes())?;
    let mut said = Said::default();
    for item in BatchReader::new(&outputs).map_err(|_| Error::version_skew())? {
        match Output::decode(item).map_err(|_| Error::version_skew())? {
            Output::Piece { bytes } => said.bytes.extend_from_slice(bytes),
            Output::Ask { tag, message, .. } => said.ask = Some((tag, Bytes::copy_from_slice(message))),
            Output::Verified {
                capsule,
                records,
                holes,
            } => {
                said.end = Some(ExportInfo {
                    capsule: CapsuleName(capsule),
                    records,
                    holes,
                });
            }
            Output::Damaged { code, at } => return Err(Error::at(code, at)),
            _ => return Err(Error::version_skew()),
        }
    }
    Ok(said)
}
