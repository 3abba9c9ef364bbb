//! Capsules: signed, append-only graphs of records on servers that need not be trusted.
//!
//! A [`Capsule`] is a client of one capsule: it writes and reads through quorums of its servers and believes nothing that it has
//! not verified. What it says and does is decided in `capsule.wasm`, which is the same in every runtime; this module gives it a
//! store, a clock, randomness and a way to the servers. Such a server is a `Replica` of this crate.
//!
//! ```no_run
//! # async fn example() -> Result<(), selfsame_host::Error> {
//! use selfsame_host::Seed;
//! use selfsame_host::capsule::{Capsule, Plan, WriteOptions};
//!
//! let owner = Seed::generate()?;
//! let metadata = Plan::new("a diary").sign(&owner)?;
//! let capsule = Capsule::builder()
//!     .metadata(metadata)
//!     .server("https://capsules.example/".parse()?)
//!     .seed(owner)
//!     .storage("./data")
//!     .open()
//!     .await?;
//! capsule.create().await?;
//! let names = capsule.append([b"hello".to_vec()], WriteOptions::new()).await?;
//! let record = capsule.read(names[0]).await?;
//! # Ok(())
//! # }
//! ```

mod archive;
pub use archive::{Export, ExportInfo, Import, verify_export};

mod builder;
pub use builder::{CapsuleBuilder, Timing, find_servers};

mod client;
pub use client::{Capsule, Governing, Revocation, WriteOptions};

pub(crate) mod engine;
mod guest;

mod module;
pub use module::{
    CapsuleInfo, HashFunction, Plan, ProofInfo, ReaderKey, describe, public_key, reader_key, verify_proof,
};

mod name;
pub use name::CapsuleName;

pub(crate) mod peer;
pub use peer::{CapsuleServer, Peer};

mod reading;
pub use reading::{
    Answer, Authorship, Content, Description, ForkEvidence, Head, Heads, Position, Record, RecordHeader,
    RecordKind, SignedHeader,
};

pub(crate) mod request;

mod workers;

pub use crate::id::{CapsuleKey, RecordName};
