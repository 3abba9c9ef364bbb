use selfsame_abi::Machine;
use selfsame_codec::{ABI_VERSION, INSECURE, REFUSED};
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

use crate::family;

/// What nodes of this build use.
#[cfg(not(feature = "large-table"))]
static PARAMETERS: Parameters = Parameters::DEFAULT;
/// Room for some millions of associations, each about a kilobyte.
#[cfg(feature = "large-table")]
static PARAMETERS: Parameters = Parameters {
    max_associations: 1 << 22,
    max_table_bytes: 3 << 30,
    ..Parameters::DEFAULT
};

const VERSION: u32 = if cfg!(feature = "insecure") {
    ABI_VERSION | INSECURE
} else {
    ABI_VERSION
};

/// A node of the ring
struct Member(Node);

impl Machine for Member {
    fn create(config: &[u8]) -> Result<Self, u32> {
        Node::new(config, &PARAMETERS)
            .map(Self)
            .map_err(|code| REFUSED | u32::from(code.as_u16()))
    }

    fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.0.step(batch)
    }
}

selfsame_abi::exports! {
    machine: Member,
    version: VERSION,
    derive: family::derive,
    verify: family::verify,
}
