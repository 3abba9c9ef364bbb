//! The commands `selfsame rpc serve` and `selfsame rpc call`.

use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::common::raw::{Raw, server, values};
use crate::common::run::{fail, succeed};
use crate::common::running::Running;

const NETWORK: [&str; 4] = ["--network", "test", "--allow-private", "--unowned"];

/// Who answers a call of a caller without a ticket.
const IN_SESSION: &str = "https://check.mesh/";

/// A server that answers each POST with `who called: ` and the body, but `fail` with an error.
async fn backend() -> String {
    let address = server(async |mut connection: Raw| {
        loop {
            let head = connection.text_head().await;
            if head.is_empty() {
                return;
            }
            assert!(head.starts_with("POST /rpc "), "{head}");
            let length = values(&head, "content-length")[0].parse().expect("a length");
            let body = connection.bytes(length).await;
            let caller = values(&head, "selfsame-caller")[0].to_owned();
            let status = if body == b"fail" { "500 No" } else { "200 OK" };
            let body = [caller.as_bytes(), b": ", &body].concat();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            connection.send(&[head.as_bytes(), &body].concat()).await;
        }
    })
    .await;
    format!("http://{address}/rpc")
}

/// A node with a replica of `check`; the node, what calls name it by, and where calls arrive.
fn replica(folder: &Path, backend: &str) -> (Running, String, String) {
    let (node, join, serving) = replica_with(folder, backend, &[]);
    let udp = serving["udp"].as_str().expect("an address").to_owned();
    (node, join, udp)
}

/// A node with a replica of `check` and more flags; the node, what calls name it by, and what it tells of itself.
fn replica_with(folder: &Path, backend: &str, more: &[&str]) -> (Running, String, Value) {
    let mut arguments = vec!["rpc", "serve", "check", "--to", backend];
    arguments.extend(["--udp", "127.0.0.1:0", "--ticket-key", "check.key"]);
    arguments.extend(["--router-key", "router.key"]);
    arguments.extend(["--node-listen", "ws://127.0.0.1:0", "--data", "replica"]);
    arguments.extend(NETWORK);
    arguments.extend(more);
    let mut node = Running::start(folder, &arguments);
    let (join, serving) = published(&mut node);
    (node, join, serving)
}

/// Waits until a node has published its service; what calls name it by, and what it tells of its replica.
fn published(node: &mut Running) -> (String, Value) {
    let started = node.event("started");
    let (id, address) = (&started["id"], &started["addresses"][0]);
    let join = format!(
        "{}#{}",
        address.as_str().expect("a URL"),
        id.as_str().expect("an id")
    );
    let serving = node.event("serving-rpc");
    node.event("published");
    (join, serving)
}

fn call<'a>(join: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["rpc", "call", "check", "--join", join];
    arguments.extend(NETWORK);
    arguments.extend(more);
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_a_server_of_this_machine() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let (node, join, udp) = replica(folder.path(), &to);
        succeed(
            folder.path(),
            &["id", "new", "--network", "test", "--data", "caller"],
        );
        let id = succeed(
            folder.path(),
            &["id", "show", "--network", "test", "--data", "caller"],
        );
        let id = id.split_whitespace().last().expect("an id").to_owned();
        let said = succeed(folder.path(), &call(&join, &["--data", "caller", "-d", "ping"]));
        assert_eq!(said, format!("{id}: ping"));
        for (more, server) in [(&[][..], IN_SESSION), (&["--server", &udp], &udp)] {
            let flags = [&["--json", "--idempotent", "-d", "ping"], more].concat();
            let json = succeed(folder.path(), &call(&join, &flags));
            let json: Value = serde_json::from_str(&json).expect("JSON");
            assert_eq!(json["server"], server);
        }
        fail(
            folder.path(),
            &call(&join, &["-d", "fail"]),
            1,
            &["HandlerFailed"],
        );
        assert_eq!(node.end(), Some(0));
    })
    .await
    .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_a_server_over_http() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let (node, join, serving) = replica_with(folder.path(), &to, &["--http", "127.0.0.1:0"]);
        let url = serving["http"].as_str().expect("a URL");
        assert_eq!(serving["addresses"][1].as_str(), Some(url));
        let called = |more: &[&str]| -> Value {
            let json = succeed(
                folder.path(),
                &call(&join, &[&["--json", "-d", "ping"], more].concat()),
            );
            serde_json::from_str(&json).expect("JSON")
        };
        assert_eq!(called(&[])["server"], IN_SESSION);
        let over_http = called(&["--server", url]);
        assert_eq!(over_http["server"].as_str(), Some(url));
        assert!(over_http["body"].as_str().expect("text").ends_with(": ping"));
        let failing = call(&join, &["-d", "fail", "--server", url]);
        fail(folder.path(), &failing, 1, &["HandlerFailed"]);
        assert_eq!(node.end(), Some(0));
    })
    .await
    .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_told_the_addresses_that_were_given() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let first = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = first.local_addr().expect("its address").to_string();
        drop(first);
        let url = format!("http://{at}/rpc");
        let flags = [
            "--http",
            &at,
            "--call-address",
            &url,
            "--call-address",
            "127.0.0.1:9",
        ];
        let (node, join, serving) = replica_with(folder.path(), &to, &flags);
        assert_eq!(serving["addresses"], serde_json::json!([url, "127.0.0.1:9"]));
        let said = succeed(folder.path(), &call(&join, &["-d", "ping"]));
        assert!(said.ends_with(": ping"), "{said}");
        assert_eq!(node.end(), Some(0));
    })
    .await
    .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_pass_through_a_router() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let (node, join, udp) = replica(folder.path(), &to);
        for select in ["bounded", "two"] {
            let mut arguments = vec![
                "rpc",
                "route",
                "--udp",
                "127.0.0.1:0",
                "--router-key",
                "router.key",
            ];
            arguments.extend(["--server", &udp, "--select", select]);
            let mut router = Running::start(folder.path(), &arguments);
            let routing = router.event("routing-rpc");
            let at = routing["udp"].as_str().expect("an address");
            let said = succeed(
                folder.path(),
                &call(&join, &["--json", "--server", at, "-d", "ping"]),
            );
            let said: Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(said["server"].as_str(), Some(&udp[..]));
            assert_eq!(router.exit(), Some(0));
        }
        assert_eq!(node.end(), Some(0));
    })
    .await
    .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_with_a_pre_shared_key_needs_no_mesh() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let serve = ["rpc", "serve", "check", "--to", &to, "--network", "test"];
        let with_key = ["--udp", "127.0.0.1:0", "--pre-shared-key", "check.key"];
        let mut replica = Running::start(folder.path(), &[&serve[..], &with_key].concat());
        let serving = replica.event("serving-rpc");
        let at = serving["udp"].as_str().expect("an address").to_owned();
        let call = |key: &'static str, more: &[&'static str]| {
            let call = [
                "rpc",
                "call",
                "check",
                "--network",
                "test",
                "--pre-shared-key",
                key,
            ];
            let mut arguments = call.map(str::to_owned).to_vec();
            arguments.extend([
                "--server".to_owned(),
                at.clone(),
                "-d".to_owned(),
                "ping".to_owned(),
            ]);
            arguments.extend(more.iter().map(|more| (*more).to_owned()));
            arguments
        };
        let run = |arguments: &[String]| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            succeed(folder.path(), &arguments)
        };
        let said = run(&call("check.key", &["--allow-private"]));
        assert!(said.ends_with(": ping"), "{said}");
        assert_ne!(
            said,
            run(&call("check.key", &["--allow-private"])),
            "each call has a caller of its own"
        );
        let refused = |arguments: &[String], status, texts: &[&str]| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            fail(folder.path(), &arguments, status, texts);
        };
        refused(&call("check.key", &[]), 2, &["ForbiddenAddress"]);
        refused(&call("no.key", &["--allow-private"]), 2, &["no.key"]);
        refused(&call("check.key", &["--unowned"]), 2, &["--unowned"]);
        refused(
            &call("check.key", &["--forward-secret"]),
            2,
            &["--forward-secret"],
        );
        assert_eq!(replica.exit(), Some(0));
    })
    .await
    .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_travel_in_sessions() {
    let folder = tempdir().expect("a folder");
    let to = backend().await;
    tokio::task::spawn_blocking(move || {
        let mut arguments = vec!["rpc", "serve", "check", "--to", &to, "--in-session"];
        arguments.extend(["--node-listen", "ws://127.0.0.1:0", "--data", "replica"]);
        arguments.extend(NETWORK);
        let mut node = Running::start(folder.path(), &arguments);
        let (join, serving) = published(&mut node);
        assert_eq!(serving["udp"], Value::Null);
        for more in [
            &["-d", "ping"][..],
            &["-d", "ping", "--idempotent"],
            &["-d", "ping", "--forward-secret"],
        ] {
            let said = succeed(folder.path(), &call(&join, more));
            assert!(said.ends_with(": ping"), "{said}");
        }
        fail(
            folder.path(),
            &call(&join, &["-d", "fail"]),
            1,
            &["HandlerFailed"],
        );
        assert_eq!(node.end(), Some(0));
    })
    .await
    .expect("it ends");
}

#[test]
fn wrong_flags_are_told_before_anything_starts() {
    let folder = tempdir().expect("a folder");
    let serve = |to: &'static str| {
        let mut arguments = vec!["rpc", "serve", "check", "--to", to, "--ticket-key", "key"];
        arguments.extend(NETWORK);
        arguments
    };
    fail(
        folder.path(),
        &serve("https://example.com/"),
        2,
        &["--to", "http://HOST:PORT/path"],
    );
    for address in ["nowhere", "ftp://example.com/", "192.0.2.1:0"] {
        let mut arguments = serve("http://127.0.0.1:9/");
        arguments.extend(["--call-address", address]);
        fail(
            folder.path(),
            &arguments,
            2,
            &[address, "https://service.example/rpc"],
        );
    }
    for given in [
        &["--udp", "0.0.0.0:7400"][..],
        &["--udp", "127.0.0.1:0", "--http", "[::]:7401"],
    ] {
        let mut arguments = serve("http://127.0.0.1:9/");
        arguments.extend(given);
        let [.., flag, address] = *given else {
            panic!("a flag")
        };
        fail(folder.path(), &arguments, 2, &[flag, address, "--call-address"]);
    }
    fail(
        folder.path(),
        &["rpc", "call", "check", "--network", "test"],
        2,
        &["--owner", "--unowned"],
    );
}
