//! Calls with a pre-shared key, without a mesh.

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use std::sync::Arc;

use bench_pair::{Outcome, Task};
use selfsame_host::Error;
use selfsame_host::rpc::{PreSharedKey, RpcClient, RpcKeys, RpcOptions, RpcServer, RpcTickets};
use tokio::runtime::Runtime;

use crate::echo::{Echo, four, within};
use crate::first::{FRESH, counting};
use crate::forward::Forwarder;
use crate::sealed::{SERVICE, pre_shared_key, start_server, told};

/// Tickets of the service under any name: to a client each name is another service, with a ticket of its own
struct AnyName(PreSharedKey);

impl RpcTickets for AnyName {
    fn ticket(&self, _: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        self.0.ticket(SERVICE)
    }
}

/// Calls whose client issues its tickets to itself
pub(crate) struct PreShared {
    client: RpcClient,
    target: SocketAddr,
    /// Whether each call is the first one with its ticket.
    is_first: bool,
    calls: u64,
    _server: RpcServer,
}

impl PreShared {
    pub(crate) async fn start(is_first: bool) -> Outcome<Self> {
        let server = start_server()?;
        tokio::time::sleep(FRESH).await;
        Ok(Self {
            client: RpcClient::with_tickets(AnyName(pre_shared_key(&server)?)),
            target: server.local_addr(),
            is_first,
            calls: 0,
            _server: server,
        })
    }
}

impl Echo for PreShared {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        self.calls += u64::from(self.is_first);
        let service = format!("{SERVICE}-{}", self.calls);
        let options = RpcOptions::new().idempotent().server(self.target);
        let answer = within(self.client.call(&service, &payload, options)).await?;
        four(&answer.map_err(told)?.payload)
    }
}

/// Counts the datagrams of first calls.
pub(crate) fn datagrams(runtime: &Arc<Runtime>) -> Outcome<Task> {
    let mut first = runtime.block_on(PreShared::start(true))?;
    let forwarder = Forwarder::start(first.target)?;
    first.target = forwarder.address();
    counting(Arc::clone(runtime), first, forwarder)
}
