//! HTTP by RPC (docs/specification/rpc.md).

mod message;

mod service;
pub(super) use service::HttpService;
pub use service::RpcFetchService;

mod answer;

mod client;

/// The one procedure of a service that carries HTTP.
const EXCHANGE: &str = "http";
