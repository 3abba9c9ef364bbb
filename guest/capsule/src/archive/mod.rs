//! A whole capsule on its way from a replica into a file, and from a file to a replica: what to ask next, whoever carries it.

mod export;
mod import;

pub use export::{Export, Exported};
pub use import::Import;

use alloc::vec::Vec;

use selfsame_codec::Field;

use crate::hash::CapsuleName;
use crate::message::{Envelope, SessionId};

/// The session of these requests, which is never opened: none of replicas', as what is imported is pushed to the others.
const SESSION: SessionId = [1; 16];

/// Begins a request.
fn begin(capsule: CapsuleName) -> Vec<u8> {
    let mut request = Vec::new();
    Envelope {
        capsule,
        session: SESSION,
        verified: 0,
    }
    .write(&mut request);
    request
}
