//! The core in wasmtime: `bench-embedded CORE.wasm`, then tasks on standard input (see `bench_pair::serve`).

mod core;

use std::path::Path;
use std::process::ExitCode;

use bench_pair::{Core as _, Outcome, Pair, Task, configuration, now_ms, repeat, serve};
use wasmtime::{Engine, Module};

use crate::core::{Embedded, engine, one_line};

/// An input that costs the core next to nothing: `Cancel` of a command that was never given.
const CHEAP_ITEM: [u8; 9] = [42, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: bench-embedded CORE.wasm");
        return ExitCode::from(2);
    };
    let wasm = match std::fs::read(Path::new(&path)) {
        Ok(wasm) => wasm,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&path).display());
            return ExitCode::from(2);
        }
    };
    match serve(|name| task(name, &wasm)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, wasm: &[u8]) -> Outcome<Task> {
    let engine = engine()?;
    match name {
        "compile" => {
            let wasm = wasm.to_vec();
            Ok(repeat(move || {
                Module::new(&engine, &wasm).map(drop).map_err(one_line)
            }))
        }
        "cold" => {
            let wasm = wasm.to_vec();
            Ok(repeat(move || {
                let module = Module::new(&engine, &wasm).map_err(one_line)?;
                node(&engine, &module, 1)?.step(&now_ms().to_le_bytes()).map(drop)
            }))
        }
        "instantiate" => {
            let module = Module::new(&engine, wasm).map_err(one_line)?;
            Ok(repeat(move || Embedded::new(&engine, &module).map(drop)))
        }
        "start" => {
            let module = Module::new(&engine, wasm).map_err(one_line)?;
            Ok(repeat(move || {
                node(&engine, &module, 1)?.step(&now_ms().to_le_bytes()).map(drop)
            }))
        }
        "handshake" => {
            let mut pair = pair(&engine, wasm)?;
            Ok(repeat(move || pair.handshake()))
        }
        _ => match name.split_once('/') {
            Some(("channel", len)) => {
                let len = len.parse().map_err(|_| format!("{len} is no length"))?;
                let mut pair = pair(&engine, wasm)?;
                pair.open_stream()?;
                Ok(repeat(move || pair.message(len)))
            }
            Some(("step", items)) => {
                let items = items
                    .parse()
                    .map_err(|_| format!("{items} is no number of items"))?;
                let batch = [&now_ms().to_le_bytes()[..], &CHEAP_ITEM.repeat(items)].concat();
                let mut pair = pair(&engine, wasm)?;
                Ok(repeat(move || pair.raw_step(&batch)))
            }
            _ => Err(format!("no task {name}")),
        },
    }
}

fn node(engine: &Engine, module: &Module, number: u8) -> Outcome<Embedded> {
    let mut core = Embedded::new(engine, module)?;
    core.create(&configuration(number)?.encode())?;
    Ok(core)
}

fn pair(engine: &Engine, wasm: &[u8]) -> Outcome<Pair<Embedded>> {
    let module = Module::new(engine, wasm).map_err(one_line)?;
    Pair::new(node(engine, &module, 1)?, node(engine, &module, 2)?)
}
