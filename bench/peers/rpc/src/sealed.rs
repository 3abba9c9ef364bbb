//! The RPC of the host, as a program that embeds it has it.

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;

use bench_pair::Outcome;
use selfsame_host::rpc::{RpcClient, RpcOptions, RpcServer, RpcTicket, RpcTickets};
use selfsame_host::{Error, Node, Seed};

use crate::echo::{Echo, four, within};

const NETWORK: &str = "bench";
const SERVICE: &str = "echo";

/// A server and a client with a ticket
pub(crate) struct Sealed {
    client: RpcClient,
    _server: RpcServer,
}

impl Sealed {
    pub(crate) async fn start() -> Outcome<Self> {
        let server = start_server()?;
        let ticket = ticket_of(&server).await?;
        let client = RpcClient::with_tickets(HeldTicket(ticket)).map_err(told)?;
        Ok(Self {
            client,
            _server: server,
        })
    }
}

impl Echo for Sealed {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let answer = within(
            self.client
                .call(SERVICE, &payload, RpcOptions::new().idempotent()),
        );
        four(&answer.await?.map_err(told)?.payload)
    }
}

/// A server that echoes, with calls that are idempotent.
fn start_server() -> Outcome<RpcServer> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    RpcServer::builder(NETWORK, SERVICE, Seed::from_bytes([7; 32]))
        .idempotent()
        .start(loopback, async |request| Ok(request.payload))
        .map_err(told)
}

/// Gets a ticket through a mesh of two nodes, which end before anything is measured.
async fn ticket_of(server: &RpcServer) -> Outcome<RpcTicket> {
    let builder = || Node::builder(NETWORK).in_memory().unowned().allow_private(true);
    let first = builder().listen("ws://127.0.0.1:0").start().await.map_err(told)?;
    first
        .serve(SERVICE, server.tickets(server.local_addr()))
        .await
        .map_err(told)?;
    let bootstrap = format!("{}#{}", first.addresses()[0], first.id());
    let second = builder().bootstrap([bootstrap]).start().await.map_err(told)?;
    let ticket = second.ticket(SERVICE).await.map_err(told)?;
    second.stop().await;
    first.stop().await;
    Ok(ticket)
}

/// A ticket that was issued before
struct HeldTicket(RpcTicket);

impl RpcTickets for HeldTicket {
    fn ticket(&self, _: &str) -> Pin<Box<dyn Future<Output = Result<RpcTicket, Error>> + Send + '_>> {
        let ticket = self.0.clone();
        Box::pin(async { Ok(ticket) })
    }
}

fn told(error: Error) -> String {
    error.to_string()
}
