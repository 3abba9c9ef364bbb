//! The modules that the Rust host embeds, run as that host runs them.

use selfsame_host::{Core, CoreError, CoreModule};

use super::{Handle, Kind, Module, Trap};

pub(super) struct Wasmtime {
    module: CoreModule,
    instances: Vec<Option<Core>>,
}

impl Wasmtime {
    pub(super) fn new(kind: Kind) -> Self {
        let module = match kind {
            Kind::Core => CoreModule::embedded(),
            Kind::Capsule => CoreModule::capsules(),
        };
        Self {
            module: module.expect("the host embeds the modules that ship"),
            instances: Vec::new(),
        }
    }
}

impl Module for Wasmtime {
    fn create(&mut self, config: &[u8]) -> Option<Handle> {
        let mut core = self.module.instantiate().expect("an instance");
        match core.create_encoded(config.to_vec()) {
            Ok(()) => {}
            Err(CoreError::Refused(_)) => return None,
            Err(error) => panic!("{error}"),
        }
        self.instances.push(Some(core));
        Some(self.instances.len() - 1)
    }

    fn step(&mut self, instance: Handle, batch: &[u8]) -> Result<Vec<u8>, Trap> {
        let core = self.instances[instance].as_mut().expect("it lives");
        let (now_ms, items) = batch.split_first_chunk().expect("a batch begins with the time");
        let outputs = core.step(u64::from_le_bytes(*now_ms), items);
        outputs.map_err(|error| Trap(error.to_string()))
    }

    fn destroy(&mut self, instance: Handle) {
        self.instances[instance] = None;
    }

    fn memory_bytes(&mut self, instance: Handle) -> usize {
        self.instances[instance].as_ref().map_or(0, Core::memory_size)
    }
}
