//! The sidecar as a process, and a program beside it.

use core::net::SocketAddr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use selfsame_host::Node;

use super::command::selfsame;
use super::nodes::{bootstrap, ring};
use super::within;

/// A sidecar, which ends with the test
pub(crate) struct Sidecar {
    child: Child,
    lines: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    pub(crate) id: String,
    pub(crate) address: SocketAddr,
}

impl Sidecar {
    /// Starts a sidecar in the network of the tests and waits until it serves what it exposes.
    pub(crate) fn start(join: &str, expose: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = selfsame(folder.path());
        command.args([
            "--json",
            "proxy",
            "--network",
            "test",
            "--unowned",
            "--allow-private",
        ]);
        command.args(["--listen", "127.0.0.1:0", "--join", join]);
        for name in expose {
            command.args(["--expose", name]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut sidecar = Self {
            child,
            lines,
            folder,
            id: String::new(),
            address: ([127, 0, 0, 1], 0).into(),
        };
        sidecar.id = sidecar.told("started")["id"].as_str().expect("an id").into();
        let address = sidecar.told("proxy")["address"].clone();
        sidecar.address = address
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("an address");
        sidecar.told("joined");
        for _ in expose {
            sidecar.told("published");
        }
        sidecar
    }

    /// The next event of a kind.
    pub(crate) fn told(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("its output");
            assert!(
                read > 0,
                "it ended before {event}; {}",
                self.folder.path().display()
            );
            let value: Value = serde_json::from_str(&line).expect("JSON");
            if value["event"] == event {
                return value;
            }
        }
    }

    /// Sends the process a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends a request as a program does that has it for a proxy.
    pub(crate) async fn ask(&self, request: Request<impl Into<Bytes>>) -> Response<Incoming> {
        let socket = within(TcpStream::connect(self.address))
            .await
            .expect("the sidecar listens");
        send(socket, request).await
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A node with a sidecar in its network.
pub(crate) async fn beside(expose: &[String]) -> (Node, Sidecar) {
    let node = ring(1).await.remove(0);
    let [join] = bootstrap(&node);
    let expose = expose.to_vec();
    let started = tokio::task::spawn_blocking(move || Sidecar::start(&join, &expose));
    let sidecar = within(started).await.expect("a sidecar");
    (node, sidecar)
}

/// Sends a request on a connection, its URL as it is.
pub(crate) async fn send(
    socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<impl Into<Bytes>>,
) -> Response<Incoming> {
    let (mut sender, connection) = within(http1::handshake(TokioIo::new(socket)))
        .await
        .expect("a connection");
    tokio::spawn(connection.with_upgrades());
    let request = request.map(|body| Full::new(body.into()));
    within(sender.send_request(request)).await.expect("an answer")
}

/// The body of an answer.
pub(crate) async fn read(response: Response<Incoming>) -> Bytes {
    within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes()
}

/// The body of an answer that is JSON.
pub(crate) async fn json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&read(response).await).expect("JSON")
}
