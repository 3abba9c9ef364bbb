//! First requests of new clients: with a ticket, and without one.

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bench_pair::{Outcome, Task};
use hyper::Request;
use selfsame_host::rpc::{RpcClient, RpcKeys, RpcOptions, RpcServer, RpcTicket, RpcTickets};
use selfsame_host::{Body, Code, Error, Node};
use tokio::runtime::Runtime;

use crate::echo::{Echo, four, within};
use crate::forward::Forwarder;
use crate::peers::Early;
use crate::sealed::{SERVICE, issuer, join, start_server, ticket, told};

/// How long a replica treats tickets as older than itself.
pub(crate) const FRESH: Duration = Duration::from_millis(2100);

/// A server, the node that issues its tickets and one that asks for them
struct Mesh {
    server: RpcServer,
    _issuer: Node,
    asking: Node,
    bootstrap: String,
}

impl Mesh {
    async fn start() -> Outcome<Self> {
        let server = start_server()?;
        // What was sent before a replica began costs a round trip more, and tickets tell their age in seconds.
        tokio::time::sleep(FRESH).await;
        let (issuer, bootstrap) = issuer(&server).await?;
        let asking = join(&bootstrap).await?;
        Ok(Self {
            server,
            _issuer: issuer,
            asking,
            bootstrap,
        })
    }
}

/// Tickets that were issued before, each given away once
#[derive(Clone, Default)]
struct Drawer(Arc<Mutex<VecDeque<RpcTicket>>>);

impl Drawer {
    async fn fill(&self, node: &Node, count: u64) -> Outcome<()> {
        for _ in 0..count {
            let ticket = ticket(node).await?;
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(ticket);
        }
        Ok(())
    }
}

impl RpcTickets for Drawer {
    fn ticket(&self, _: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        let ticket = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let ticket = ticket.ok_or_else(|| Error::from_code(Code::NoProvider));
        Box::pin(async { ticket.map(RpcKeys::Ticket) })
    }
}

/// How first calls with a ticket are made
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// They may be carried out again, and need no round trip before.
    Idempotent,
    /// The same, each by a client of its own, with its thread, socket and instance.
    OfNewClients,
    /// They are bound to one replica.
    Bound,
}

/// First calls with a ticket each
pub(crate) struct Ticketed {
    mesh: Mesh,
    drawer: Drawer,
    how: Calls,
    client: RpcClient,
    calls: u64,
    target: SocketAddr,
}

impl Ticketed {
    pub(crate) async fn start(how: Calls) -> Outcome<Self> {
        let mesh = Mesh::start().await?;
        let drawer = Drawer::default();
        Ok(Self {
            client: RpcClient::with_tickets(drawer.clone()),
            target: mesh.server.local_addr(),
            mesh,
            drawer,
            how,
            calls: 0,
        })
    }
}

impl Echo for Ticketed {
    async fn prepare(&mut self, count: u64) -> Outcome<()> {
        self.drawer.fill(&self.mesh.asking, count).await
    }

    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        if self.how == Calls::OfNewClients {
            self.client = RpcClient::with_tickets(self.drawer.clone());
        }
        // To a client a service of another name is another one, with a ticket of its own.
        self.calls += 1;
        let service = format!("{SERVICE}-{}", self.calls);
        let options = RpcOptions::new().server(self.target);
        let options = match self.how {
            Calls::Bound => options,
            Calls::Idempotent | Calls::OfNewClients => options.idempotent(),
        };
        let answer = within(self.client.call(&service, &payload, options)).await?;
        four(&answer.map_err(told)?.payload)
    }
}

/// How fresh nodes make their first request
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// With `fetch`.
    Fetch,
    /// As a call, for which they get a ticket.
    Ticket,
    /// As a call in the session.
    Session,
}

/// First requests of fresh nodes, from their start
pub(crate) struct Fresh {
    mesh: Mesh,
    through: Through,
    node: Option<Node>,
}

impl Fresh {
    pub(crate) async fn start(through: Through) -> Outcome<Self> {
        Ok(Self {
            mesh: Mesh::start().await?,
            through,
            node: None,
        })
    }
}

impl Echo for Fresh {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let node = join(&self.mesh.bootstrap).await?;
        self.node = Some(node.clone());
        let options = match self.through {
            Through::Fetch => return fetch(&node).await.map(|()| payload),
            Through::Ticket => RpcOptions::new().idempotent(),
            Through::Session => RpcOptions::new().forward_secret(),
        };
        let client = RpcClient::new(node);
        let answer = within(client.call(SERVICE, &payload, options)).await?;
        four(&answer.map_err(told)?.payload)
    }

    async fn settle(&mut self) -> Outcome<()> {
        if let Some(node) = self.node.take() {
            node.stop().await;
        }
        Ok(())
    }
}

/// Has a request answered by the service of tickets, which answers any other path at once.
async fn fetch(node: &Node) -> Outcome<()> {
    let request = Request::post(format!("https://{SERVICE}.mesh/")).body(Body::empty());
    let response = within(node.fetch(request.map_err(told)?)).await?;
    response.map_err(told).map(drop)
}

/// Requests through `fetch` in a session that is up
pub(crate) struct Fetching(Mesh);

impl Fetching {
    pub(crate) async fn start() -> Outcome<Self> {
        Mesh::start().await.map(Self)
    }
}

impl Echo for Fetching {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        fetch(&self.0.asking).await.map(|()| payload)
    }
}

/// Calls in a session that is up
pub(crate) struct InSession {
    client: RpcClient,
    _mesh: Mesh,
}

impl InSession {
    pub(crate) async fn start() -> Outcome<Self> {
        let mesh = Mesh::start().await?;
        Ok(Self {
            client: RpcClient::new(mesh.asking.clone()),
            _mesh: mesh,
        })
    }
}

impl Echo for InSession {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let options = RpcOptions::new().forward_secret();
        let answer = within(self.client.call(SERVICE, &payload, options)).await?;
        four(&answer.map_err(told)?.payload)
    }
}

/// Counts the datagrams of first calls: those of clients and those of the server, for each call.
pub(crate) fn datagrams_of_ticketed(runtime: &Arc<Runtime>, how: Calls) -> Outcome<Task> {
    let mut first = runtime.block_on(Ticketed::start(how))?;
    let forwarder = Forwarder::start(first.target)?;
    first.target = forwarder.address();
    counting(Arc::clone(runtime), first, forwarder)
}

/// Counts the datagrams of QUIC's first requests with 0-RTT.
pub(crate) fn datagrams_of_early(runtime: &Arc<Runtime>) -> Outcome<Task> {
    let mut first = runtime.block_on(Early::start(false))?;
    let forwarder = Forwarder::start(first.target)?;
    first.target = forwarder.address();
    counting(Arc::clone(runtime), first, forwarder)
}

pub(crate) fn counting(runtime: Arc<Runtime>, mut first: impl Echo, forwarder: Forwarder) -> Outcome<Task> {
    Ok(Box::new(move |count| {
        runtime.block_on(first.prepare(count))?;
        let before = forwarder.counts();
        for _ in 0..count {
            runtime.block_on(first.echo([0; 4]))?;
            runtime.block_on(first.settle())?;
        }
        let after = forwarder.counts();
        let [there, back] = [0, 1].map(|way| (after[way] - before[way]) as f64 / count as f64);
        Ok(format!(r#"{{"there":{there},"back":{back}}}"#))
    }))
}
