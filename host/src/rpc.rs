//! Encrypted RPC over UDP, HTTP and WebSocket: requests of one datagram or many to any replica of a service (docs/specification/rpc.md).
//!
//! A server shares a ticket key with the other replicas of its service and answers calls; a client makes its first call in a
//! session of the mesh, which brings a ticket, and from then on calls without a round trip before. Services do without tickets with
//! [`RpcSessionService`], clients without a mesh with [`PreSharedKey`].
//!
//! ```no_run
//! # async fn example(node: selfsame_host::Node) -> Result<(), Box<dyn core::error::Error>> {
//! use selfsame_host::Seed;
//! use selfsame_host::rpc::{RpcAddress, RpcClient, RpcOptions, RpcServer};
//!
//! let server = RpcServer::builder("twiitr", "check", Seed::generate()?)
//!     .idempotent()
//!     .start("0.0.0.0:7400".parse()?, async |request| Ok(request.payload))?;
//! node.serve("check", server.tickets(["192.0.2.1:7400".parse::<RpcAddress>()?])?).await?;
//!
//! let client = RpcClient::new(node);
//! let answer = client.call("check", b"ping", RpcOptions::new().idempotent()).await?;
//! assert_eq!(answer.payload, b"ping");
//! # Ok(())
//! # }
//! ```

mod address;
pub use address::RpcAddress;

mod datagram;

mod endpoint;

mod engine;

mod first_calls;

mod way;

mod socket;

mod arrivals;

mod binding;

mod socket_responses;

mod accepted_socket;

mod websocket_service;

mod http_service;
pub use http_service::RpcHttpService;

mod url_endpoints;

mod url_calls;

mod pauses;

mod posts;

mod http_way;

mod frame_parts;

mod websocket;

mod dialled_socket;

mod websocket_way;

mod answering;
pub use answering::{RpcRefusal, RpcRequest};

mod thread;

mod keys;

mod key_chain;

mod key_sharing;
pub use key_sharing::{KEYS_PATH, SharedTicketKeys};

mod serving;

mod held_keys;
pub use held_keys::RpcTicketKey;

mod server;
pub use server::{RpcServer, RpcServerBuilder};

mod router;
pub use router::{RpcRouter, RpcRouterBuilder, RpcSelection};

mod ticket;
pub use ticket::{RpcKeys, RpcTicket, RpcTicketService, RpcTickets, TICKET_PATH};

mod session_call;
pub use session_call::{SessionAnswer, SessionCall, SessionOutcome};

mod session_service;
pub use session_service::RpcSessionService;

mod network;

mod pre_shared_key;
pub use pre_shared_key::PreSharedKey;

mod calling;

mod lines;

mod client;
pub use client::{RpcAnswer, RpcClient, RpcOptions};

#[cfg(feature = "procedures")]
mod fetch;
#[cfg(feature = "procedures")]
pub use fetch::RpcFetchService;

#[cfg(feature = "procedures")]
mod procedures;
#[cfg(feature = "procedures")]
pub use procedures::{RpcContext, RpcProcedure, RpcProcedures, RpcStream, RpcStreamProcedure};
