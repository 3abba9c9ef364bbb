//! What the tests with real sockets share.

pub(crate) mod command;
pub(crate) mod module;
pub(crate) mod nodes;
pub(crate) mod raw;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod sidecar;
pub(crate) mod sockets;
pub(crate) mod tickets;

use core::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::Body;
use tokio::time::timeout;

/// What one step of a test may take, on a machine that does much else; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("an end in time")
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
