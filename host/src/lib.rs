//! Embed a selfsame node in a Rust program.
//!
//! A node finds services by name, calls them and serves them, in a network without a central registry and without a
//! certificate authority. All protocol logic is in one WebAssembly core, which runs in [wasmtime]; this crate gives it
//! sockets, storage, a clock and randomness.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn core::error::Error>> {
//! use core::convert::Infallible;
//! use http::{Request, Response};
//! use selfsame_host::{Body, Node};
//!
//! let node = Node::builder("twiitr")
//!     .storage("./data")
//!     .listen("ws://127.0.0.1:7000")
//!     .unowned()
//!     .start()
//!     .await?;
//! let hello = tower::service_fn(async |_request| Ok::<_, Infallible>(Response::new(Body::from("hello"))));
//! node.serve("hello", hello).await?;
//! let request = Request::get("https://hello.mesh/").body(Body::empty())?;
//! let response = node.fetch(request).await?;
//! assert_eq!(response.status(), 200);
//! node.leave().await?;
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(feature = "admission")]
pub mod admission;

#[cfg(feature = "authority")]
mod authority;
#[cfg(feature = "authority")]
pub use authority::{Authority, AuthorityError, Quotas, Zone, ZoneNameServer};

mod body;
pub use body::Body;

mod builder;
pub use builder::{Builder, IDENTITY_FILE, STORE_FOLDER};

pub mod capsule;
pub use capsule::CapsuleName;

mod caller;
pub use caller::{Assurance, Caller};

mod certificate;
pub use certificate::{Certificate, CertificateTerms, Certified, Revocations};

mod connection;

mod core;
pub use crate::core::{CLOSED_CORE_WASM, CORE_WASM, Core, CoreError, CoreModule, Limits, RPC_WASM};

mod driver;

mod error;
pub use error::{BoxError, Error, Tried};

mod event;
pub use event::Event;

mod exchange;

mod fetch;
pub use fetch::Callee;

mod file;
mod grants;
mod handle;
mod in_bytes;
mod inbox;

mod id;
pub use id::{AuthorityKey, CapsuleKey, NodeKey, Owner, OwnerKey, ParseIdError, PeerId, RecordName};

#[cfg(feature = "json")]
pub mod json;

mod keys;
pub use keys::{Grant, Granted, Seed};

mod length;
mod link;
mod lock;
mod message;
mod newcomers;

mod node;
pub use node::Node;

mod observe;
pub use observe::{CallObservation, ObservedNode, Observer, ServeObservation, Served};

mod options;
pub use options::{FetchOptions, ServeOptions};

mod path;

mod replica;
mod retry;
pub use replica::{
    CAPSULES_FOLDER, MAX_CAPSULE_REQUEST, REPLICA_KEY_FILE, Replica, ReplicaBody, ReplicaBuilder,
    ReplicaService, ReplicateOptions, Replicating, Serving, Source, Synchronised,
};

mod routed;
pub use routed::RoutedMessage;

mod route;
pub use route::RouteTarget;

pub mod rpc;

mod serve;
mod shares;
mod uploads;

mod store;
#[cfg(feature = "contract")]
pub use selfsame_store::contract;
pub use store::{DiskStore, Ended, Entry, MemoryStore, SCHEMA, Storage, StoreError, WRITE_BUFFER};

mod stream;
mod task;

#[cfg(feature = "telemetry")]
mod telemetry;
#[cfg(feature = "telemetry")]
pub use telemetry::{METRICS_TYPE, Telemetry};

mod transport;
pub use transport::{
    ConnectionLimit, ConnectionPlace, ResolvedAddress, TrustedProxies, clock_at, resolve_address,
};

mod upgrade;
pub use upgrade::Upgraded;

mod watch;
pub use watch::Watch;

pub use selfsame_codec::reply::{Node as NodeInfo, Provider, Status};
pub use selfsame_codec::{Code, Policy};
