//! The boundary between a selfsame core and its host.
//!
//! A host calls the core with one *batch* of inputs and gets one batch of outputs back. This crate defines
//! both, the deterministic CBOR in which anything hashed or signed is written, and the table of error codes.
//! It is `no_std`, has no dependencies and is mirrored in TypeScript; golden vectors keep the two equal.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;

mod answer;
pub use answer::answer;

mod batch;
pub use batch::{BatchReader, BatchWriter, Item, ItemKind};

pub mod capsule;

pub mod cbor;

pub mod client;

mod code;
pub use code::{Class, Code};

mod config;
pub use config::{Admission, Config, Role};

mod field;
pub use field::{Field, Malformed, Reader};

pub mod http;

mod input;
pub use input::{Input, PathKind, Policy};

pub mod map;

mod operation;
pub use operation::{Entries, EntryWriter, Operation, OperationWriter, Operations};

mod output;
pub use output::{EventKind, LogLevel, Output};

pub mod reply;

pub mod rpc;

/// The whole of a service's requests, in the ten-thousandths in which a provider states its version's share.
pub const MAX_WEIGHT: u16 = 10_000;

/// Version of the boundary, returned by the export `abi_version`.
pub const ABI_VERSION: u32 = 3;

/// Set in what `create` of a core returns when it refuses a configuration; the rest is the code.
pub const REFUSED: u32 = 1 << 31;

/// Set in what `abi_version` returns by a core without cryptography, which exists for benchmarks: hosts refuse it.
pub const INSECURE: u32 = 1 << 31;
