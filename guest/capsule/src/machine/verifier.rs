//! The verification of an export file behind the boundary.

use selfsame_codec::capsule::Input;
use selfsame_codec::{BatchWriter, Code, Item};

use super::archive::{damaged, verified};
use crate::file::Verifier;

/// A verifier, and whether it has said that the file is damaged
#[derive(Debug, Default)]
pub(super) struct VerifierMachine {
    verifier: Verifier,
    is_told: bool,
}

impl VerifierMachine {
    /// Takes what comes next of the file.
    pub(super) fn take(&mut self, item: Item<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        let outcome = match Input::decode(item) {
            Ok(Input::Chunk { bytes }) => self.verifier.push(bytes, &mut |_| {}).map(|()| None),
            Ok(Input::End {}) => self.verifier.finish().map(Some),
            _ => return Err(Code::BadInput),
        };
        match outcome {
            Ok(None) => {}
            Ok(Some(summary)) => verified(&summary, out),
            Err(damage) if !self.is_told => {
                self.is_told = true;
                damaged(damage, out);
            }
            Err(_) => {}
        }
        Ok(())
    }
}
