//! The RPC of the host, as a program that embeds it has it.

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use std::sync::Mutex;

use bench_pair::Outcome;
use http_body_util::BodyExt as _;
use hyper::Request;
use selfsame_codec::cbor::Decoder;
use selfsame_host::rpc::{
    PreSharedKey, RpcClient, RpcKeys, RpcOptions, RpcServer, RpcTicket, RpcTickets, TICKET_PATH,
};
use selfsame_host::{Body, Builder, Error, Node, Seed};

use crate::echo::{Echo, four, within};

const NETWORK: &str = "bench";
pub(crate) const SERVICE: &str = "echo";
/// The secret of the service.
const KEY: [u8; 32] = [7; 32];
const MAX_GRANT_BYTES: usize = 1024;

/// A server and a client with a ticket
pub(crate) struct Sealed {
    client: RpcClient,
    options: RpcOptions,
    _server: RpcServer,
}

impl Sealed {
    pub(crate) async fn start(options: RpcOptions) -> Outcome<Self> {
        let server = start_server()?;
        let ticket = ticket_of(&server).await?;
        let client = RpcClient::with_tickets(HeldTicket(Mutex::new(Some(ticket))));
        Ok(Self {
            client,
            options,
            _server: server,
        })
    }
}

impl Echo for Sealed {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let answer = within(self.client.call(SERVICE, &payload, self.options.clone()));
        four(&answer.await?.map_err(told)?.payload)
    }
}

/// A server that echoes, with calls that are idempotent.
pub(crate) fn start_server() -> Outcome<RpcServer> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    RpcServer::builder(NETWORK, SERVICE, Seed::from_bytes(KEY))
        .idempotent()
        .start(loopback, async |request| Ok(request.payload))
        .map_err(told)
}

/// Tickets that a client issues to itself with the secret of the service.
pub(crate) fn pre_shared_key(server: &RpcServer) -> Outcome<PreSharedKey> {
    let tickets = PreSharedKey::new(NETWORK).map_err(told)?;
    Ok(tickets.service(SERVICE, Seed::from_bytes(KEY), server.local_addr()))
}

/// Gets a ticket through a mesh of two nodes, which end before anything is measured.
async fn ticket_of(server: &RpcServer) -> Outcome<RpcTicket> {
    let (first, bootstrap) = issuer(server).await?;
    let second = join(&bootstrap).await?;
    let ticket = ticket(&second).await?;
    second.stop().await;
    first.stop().await;
    Ok(ticket)
}

/// Starts a node that issues the tickets of a server, and returns where others join it.
pub(crate) async fn issuer(server: &RpcServer) -> Outcome<(Node, String)> {
    let node = builder().listen("ws://127.0.0.1:0").start().await.map_err(told)?;
    let tickets = server.tickets([server.local_addr()]).map_err(told)?;
    node.serve(SERVICE, tickets).await.map_err(told)?;
    let bootstrap = format!("{}#{}", node.addresses()[0], node.id());
    Ok((node, bootstrap))
}

/// Starts a node that joins another one and owns no key space.
pub(crate) async fn join(bootstrap: &str) -> Outcome<Node> {
    builder().bootstrap([bootstrap]).start().await.map_err(told)
}

fn builder() -> Builder {
    Node::builder(NETWORK).in_memory().unowned().allow_private(true)
}

/// Gets a ticket through the mesh of a node.
pub(crate) async fn ticket(node: &Node) -> Outcome<RpcTicket> {
    match within(node.ticket(SERVICE)).await?.map_err(told)? {
        RpcKeys::Ticket(ticket) => Ok(ticket),
        RpcKeys::Session => Err("the service gives out no tickets".into()),
    }
}

/// A client that has a ticket from the mesh of a node.
pub(crate) async fn client(node: &Node) -> Outcome<RpcClient> {
    Ok(RpcClient::with_tickets(HeldTicket(Mutex::new(Some(
        ticket(node).await?,
    )))))
}

/// A ticket with its secret, and where its service is
pub(crate) struct Grant {
    pub(crate) bytes: Vec<u8>,
    pub(crate) address: SocketAddr,
}

/// Gets a ticket as a program does that speaks the protocol itself: `[version: 2, grant: bytes, addresses: [1*4 text]]`.
pub(crate) async fn grant(node: &Node) -> Outcome<Grant> {
    let url = format!("https://{SERVICE}.mesh{TICKET_PATH}");
    let request = Request::post(url).body(Body::empty()).map_err(told)?;
    let response = within(node.fetch(request)).await?.map_err(told)?;
    let body = response.into_body().collect().await.map_err(told)?.to_bytes();
    let mut decoder = Decoder::new(&body);
    decoder.array_of(3).and_then(|()| decoder.uint()).map_err(told)?;
    let bytes = decoder.bytes(MAX_GRANT_BYTES).map_err(told)?.to_vec();
    decoder.array(1).map_err(told)?;
    let address = decoder.text(MAX_GRANT_BYTES).map_err(told)?;
    Ok(Grant {
        bytes,
        address: address.parse().map_err(told)?,
    })
}

/// Calls an echo that may be carried out again.
pub(crate) async fn call(client: &RpcClient, payload: [u8; 4]) -> Outcome<[u8; 4]> {
    let answer = within(client.call(SERVICE, &payload, RpcOptions::new().idempotent()));
    four(&answer.await?.map_err(told)?.payload)
}

/// A ticket that was issued before, until a client has it
struct HeldTicket(Mutex<Option<RpcTicket>>);

impl RpcTickets for HeldTicket {
    fn ticket(&self, _: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        let ticket = self.0.lock().map_or(None, |mut held| held.take());
        let ticket = ticket.ok_or_else(|| Error::Input("the ticket was used before".into()));
        Box::pin(async { ticket.map(RpcKeys::Ticket) })
    }
}

pub(crate) fn told(error: impl core::fmt::Display) -> String {
    error.to_string()
}
