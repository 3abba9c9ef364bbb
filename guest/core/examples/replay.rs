//! Replays a recorded script on the core as native code: `replay SCRIPT TRANSCRIPT`.
//!
//! ```text
//! script:     { operation u8 | slot u8 | length u32 | payload }
//! transcript: { length u32 | bytes }, one for each operation: what the core answered; for `create` one byte, 1 if
//!             there is a handle
//! ```
//! Every runtime replays the same script; a transcript that differs in one byte is a bug.

extern crate alloc;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::{env, fs};

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

/// `derive` and `verify` as the wasm exports them.
#[path = "../../wasm/src/family.rs"]
mod family;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [script, transcript] = arguments.as_slice() else {
        eprintln!("usage: replay SCRIPT TRANSCRIPT");
        return ExitCode::from(2);
    };
    let replayed = fs::read(script)
        .map_err(|error| format!("{script}: {error}"))
        .and_then(|script| replay(&script))
        .and_then(|answers| fs::write(transcript, answers).map_err(|error| format!("{transcript}: {error}")));
    match replayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(script: &[u8]) -> Result<Vec<u8>, String> {
    let mut reader = Reader::new(script);
    let mut nodes = BTreeMap::new();
    let mut transcript = Vec::new();
    while !reader.is_empty() {
        let (operation, slot, payload) =
            record(&mut reader).map_err(|_| "the script ends within a record")?;
        answer(&mut nodes, operation, slot, payload)?
            .as_slice()
            .write(&mut transcript);
    }
    Ok(transcript)
}

fn record<'a>(reader: &mut Reader<'a>) -> Result<(u8, u8, &'a [u8]), Malformed> {
    Ok((reader.field()?, reader.field()?, reader.field()?))
}

fn answer(
    nodes: &mut BTreeMap<u8, Node>,
    operation: u8,
    slot: u8,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    match operation {
        1 => {
            let node = Node::new(payload, &Parameters::DEFAULT);
            let has_handle = node.is_ok();
            if let Ok(node) = node {
                nodes.insert(slot, node);
            }
            Ok(vec![u8::from(has_handle)])
        }
        2 => match nodes.get_mut(&slot) {
            Some(node) => Ok(node.step(payload).to_vec()),
            None => Err(format!("the script names a slot {slot} before it is created")),
        },
        3 => {
            nodes.remove(&slot);
            Ok(Vec::new())
        }
        4 => Ok(family::derive(payload)),
        5 => Ok(family::verify(payload)),
        _ => Err(format!("the script has an operation {operation}")),
    }
}
