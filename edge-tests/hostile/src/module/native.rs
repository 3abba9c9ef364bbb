//! The crates of the modules, linked into this program.

use selfsame_capsule::machine::Machine;
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

use super::{Handle, Kind, Module, Trap};

/// Something that is stepped with batches
trait Stepped {
    fn step(&mut self, batch: &[u8]) -> Vec<u8>;
}

impl Stepped for Node {
    fn step(&mut self, batch: &[u8]) -> Vec<u8> {
        self.step(batch).to_vec()
    }
}

impl Stepped for Machine {
    fn step(&mut self, batch: &[u8]) -> Vec<u8> {
        self.step(batch).to_vec()
    }
}

/// Makes one from an encoded configuration, unless that is refused
type Create = fn(&[u8]) -> Option<Box<dyn Stepped>>;

struct Native {
    create: Create,
    instances: Vec<Option<Box<dyn Stepped>>>,
}

pub(super) fn open(kind: Kind) -> Box<dyn Module> {
    let create: Create = match kind {
        Kind::Core => |config| Some(Box::new(Node::new(config, &Parameters::DEFAULT).ok()?)),
        Kind::Capsule => |config| Some(Box::new(Machine::new(config).ok()?)),
    };
    Box::new(Native {
        create,
        instances: Vec::new(),
    })
}

impl Module for Native {
    fn create(&mut self, config: &[u8]) -> Option<Handle> {
        self.instances.push(Some((self.create)(config)?));
        Some(self.instances.len() - 1)
    }

    fn step(&mut self, instance: Handle, batch: &[u8]) -> Result<Vec<u8>, Trap> {
        Ok(self.instances[instance].as_mut().expect("it lives").step(batch))
    }

    fn destroy(&mut self, instance: Handle) {
        self.instances[instance] = None;
    }

    fn memory_bytes(&mut self, _instance: Handle) -> usize {
        0
    }
}
