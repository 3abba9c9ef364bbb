//! What runs the cores.

use selfsame_codec::Config;
use selfsame_core::identity::PeerId;
use selfsame_core::ring::Parameters;
use selfsame_core::ring::simulation::Tap;
use selfsame_core::{Node, Place};

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

/// Gives the core with a configuration its tap, if it is to have one
type Tapping = Box<dyn FnMut(&Config) -> Option<Box<dyn Tap>>>;

/// Cores that are linked into this program
pub struct Native {
    parameters: &'static Parameters,
    tapping: Tapping,
    nodes: Vec<Option<Box<Node>>>,
    free: Vec<Handle>,
}

impl Native {
    /// Cores whose rings have these constants.
    #[must_use]
    pub fn with(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            tapping: Box::new(|_| None),
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// To whom a core would pass a message on for whoever is responsible for a place, the best first.
    ///
    /// # Panics
    /// When the core has ended.
    pub fn hops_to(&mut self, core: Handle, target: &Place) -> Vec<PeerId> {
        self.nodes[core].as_mut().expect("the core lives").hops_to(target)
    }

    /// Lets taps see and change what the rings of cores say.
    #[must_use]
    pub fn tapped(mut self, tapping: impl FnMut(&Config) -> Option<Box<dyn Tap>> + 'static) -> Self {
        self.tapping = Box::new(tapping);
        self
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::with(&Parameters::DEFAULT)
    }
}

impl Machine for Native {
    fn create(&mut self, config: &Config) -> Handle {
        let node = Node::new(&config.encode(), self.parameters);
        let mut node = Box::new(node.expect("the configuration is usable"));
        if let Some(tap) = (self.tapping)(config) {
            node.tap(tap);
        }
        let node = Some(node);
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
