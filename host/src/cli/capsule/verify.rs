use std::fs::File;
use std::io::{Chain, Cursor, Read};

use selfsame_host::capsule::{ExportInfo, verify_export, verify_proof};

use super::archive::export_value;
use super::look::{authored, header_value};
use crate::cli::args::VerifyCommand;
use crate::cli::output::{Failure, Output};

/// What a proof file begins with.
const PROOF: &[u8] = b"selfsame proof 1\n";
/// Longest proof file.
const MAX_PROOF_FILE: u64 = (4 << 20) + (2 << 20) + (1 << 16);

pub(super) fn verify(command: &VerifyCommand, output: Output) -> Result<(), Failure> {
    let path = &command.file;
    let unreadable = |error: std::io::Error| Failure::file(path, error);
    let file: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    let (is_proof, file) = begin(file).map_err(unreadable)?;
    if is_proof {
        let mut bytes = Vec::new();
        file.take(MAX_PROOF_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let proof = verify_proof(&bytes)?;
        let mut value = authored(header_value(proof.record, &proof.header), proof.authorship);
        value["capsule"] = proof.capsule.to_string().into();
        value["body"] = proof.body.is_some().into();
        let text = format_args!(
            "record {} of capsule {} is proven, {}",
            proof.record, proof.capsule, proof.authorship
        );
        return output.print(text, &value);
    }
    let export = verify_export(file)?;
    let ExportInfo {
        capsule,
        records,
        holes,
        ..
    } = export;
    let missing = match holes {
        0 => String::new(),
        holes => format!(", {holes} that they point to are not there"),
    };
    output.print(
        format_args!("capsule {capsule}: {records} records are proven{missing}"),
        &export_value(&export),
    )
}

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Whether a file is a proof file, and the file from its beginning.
fn begin<R: Read>(mut file: R) -> std::io::Result<(bool, Whole<R>)> {
    let mut start = Vec::new();
    file.by_ref().take(PROOF.len() as u64).read_to_end(&mut start)?;
    Ok((start == PROOF, Cursor::new(start).chain(file)))
}
