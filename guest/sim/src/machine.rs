//! What runs the cores.

use selfsame_codec::Config;
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

/// Number of a core in its machine
pub type Handle = usize;

/// Runs cores behind their boundary: natively or as WebAssembly
pub trait Machine {
    /// Creates a core.
    ///
    /// # Panics
    /// When the core refuses the configuration: a simulation that starts so is wrong itself.
    fn create(&mut self, config: &Config) -> Handle;

    /// Gives a core a batch of inputs and returns its outputs.
    fn step(&mut self, core: Handle, batch: &[u8]) -> &[u8];

    /// Ends a core, as if its process had been killed.
    fn destroy(&mut self, core: Handle);
}

/// Cores that are linked into this program
pub struct Native {
    parameters: &'static Parameters,
    nodes: Vec<Option<Box<Node>>>,
    free: Vec<Handle>,
}

impl Native {
    /// Cores whose rings have these constants.
    #[must_use]
    pub fn with(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::with(&Parameters::DEFAULT)
    }
}

impl Machine for Native {
    fn create(&mut self, config: &Config) -> Handle {
        let node =
            Node::with_parameters(&config.encode(), self.parameters).expect("the configuration is usable");
        let node = Some(Box::new(node));
        if let Some(handle) = self.free.pop() {
            self.nodes[handle] = node;
            handle
        } else {
            self.nodes.push(node);
            self.nodes.len() - 1
        }
    }

    fn step(&mut self, core: Handle, batch: &[u8]) -> &[u8] {
        self.nodes[core].as_mut().expect("the core lives").step(batch)
    }

    fn destroy(&mut self, core: Handle) {
        self.nodes[core] = None;
        self.free.push(core);
    }
}
