//! Calls over UDP without a seal: the threads and the socket of the host's RPC, with an engine that only frames in place of the module.
//!
//! This is what plain R2P2 is to encrypted R2P2. The product has no such mode: the engine is compiled here alone.

#[path = "../../../../host/src/rpc/endpoint.rs"]
#[expect(dead_code, reason = "the host uses the rest")]
mod endpoint;
mod engine;
#[path = "../../../../host/src/rpc/socket.rs"]
#[expect(dead_code, reason = "the host uses the rest")]
mod socket;
#[path = "../../../../host/src/rpc/thread.rs"]
mod thread;
#[path = "../../../../host/src/rpc/way.rs"]
mod way;

mod alone;
pub(crate) use alone::Alone;

mod roles;
pub(crate) use roles::Plain;
