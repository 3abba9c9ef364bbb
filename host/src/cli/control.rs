//! What a node that runs tells other programs of its machine.
//!
//! It answers on a port of the loopback address that a file in its folder names, to whoever can read that file, and
//! where `--metrics` says, to everybody who can reach that address.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use selfsame_host::{METRICS_TYPE, Node, Status, Telemetry, json};
use serde_json::{Value, json as value};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::args::Member;
use super::duplicates::Duplicates;
use super::listen::{accept, answer, bind};
use super::output::{Failure, Output};

/// Name of the file in a node's folder that says where the node that runs in it answers.
pub(crate) const CONTROL_FILE: &str = "control.json";
/// Connections at a time; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 64;

/// What answers for a node while it lives
#[derive(Debug)]
pub(crate) struct Control {
    metrics: Option<SocketAddr>,
    _tasks: JoinSet<()>,
    _file: ControlFile,
}

impl Control {
    /// Begins to answer.
    pub(crate) async fn open(
        node: &Node,
        member: &Member,
        telemetry: &Arc<Telemetry>,
    ) -> Result<Self, Failure> {
        let mut tasks = JoinSet::new();
        let duplicates = Arc::new(Duplicates::default());
        tasks.spawn({
            let (node, duplicates) = (node.clone(), Arc::clone(&duplicates));
            async move { duplicates.follow(&node).await }
        });
        let desk = |key, is_local| {
            Arc::new(Desk {
                node: node.clone(),
                telemetry: Arc::clone(telemetry),
                duplicates: Arc::clone(&duplicates),
                bootstraps: member.network.join.clone(),
                allow_private: member.network.allow_private,
                uses_dns: member.dns.is_some(),
                key,
                is_local,
            })
        };
        let mut metrics = None;
        if let Some(address) = member.metrics {
            let (listener, address) = bind(address).await?;
            metrics = Some(address);
            let desk = desk(None, address.ip().is_loopback());
            tasks.spawn(accept(listener, MAX_CONNECTIONS, move |socket| {
                serve(socket, Arc::clone(&desk))
            }));
        }
        let (listener, address) = bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let key = new_key()?;
        let file = ControlFile::write(&member.data.folder, address, &key)?;
        let desk = desk(Some(format!("Bearer {key}")), true);
        tasks.spawn(accept(listener, MAX_CONNECTIONS, move |socket| {
            serve(socket, Arc::clone(&desk))
        }));
        Ok(Self {
            metrics,
            _tasks: tasks,
            _file: file,
        })
    }

    /// Says where the metrics are, if they are told.
    pub(crate) fn announce(&self, output: Output) -> Result<(), Failure> {
        self.metrics.map_or(Ok(()), |address| {
            output.print(
                format_args!("metrics at http://{address}/metrics"),
                &value!({ "event": "metrics", "address": address.to_string() }),
            )
        })
    }
}

fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::other(format!("no random bytes: {error}")))?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

/// The file that says where a node answers, which is there as long as the node
#[derive(Debug)]
struct ControlFile(PathBuf);

impl ControlFile {
    fn write(folder: &Path, address: SocketAddr, key: &str) -> Result<Self, Failure> {
        let path = folder.join(CONTROL_FILE);
        // What a node left that was killed; the store says whether another one runs.
        _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let content = value!({ "url": format!("http://{address}"), "key": key });
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{content}\n").as_bytes()));
        match written {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(Failure::other(format!("{}: {error}", path.display()))),
        }
    }
}

impl Drop for ControlFile {
    fn drop(&mut self) {
        // One that is left behind names a port where nobody answers.
        _ = fs::remove_file(&self.0);
    }
}

async fn serve(socket: TcpStream, desk: Arc<Desk>) {
    let service = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.answer(&request).await) }
    });
    answer(socket, service).await;
}

/// Answers questions about a node
struct Desk {
    node: Node,
    telemetry: Arc<Telemetry>,
    duplicates: Arc<Duplicates>,
    bootstraps: Vec<String>,
    allow_private: bool,
    /// Whether it finds its certificates in the DNS.
    uses_dns: bool,
    /// What a request has to have in its field Authorization, if anything.
    key: Option<String>,
    /// Whether only this machine can ask.
    is_local: bool,
}

impl Desk {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if self.is_local && !names_this_machine(request.headers().get(HOST)) {
            return text(
                StatusCode::MISDIRECTED_REQUEST,
                "ask by the IP address, or as localhost\n",
            );
        }
        let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let is_right = |key: &String| bool::from(given.unwrap_or_default().ct_eq(key.as_bytes()));
        if !self.key.as_ref().is_none_or(is_right) {
            return text(StatusCode::UNAUTHORIZED, "the key stands in control.json\n");
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/ring") => self.ring().await,
            (&Method::GET, "/metrics") => self.metrics().await,
            (&Method::GET, _) => text(StatusCode::NOT_FOUND, "there are /metrics and /ring\n"),
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET\n"),
        }
    }

    async fn ring(&self) -> Response<Full<Bytes>> {
        match self.node.status().await {
            Ok(status) => json_response(&value!({
                "version": env!("CARGO_PKG_VERSION"),
                "network": self.node.network(),
                "bootstraps": self.bootstraps,
                "allow_private": self.allow_private,
                "duplicates": self.duplicates.json(),
                "status": self.describe(&status),
            })),
            Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n")),
        }
    }

    /// The status, and how the network admits its members.
    fn describe(&self, status: &Status) -> Value {
        let mut value = json::status(status);
        value["admission"] = match (&status.membership, self.uses_dns) {
            (None, _) => "open",
            (Some(_), false) => "certificates",
            (Some(_), true) => "dns",
        }
        .into();
        value
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        match self.node.status().await {
            Ok(status) => with_type(StatusCode::OK, METRICS_TYPE, self.telemetry.metrics(&status)),
            Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}\n")),
        }
    }
}

/// Whether a request is not for a name that somebody else's page has made lead here (DNS rebinding).
fn names_this_machine(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host else {
        // HTTP/1.0, which no browser speaks.
        return true;
    };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

fn json_response(value: &Value) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, "application/json", format!("{value}\n"))
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", text.to_owned())
}

fn with_type(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_machines_are_refused() {
        for host in [
            "127.0.0.1:9464",
            "localhost:9464",
            "LOCALHOST",
            "[::1]:9464",
            "10.0.0.1",
        ] {
            assert!(
                names_this_machine(Some(&HeaderValue::from_static(host))),
                "{host}"
            );
        }
        for host in [
            "rebound.example:9464",
            "127.0.0.1.rebound.example",
            "localhost.example",
            "",
            "a b",
        ] {
            assert!(
                !names_this_machine(Some(&HeaderValue::from_static(host))),
                "{host}"
            );
        }
        assert!(names_this_machine(None));
    }
}
