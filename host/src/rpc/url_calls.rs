//! Calls of a client to URLs.

use core::net::SocketAddr;

use tokio::time::Instant;

use super::address::RpcAddress;

/// What the calls of a client to URLs share: its thread, its tasks and its callers use it.
pub(super) trait UrlCalls: Send + Sync {
    /// Returns the address that an endpoint stands for.
    fn address_of(&self, endpoint: SocketAddr) -> Option<RpcAddress>;

    /// Notes a call that ends by then.
    fn expect_until(&self, _until: Instant) {}

    /// Gives up what no call waits for any more.
    fn give_up(&self);
}
