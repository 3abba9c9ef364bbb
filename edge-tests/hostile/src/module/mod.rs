//! The module under attack: the WebAssembly that ships, in wasmtime or in Node, or the crates it is built from.

mod native;
mod node;
mod wasmtime;

use core::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use clap::ValueEnum;
use selfsame_codec::Config;
use selfsame_sim::attack::Coalition;
use selfsame_sim::{Machine, Native};

/// Number of an instance in its back end
pub(crate) type Handle = usize;

/// A module that ships
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `core.wasm`: a node.
    Core,
    /// `capsule.wasm`: a replica or a client of capsules.
    Capsule,
}

/// What runs the module under attack
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// The crates, linked into this program
    Native,
    /// The module that the Rust host embeds, run by the host's own code
    Wasmtime,
    /// The module of the npm package in Node, run by the package's own code
    Node,
}

impl Backend {
    /// Its name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Wasmtime => "wasmtime",
            Self::Node => "node",
        }
    }
}

/// An instance that has trapped, as every later call of it finds
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trap(pub(crate) String);

/// Instances of one module behind its boundary, each with a memory of its own
pub(crate) trait Module {
    /// Creates what an encoded configuration describes; `None` if it is refused.
    fn create(&mut self, config: &[u8]) -> Option<Handle>;

    /// Gives an instance a batch of inputs, which begins with the time, and returns its outputs.
    fn step(&mut self, instance: Handle, batch: &[u8]) -> Result<Vec<u8>, Trap>;

    /// Ends an instance, as if its process had been killed.
    fn destroy(&mut self, instance: Handle);

    /// Bytes of an instance's linear memory, which never shrinks; 0 for a native one, whose memory is shared.
    fn memory_bytes(&mut self, instance: Handle) -> usize;
}

/// Opens a module in a back end.
///
/// # Panics
/// When the back end cannot be started: nothing can be played then.
pub(crate) fn open(kind: Kind, backend: Backend) -> Box<dyn Module> {
    match backend {
        Backend::Native => native::open(kind),
        Backend::Wasmtime => Box::new(wasmtime::Wasmtime::new(kind)),
        Backend::Node => Box::new(node::Node::start(kind)),
    }
}

/// Cores of a simulation, in any back end, with at most one among them that lies
#[derive(Clone)]
pub(crate) struct Cores(Rc<RefCell<Shared>>);

struct Shared {
    module: Box<dyn Module>,
    trapped: BTreeSet<Handle>,
    created: usize,
    liar: Option<Liar>,
}

/// The core of an attacker: the crate, whose ring says what the attackers want
struct Liar {
    /// Which one it is, in the order of creation.
    number: usize,
    cores: Native,
}

/// Handle of the liar's core: above those of any back end.
const LIAR: Handle = usize::MAX;

impl Cores {
    /// Cores in a back end.
    pub(crate) fn new(backend: Backend) -> Self {
        Self::of(backend, None)
    }

    /// The same, but the core that is created as this one is the crate's and one of the attackers.
    pub(crate) fn with_liar(backend: Backend, number: usize, coalition: &Coalition) -> Self {
        let coalition = coalition.clone();
        let cores = Native::default().tapped(move |config| Some(coalition.tap(config)));
        Self::of(backend, Some(Liar { number, cores }))
    }

    fn of(backend: Backend, liar: Option<Liar>) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            module: open(Kind::Core, backend),
            trapped: BTreeSet::new(),
            created: 0,
            liar,
        })))
    }

    /// Bytes of a core's linear memory.
    pub(crate) fn memory_bytes(&self, core: Handle) -> usize {
        self.0.borrow_mut().module.memory_bytes(core)
    }

    /// How many cores have trapped.
    pub(crate) fn trapped(&self) -> usize {
        self.0.borrow().trapped.len()
    }
}

/// A simulation's view of them
pub(crate) struct Simulated {
    cores: Cores,
    outputs: Vec<u8>,
}

impl Simulated {
    /// Lets a simulation run these cores.
    pub(crate) fn of(cores: &Cores) -> Self {
        Self {
            cores: cores.clone(),
            outputs: Vec::new(),
        }
    }
}

impl Machine for Simulated {
    fn create(&mut self, config: &Config) -> Handle {
        let shared = &mut *self.cores.0.borrow_mut();
        shared.created += 1;
        if let Some(liar) = &mut shared.liar
            && liar.number + 1 == shared.created
        {
            liar.cores.create(config);
            return LIAR;
        }
        let created = shared.module.create(&config.encode());
        created.expect("the configuration is usable")
    }

    /// A core that has trapped says nothing any more.
    fn step(&mut self, core: Handle, batch: &[u8]) -> &[u8] {
        let shared = &mut *self.cores.0.borrow_mut();
        if let (LIAR, Some(liar)) = (core, &mut shared.liar) {
            self.outputs = liar.cores.step(0, batch).to_vec();
            return &self.outputs;
        }
        self.outputs = match shared.module.step(core, batch) {
            Ok(outputs) => outputs,
            Err(Trap(_)) => {
                shared.trapped.insert(core);
                Vec::new()
            }
        };
        &self.outputs
    }

    fn destroy(&mut self, core: Handle) {
        if core == LIAR {
            return;
        }
        self.cores.0.borrow_mut().module.destroy(core);
    }
}
