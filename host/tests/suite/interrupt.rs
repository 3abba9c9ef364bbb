//! How a node ends that is interrupted.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::common::command;
use crate::common::running::Running;

/// A server that takes connections and answers none.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    (listener, format!("slow=http://127.0.0.1:{port}"))
}

#[test]
fn second_interrupt_ends_requests_with_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (silent, forward) = silent();
    let node = [
        "node",
        "--network",
        "t",
        "--data",
        "d",
        "--unowned",
        "--allow-private",
    ];
    let place = [
        "--listen",
        "ws://127.0.0.1:0",
        "--serve",
        &forward,
        "--drain",
        "60s",
    ];
    let mut node = Running::start(path, &[&node[..], &place].concat());
    let started = node.event("started");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let join = format!("{}#{}", text(&started["addresses"][0]), text(&started["id"]));
    node.event("published");
    let call = [
        "call",
        "https://slow.mesh/",
        "--network",
        "t",
        "--unowned",
        "--allow-private",
    ];
    let mut call = command::selfsame(path)
        .args([&call[..], &["--join", &join]].concat())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let request = silent.accept().expect("its request");
    node.signal("-INT");
    assert_eq!(node.event("ending")["longest_ms"], 60_000);
    node.signal("-INT");
    assert_eq!(node.child.wait().expect("an end").code(), Some(130));
    drop(request);
    call.wait().expect("an end");
}
