//! Nodes on this machine.

use core::convert::Infallible;

use http::{Request, Response};
use selfsame_host::{Body, Builder, Node};

use super::within;

/// A node that listens on a free port of this machine and keeps nothing.
pub(crate) fn member() -> Builder {
    Node::builder("test")
        .in_memory()
        .listen("ws://127.0.0.1:0")
        .allow_private(true)
        .unowned()
}

/// What another node joins through.
pub(crate) fn bootstrap(node: &Node) -> [String; 1] {
    [format!("{}#{}", node.addresses()[0], node.id())]
}

/// A ring of nodes that joined one after the other.
pub(crate) async fn ring(len: usize) -> Vec<Node> {
    let mut nodes = vec![within(member().start()).await.expect("the first node")];
    for _ in 1..len {
        let next = member().bootstrap(bootstrap(&nodes[0])).start();
        nodes.push(within(next).await.expect("another node"));
    }
    nodes
}

/// A service that answers with a text.
pub(crate) fn says(
    text: &'static str,
) -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ 'static {
    tower::service_fn(move |_: Request<Body>| async move { Ok(Response::new(Body::from(text))) })
}
