//! Sockets: what is listened on and what is dialled.

mod address;
pub(crate) use address::{Address, is_public};

mod clock;
pub use clock::clock_at;

mod connect;
pub(crate) use connect::{Connector, Io, PrivateAddress};

mod deadline;
mod dial;
pub(crate) use dial::Dialler;

mod exchange;
pub(crate) use exchange::Exchanges;

mod forwarded;
pub use forwarded::TrustedProxies;

mod frames;

mod handshake;
pub(crate) use handshake::{BadHandshake, accept_key, switching};

mod keep_alive;
mod limit;
pub use limit::{ConnectionLimit, ConnectionPlace};

mod network;
pub(crate) use network::network_of;

mod poll;
pub(crate) use poll::{PostClient, client as post_client};

mod resolve;
pub use resolve::{ResolvedAddress, resolve_address};

mod server;
pub(crate) use server::{Listener, Server};

mod tcp;
mod udp;
mod websocket;

/// URL schemes that a host can dial.
pub(crate) const DIALS: [&str; 6] = ["udp", "tcp", "ws", "wss", "http", "https"];
/// Largest frame of any path.
pub(crate) const MAX_FRAME: usize = 65_536;
/// Path of the URL at which nodes answer.
pub(crate) const MESH_PATH: &str = "/.mesh";
