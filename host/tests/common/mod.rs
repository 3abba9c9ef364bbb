//! What the tests with real sockets share.

use core::convert::Infallible;
use core::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::{Body, Builder, Node};
use tokio::time::timeout;

/// What one step of a test may take, on a machine that does much else; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("an end in time")
}

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

/// A request without a body.
pub(crate) fn get(url: &str) -> Request<Body> {
    Request::get(url).body(Body::empty()).expect("a request")
}

/// The body of an answer.
pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}
