//! Where clients of the RPC get their tickets.

use core::pin::Pin;

use selfsame_host::rpc::{RpcKeys, RpcTickets};
use selfsame_host::{Error, Node};

/// Tickets of the mesh for a client whose calls do not travel in its sessions: it asks for one before its first call.
pub(crate) struct TicketsFirst(pub(crate) Node);

impl RpcTickets for TicketsFirst {
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        self.0.ticket(service)
    }
}

/// The same for a client that must not go to private addresses.
pub(crate) struct PublicOnly(pub(crate) Node);

impl RpcTickets for PublicOnly {
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        self.0.ticket(service)
    }

    fn allows_private(&self) -> bool {
        false
    }
}
