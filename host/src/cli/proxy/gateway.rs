//! Passes requests of local programs on to services.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::fmt::Write as _;
use core::time::Duration;

use http::header::{CONNECTION, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING, UPGRADE, VIA};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use selfsame_host::{Body, Node, Upgraded};

use super::problem::{Problem, Refusal};
use super::stages::{Ending, Stage, Stages};
use super::{AnyBody, listener, nothing, settings, target};

/// Digits of the node's id that tell this proxy from others.
const DIGITS: usize = 16;

/// The way from local programs to services
pub(super) struct Gateway {
    node: Node,
    /// What the proxy is called in the fields of messages.
    pseudonym: String,
    settings: settings::Defaults,
    ending: Ending,
}

impl Gateway {
    pub(super) fn new(node: Node, settings: settings::Defaults) -> Arc<Self> {
        let mut pseudonym = String::from("selfsame-");
        let id = node.id().to_string();
        _ = pseudonym.write_str(&id[..DIGITS]);
        Arc::new(Self {
            node,
            pseudonym,
            settings,
            ending: Ending::new(),
        })
    }

    /// Follows how the proxy ends, for what is under way.
    pub(super) fn stages(&self) -> Stages {
        self.ending.stages()
    }

    /// Lets the requests that are under way finish, for at most so long; those that are left are answered 502.
    pub(super) async fn drain(&self, longest: Duration) {
        self.ending.drain(longest).await;
    }

    /// Answers a request, whatever becomes of it.
    pub(super) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<AnyBody>, Infallible> {
        let mut stages = self.stages();
        let answered = if target::is_tunnel(request.method()) {
            self.tunnel(request)
        } else {
            tokio::select! {
                answered = self.forward(request) => answered,
                () = stages.reached(Stage::Over) => Err(Problem::ending()),
            }
        };
        Ok(answered.unwrap_or_else(|problem| problem.response(&self.pseudonym)))
    }

    /// Opens a tunnel, at whose other end is this gateway again: requests in it are passed on like all others.
    fn tunnel(self: &Arc<Self>, mut request: Request<Incoming>) -> Result<Response<AnyBody>, Problem> {
        target::service_of_tunnel(request.uri())?;
        let upgrade = hyper::upgrade::on(&mut request);
        let gateway = Arc::clone(self);
        tokio::spawn(async move {
            match upgrade.await {
                Ok(connection) => listener::serve(connection, gateway, None).await,
                Err(error) => tracing::debug!(%error, "a tunnel broke"),
            }
        });
        Ok(Response::new(nothing()))
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<AnyBody>, Problem> {
        let service = target::service_of(request.version(), request.uri(), request.headers())?;
        let upgrade = hyper::upgrade::on(&mut request);
        let request = self.outgoing(&service, request)?;
        let answered = self.node.fetch(request).await;
        let response = answered.map_err(|error| {
            tracing::debug!(service, %error, "a request has no answer");
            Problem::unanswered(&service, &error)
        })?;
        Ok(self.incoming(&service, response, upgrade))
    }

    /// The request as it goes into the mesh.
    fn outgoing(&self, service: &str, request: Request<Incoming>) -> Result<Request<Incoming>, Refusal> {
        let (mut head, body) = request.into_parts();
        if self.has_passed(&head.headers) {
            return Err(Refusal::Loop);
        }
        if head.headers.contains_key(TRANSFER_ENCODING) && !settings::is_chunked_alone(&head.headers) {
            return Err(Refusal::Encoding);
        }
        let options = settings::take(&mut head.headers, &self.settings)?;
        head.extensions.insert(options);
        // The request was asked to go on already when its body is read.
        head.headers.remove(EXPECT);
        head.headers.remove(HOST);
        if !may_upgrade(head.version, &head.headers) {
            head.headers.remove(UPGRADE);
        }
        self.sign(&mut head.headers, head.version);
        let path = head.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let url = Uri::builder()
            .scheme("https")
            .authority(format!("{service}.mesh"))
            .path_and_query(path);
        head.uri = url
            .build()
            .map_err(|_| Refusal::Malformed("the service's name is none"))?;
        Ok(Request::from_parts(head, body))
    }

    /// The answer as a local program gets it.
    fn incoming(&self, service: &str, response: Response<Body>, upgrade: OnUpgrade) -> Response<AnyBody> {
        let (mut head, body) = response.into_parts();
        settings::remove(&mut head.headers);
        self.sign(&mut head.headers, Version::HTTP_11);
        if head.status != StatusCode::SWITCHING_PROTOCOLS {
            return Response::from_parts(head, body.map_err(Into::into).boxed_unsync());
        }
        if let Some(mesh) = body.into_upgraded() {
            let (service, mut stages) = (service.to_owned(), self.stages());
            tokio::spawn(async move {
                tokio::select! {
                    () = connect(&service, upgrade, mesh) => {}
                    () = stages.reached(Stage::Over) => {}
                }
            });
        }
        Response::from_parts(head, nothing())
    }

    /// Adds this proxy to those that a message passed (RFC 9110, section 7.6.3).
    fn sign(&self, headers: &mut HeaderMap, version: Version) {
        let version = if version == Version::HTTP_10 { "1.0" } else { "1.1" };
        if let Ok(value) = HeaderValue::try_from(format!("{version} {}", self.pseudonym)) {
            headers.append(VIA, value);
        }
    }

    /// Whether a message passed this proxy before.
    fn has_passed(&self, headers: &HeaderMap) -> bool {
        let values = headers
            .get_all(VIA)
            .iter()
            .filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|hop| hop.split_whitespace().nth(1) == Some(&self.pseudonym))
    }
}

/// Whether the field Upgrade of a request counts: in HTTP/1.1, and where Connection names it (RFC 9110, section 7.8).
fn may_upgrade(version: Version, headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut options = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    version != Version::HTTP_10 && options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
}

/// Carries bytes between a program and a service until both have ended.
async fn connect(service: &str, upgrade: OnUpgrade, mut mesh: Upgraded) {
    let connected = async {
        let program = upgrade.await.map_err(std::io::Error::other)?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(program), &mut mesh).await
    };
    if let Err(error) = connected.await {
        tracing::debug!(service, %error, "a connection broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_counts_where_the_connection_says_so() {
        let named = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.append(CONNECTION, HeaderValue::from_static(value));
            headers
        };
        assert!(may_upgrade(Version::HTTP_11, &named("keep-alive, Upgrade")));
        assert!(!may_upgrade(Version::HTTP_10, &named("upgrade")));
        assert!(!may_upgrade(Version::HTTP_11, &named("keep-alive")));
        assert!(!may_upgrade(Version::HTTP_11, &HeaderMap::new()));
    }
}
