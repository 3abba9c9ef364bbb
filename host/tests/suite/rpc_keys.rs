//! Ticket keys that the replicas of a service share over the mesh.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::time::SystemTime;

use http::StatusCode;
use selfsame_host::rpc::{
    KEYS_PATH, RpcClient, RpcKeys, RpcOptions, RpcRequest, RpcServer, RpcTickets, SharedTicketKeys,
};
use selfsame_host::{Body, Error, Node, Seed};

use crate::common::nodes::{bootstrap, member};
use crate::common::{get, within};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A node with a replica of `check`, by a grant of its owner.
struct Replica {
    node: Node,
    keys: SharedTicketKeys,
    server: RpcServer,
}

impl Replica {
    async fn start(owner: &Seed, first: &Node) -> Self {
        let seed = Seed::generate().expect("a seed");
        let id = seed.peer_id("test").expect("an id");
        let grant = owner.grant("test", "check", id, SystemTime::now() + DAY);
        let builder = owned(owner, first).seed(seed).grant(grant.expect("a grant"));
        let node = within(builder.start()).await.expect("a node");
        let keys = SharedTicketKeys::start(&node, "check").expect("keys");
        let echo = async |request: RpcRequest| Ok(request.payload);
        let server = RpcServer::builder("test", "check", keys.clone())
            .idempotent()
            .start(SocketAddr::from(([127, 0, 0, 1], 0)), echo)
            .expect("a server");
        within(node.serve("check", server.tickets([server.local_addr()]).expect("tickets")))
            .await
            .expect("it is served");
        Self { node, keys, server }
    }
}

/// A node that means the names of an owner.
fn owned(owner: &Seed, first: &Node) -> selfsame_host::Builder {
    let key = owner.owner_key("test").expect("a key");
    member().owner(key).bootstrap(bootstrap(first))
}

/// Tickets of the mesh, counted.
struct Counted(Node, Arc<AtomicUsize>);

impl RpcTickets for Counted {
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.ticket(service)
    }
}

/// Whether replicas open the same ticket.
async fn open_the_same(caller: &Node, replicas: &[&Replica]) -> bool {
    let asked = Arc::new(AtomicUsize::new(0));
    let client = RpcClient::with_tickets(Counted(caller.clone(), Arc::clone(&asked)));
    for replica in replicas {
        let options = RpcOptions::new().idempotent().server(replica.server.local_addr());
        // Until the replicas have the same keys, tickets may come from the wrong one time and again.
        if within(client.call("check", b"ping", options)).await.is_err() {
            return false;
        }
    }
    asked.load(Ordering::Relaxed) == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_tell_each_other_their_ticket_keys() {
    let owner = Seed::generate().expect("a seed");
    let first = within(member().start()).await.expect("a node");
    let caller = within(owned(&owner, &first).start()).await.expect("a node");
    let one = Replica::start(&owner, &first).await;
    let other = Replica::start(&owner, &first).await;
    let both = [&one, &other];
    within(async { while !open_the_same(&caller, &both).await {} }).await;

    let late = Replica::start(&owner, &first).await;
    within(async { while !open_the_same(&caller, &[&one, &other, &late]).await {} }).await;
    late.keys.renew().expect("another key");
    assert!(!open_the_same(&caller, &[&one, &late]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_keys_are_told_to_replicas_alone() {
    let owner = Seed::generate().expect("a seed");
    let first = within(member().start()).await.expect("a node");
    let replica = Replica::start(&owner, &first).await;
    let stranger = within(owned(&owner, &first).start()).await.expect("a node");
    let url = format!("https://check.mesh{KEYS_PATH}");
    let ask = async |node: &Node| {
        let request = http::Request::post(&url).body(Body::empty()).expect("a request");
        within(node.fetch(request)).await.expect("an answer").status()
    };
    assert_eq!(ask(&stranger).await, StatusCode::FORBIDDEN);
    within(async { while ask(&replica.node).await != StatusCode::OK {} }).await;
    let wrong = within(stranger.fetch(get(&url))).await.expect("an answer");
    assert_eq!(wrong.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_name_of_nobody_are_not_shared() {
    let node = within(member().start()).await.expect("a node");
    let refused = SharedTicketKeys::start(&node, "check").expect_err("anybody may serve it");
    assert!(refused.to_string().contains("ticket key"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_do_not_outlive_shared_keys() {
    let owner = Seed::generate().expect("a seed");
    let first = within(member().start()).await.expect("a node");
    let node = within(owned(&owner, &first).start()).await.expect("a node");
    let minute = Duration::from_secs(60);
    let keys = SharedTicketKeys::rotating(&node, "check", minute).expect("keys");
    let start = |life| {
        RpcServer::builder("test", "check", keys.clone())
            .ticket_life(life)
            .start(
                SocketAddr::from(([127, 0, 0, 1], 0)),
                async |request: RpcRequest| Ok(request.payload),
            )
    };
    assert!(matches!(start(2 * minute), Err(Error::Input(_))));
    let server = start(minute).expect("a server");
    assert!(matches!(server.rotate_ticket_keys(), Err(Error::Input(_))));
    for period in [Duration::ZERO, 31 * DAY] {
        assert!(SharedTicketKeys::rotating(&node, "check", period).is_err());
    }
}
