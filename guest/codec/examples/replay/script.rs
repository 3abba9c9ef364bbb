//! A recorded script, which every runtime replays: a transcript that differs in one byte is a bug.
//!
//! ```text
//! script:     { operation u8 | slot u8 | length u32 | payload }
//! transcript: { length u32 | bytes }, one for each operation: what the machine answered; for `create` one byte, 1 if
//!             there is a handle
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::{env, fs};

use selfsame_codec::{Field, Malformed, Reader};

/// What a script is about, as a module exports it.
pub(crate) trait Replayed: Sized {
    /// Makes one; `None` if the configuration is refused.
    fn create(config: &[u8]) -> Option<Self>;

    /// Takes a batch of inputs; the batch of outputs.
    fn step(&mut self, batch: &[u8]) -> Vec<u8>;

    /// Answers an operation that needs no handle, if there is such a one.
    fn ask(operation: u8, payload: &[u8]) -> Option<Vec<u8>>;
}

/// Runs the program `replay SCRIPT TRANSCRIPT`.
pub(crate) fn run<T: Replayed>() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [script, transcript] = arguments.as_slice() else {
        eprintln!("usage: replay SCRIPT TRANSCRIPT");
        return ExitCode::from(2);
    };
    let replayed = fs::read(script)
        .map_err(|error| format!("{script}: {error}"))
        .and_then(|script| replay::<T>(&script))
        .and_then(|answers| fs::write(transcript, answers).map_err(|error| format!("{transcript}: {error}")));
    match replayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn replay<T: Replayed>(script: &[u8]) -> Result<Vec<u8>, String> {
    let mut reader = Reader::new(script);
    let mut slots = BTreeMap::<u8, T>::new();
    let mut transcript = Vec::new();
    while !reader.is_empty() {
        let (operation, slot, payload) =
            record(&mut reader).map_err(|_| "the script ends within a record")?;
        answer(&mut slots, operation, slot, payload)?
            .as_slice()
            .write(&mut transcript);
    }
    Ok(transcript)
}

fn record<'a>(reader: &mut Reader<'a>) -> Result<(u8, u8, &'a [u8]), Malformed> {
    Ok((reader.field()?, reader.field()?, reader.field()?))
}

fn answer<T: Replayed>(
    slots: &mut BTreeMap<u8, T>,
    operation: u8,
    slot: u8,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    match operation {
        1 => {
            let created = T::create(payload);
            let has_handle = created.is_some();
            if let Some(created) = created {
                slots.insert(slot, created);
            }
            Ok(vec![u8::from(has_handle)])
        }
        2 => match slots.get_mut(&slot) {
            Some(one) => Ok(one.step(payload)),
            None => Err(format!("the script names a slot {slot} before it is created")),
        },
        3 => {
            slots.remove(&slot);
            Ok(Vec::new())
        }
        _ => T::ask(operation, payload).ok_or_else(|| format!("the script has an operation {operation}")),
    }
}
