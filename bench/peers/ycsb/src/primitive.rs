//! One primitive of the product in a module of WebAssembly, in the engine that the host has.

use std::path::Path;

use bench_pair::Outcome;
use wasmtime::{Config, Engine, Instance, Module, OptLevel, Store, TypedFunc};

use crate::clock::{Clock, Spent};

/// An export that does its work as often as it is told
pub(crate) struct Primitive {
    store: Store<()>,
    work: TypedFunc<u32, u32>,
}

impl Primitive {
    /// Compiles a module, and finds its export.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn load(module: &Path, export: &str) -> Outcome<Self> {
        let mut config = Config::new();
        config
            .wasm_relaxed_simd(false)
            .epoch_interruption(true)
            .cranelift_opt_level(OptLevel::Speed);
        let said = |error: wasmtime::Error| format!("{error:#}");
        let engine = Engine::new(&config).map_err(said)?;
        let module = Module::from_file(&engine, module).map_err(said)?;
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(1);
        let instance = Instance::new(&mut store, &module, &[]).map_err(said)?;
        let work = instance.get_typed_func(&mut store, export).map_err(said)?;
        Ok(Self { store, work })
    }

    /// Repeats it.
    ///
    /// # Errors
    /// When it traps.
    pub(crate) fn run(&mut self, count: u64) -> Outcome<Spent> {
        let count = u32::try_from(count).map_err(|error| error.to_string())?;
        let begin = Clock::now();
        let done = self.work.call(&mut self.store, count);
        done.map_err(|error| format!("{error:#}"))?;
        Ok(Clock::now().since(begin))
    }
}
