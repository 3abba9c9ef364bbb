//! Replays a recorded script on a module that this library embeds: `replay core|core-closed|rpc SCRIPT TRANSCRIPT WASM`. The module is
//! written out too, so that its hash can be compared.
//!
//! ```text
//! script:     { operation u8 | slot u8 | length u32 | payload }
//! transcript: { length u32 | bytes }, one for each operation: what the module answered; for `create` one byte, 1 if
//!             there is a handle
//! ```
//! Every runtime replays the same script; a transcript that differs in one byte is a bug.

#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use alloc::collections::BTreeMap;
use core::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::{env, fs};

use selfsame_codec::{Field, Reader};
use selfsame_host::{CLOSED_CORE_WASM, CORE_WASM, RPC_WASM};
use wasmtime::{Config, Engine, Instance, Memory, Module, Store, TypedFunc};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let wasm = arguments.first().and_then(|module| embedded(module));
    let (Some(wasm), [_, script, transcript, copy]) = (wasm, arguments.as_slice()) else {
        // When the standard error is closed, nobody is left to hear of it.
        _ = writeln!(
            io::stderr(),
            "usage: replay core|core-closed|rpc SCRIPT TRANSCRIPT WASM"
        );
        return ExitCode::from(2);
    };
    match replay(wasm, script, transcript, copy) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn embedded(module: &str) -> Option<&'static [u8]> {
    match module {
        "core" => Some(CORE_WASM),
        "core-closed" => Some(CLOSED_CORE_WASM),
        "rpc" => Some(RPC_WASM),
        _ => None,
    }
}

fn replay(wasm: &[u8], script: &str, transcript: &str, copy: &str) -> Result<(), Box<dyn Error>> {
    fs::write(copy, wasm)?;
    let script = fs::read(script)?;
    let mut player = Player::new(wasm)?;
    let mut reader = Reader::new(&script);
    let mut answers = Vec::new();
    while !reader.is_empty() {
        let (operation, slot) = (reader.field()?, reader.field()?);
        let answer = player.run(operation, slot, reader.field()?)?;
        answer.as_slice().write(&mut answers);
    }
    fs::write(transcript, answers)?;
    Ok(())
}

/// One instance of a module with its machines in numbered slots
struct Player {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
    handles: BTreeMap<u8, u32>,
}

impl Player {
    fn new(wasm: &[u8]) -> Result<Self, Box<dyn Error>> {
        let mut config = Config::new();
        // As the host does.
        config.wasm_relaxed_simd(false);
        let engine = Engine::new(&config)?;
        let module = Module::new(&engine, wasm)?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[])?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or("the module exports no memory")?;
        Ok(Self {
            store,
            instance,
            memory,
            handles: BTreeMap::new(),
        })
    }

    fn run(&mut self, operation: u8, slot: u8, payload: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
        let len = u32::try_from(payload.len())?;
        let ptr = self.export::<u32, u32>("alloc")?.call(&mut self.store, len)?;
        if len > 0 {
            self.memory.write(&mut self.store, ptr as usize, payload)?;
        }
        let answer = match operation {
            1 => {
                let handle = self
                    .export::<(u32, u32), u32>("create")?
                    .call(&mut self.store, (ptr, len))?;
                self.handles.insert(slot, handle);
                vec![u8::from(handle != 0)]
            }
            2 => {
                let handle = self.handle(slot)?;
                let header = self
                    .export::<(u32, u32, u32), u32>("step")?
                    .call(&mut self.store, (handle, ptr, len))?;
                self.read(header)?
            }
            3 => {
                let handle = self.handle(slot)?;
                self.export::<u32, ()>("destroy")?.call(&mut self.store, handle)?;
                Vec::new()
            }
            4 | 5 => {
                let family = if operation == 4 { "derive" } else { "verify" };
                let header = self
                    .export::<(u32, u32), u32>(family)?
                    .call(&mut self.store, (ptr, len))?;
                self.read(header)?
            }
            _ => return Err(format!("the script has an operation {operation}").into()),
        };
        self.export::<(u32, u32), ()>("free")?
            .call(&mut self.store, (ptr, len))?;
        Ok(answer)
    }

    fn export<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        name: &str,
    ) -> Result<TypedFunc<P, R>, Box<dyn Error>> {
        Ok(self.instance.get_typed_func(&mut self.store, name)?)
    }

    fn handle(&self, slot: u8) -> Result<u32, Box<dyn Error>> {
        let missing = || format!("the script names a slot {slot} before it is created").into();
        self.handles.get(&slot).copied().ok_or_else(missing)
    }

    /// Copies what a header `{pointer u32, length u32}` names.
    fn read(&self, header: u32) -> Result<Vec<u8>, Box<dyn Error>> {
        let memory = self.memory.data(&self.store);
        let mut reader = Reader::new(
            memory
                .get(header as usize..)
                .ok_or("a header outside of memory")?,
        );
        let (ptr, len): (u32, u32) = (reader.field()?, reader.field()?);
        let end = ptr as usize + len as usize;
        let bytes = memory
            .get(ptr as usize..end)
            .ok_or("an answer outside of memory")?;
        Ok(bytes.to_vec())
    }
}
