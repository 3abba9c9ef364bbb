//! The core says the same natively and as the WebAssembly that is shipped.

use selfsame_codec::Config;
use selfsame_host::{Core, CoreModule};
use selfsame_sim::scenario::{join, settle};
use selfsame_sim::{Handle, Machine, Native, World};

/// Cores in wasmtime, each in an instance of its own as in production
struct Wasm {
    module: CoreModule,
    cores: Vec<Option<Core>>,
    answer: Vec<u8>,
}

impl Machine for Wasm {
    fn create(&mut self, config: &Config) -> Handle {
        let mut core = self.module.instantiate().expect("an instance");
        core.create(config).expect("the configuration is usable");
        self.cores.push(Some(core));
        self.cores.len() - 1
    }

    fn step(&mut self, core: Handle, batch: &[u8]) -> &[u8] {
        let core = self.cores[core].as_mut().expect("the core lives");
        let (now_ms, items) = batch.split_first_chunk().expect("a batch begins with the time");
        self.answer = core
            .step(u64::from_le_bytes(*now_ms), items)
            .expect("a core does not trap");
        &self.answer
    }

    fn destroy(&mut self, core: Handle) {
        self.cores[core] = None;
    }
}

fn trace<M: Machine>(machine: M, nodes: usize) -> [u8; 32] {
    let mut world = World::new(machine, 9);
    world.network.jitter_ms = 5;
    world.network.loss = 5;
    join(&mut world, nodes, 20);
    settle(&mut world, 120_000).expect("the ring settles");
    world.trace()
}

#[test]
fn two_hundred_nodes_say_the_same_natively_and_in_wasmtime() {
    let wasm = Wasm {
        module: CoreModule::embedded().expect("the embedded core"),
        cores: Vec::new(),
        answer: Vec::new(),
    };
    assert_eq!(trace(wasm, 200), trace(Native::default(), 200));
}
