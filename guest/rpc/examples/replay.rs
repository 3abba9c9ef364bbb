//! Replays a recorded script on the RPC as native code: `replay SCRIPT TRANSCRIPT`.
//!
//! ```text
//! script:     { operation u8 | slot u8 | length u32 | payload }
//! transcript: { length u32 | bytes }, one for each operation: what the machine answered; for `create` one byte, 1 if
//!             there is a handle
//! ```
//! Every runtime replays the same script; a transcript that differs in one byte is a bug.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::{env, fs};

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_rpc::Machine;

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
    let mut machines = BTreeMap::new();
    let mut transcript = Vec::new();
    while !reader.is_empty() {
        let (operation, slot, payload) =
            record(&mut reader).map_err(|_| "the script ends within a record")?;
        answer(&mut machines, operation, slot, payload)?
            .as_slice()
            .write(&mut transcript);
    }
    Ok(transcript)
}

fn record<'a>(reader: &mut Reader<'a>) -> Result<(u8, u8, &'a [u8]), Malformed> {
    Ok((reader.field()?, reader.field()?, reader.field()?))
}

fn answer(
    machines: &mut BTreeMap<u8, Machine>,
    operation: u8,
    slot: u8,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    match operation {
        1 => {
            let machine = Machine::new(payload);
            let has_handle = machine.is_ok();
            if let Ok(machine) = machine {
                machines.insert(slot, machine);
            }
            Ok(vec![u8::from(has_handle)])
        }
        2 => match machines.get_mut(&slot) {
            Some(machine) => Ok(machine.step(payload).to_vec()),
            None => Err(format!("the script names a slot {slot} before it is created")),
        },
        3 => {
            machines.remove(&slot);
            Ok(Vec::new())
        }
        _ => Err(format!("the script has an operation {operation}")),
    }
}
