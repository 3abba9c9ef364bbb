//! The command line: what it prints, and how it ends.

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use crate::common::run::{fail, run, stderr, succeed};
use crate::common::running::Running;
use std::thread;

use serde_json::Value;

const NO_ID: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn help_shows_examples_and_exit_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = succeed(folder.path(), &["--help"]);
    assert!(
        help.contains("Examples:")
            && help.contains("Exit codes:")
            && help.contains("selfsame node --network")
    );
    for command in [
        "node", "proxy", "nodes", "ring", "doctor", "find", "store", "call", "grant", "capsule",
    ] {
        let help = succeed(folder.path(), &[command, "--help"]);
        assert!(help.contains("Example"), "{command}: {help}");
    }
    assert!(succeed(folder.path(), &["--version"]).starts_with("selfsame "));
}

/// A command line, with `ID` for some peer id, and what its error says.
const MISTAKES: &[(&str, &[&str])] = &[
    ("", &["node", "find"]),
    ("frobnicate", &["frobnicate"]),
    ("node --network t --lisen x", &["--lisen", "--listen"]),
    ("id", &["selfsame id --help"]),
    ("id new", &["--network"]),
    ("id new --network=", &["1 to 63"]),
    (
        "id show --network t --data nowhere",
        &["nowhere", "selfsame id new"],
    ),
    ("owner show --network t", &["owner.key", "selfsame owner new"]),
    (
        "grant --network t --name x --to abc",
        &["abc", "64 hexadecimal digits"],
    ),
    ("grant --network t --name x --to ID --expires 0d", &["30d"]),
    (
        "grant --network t --name x --to ID --expires 99999999999999999999d",
        &["30d"],
    ),
    (
        "grant --network t --name x --to ID --revoke abc",
        &["abc", "64 hexadecimal digits"],
    ),
    ("find x --network t", &["--owner", "--unowned"]),
    ("find x --network t --unowned", &["--join"]),
    (
        "find x --network t --unowned --join nonsense",
        &["nonsense", "ws://"],
    ),
    (
        "find x --network t --unowned --join ws://127.0.0.1:1",
        &["#ID", "--trust-on-first-use"],
    ),
    (
        "find x --network t --unowned --join ws://127.0.0.1:1#abc",
        &["abc", "64 hexadecimal digits"],
    ),
    (
        "find x --network t --unowned --owner ID",
        &["--owner", "--unowned"],
    ),
    (
        "call https://x.org/ --network t --unowned",
        &["https://NAME.mesh/path"],
    ),
    (
        "call https://x.mesh/ --network t --unowned -H x",
        &["name: value"],
    ),
    ("call https://x.mesh/ --network t --unowned -d @none", &["none"]),
    (
        "node --network t --listen wss://127.0.0.1:0",
        &["wss://127.0.0.1:0", "proxy"],
    ),
    (
        "node --network t --listen tcp://127.0.0.1",
        &["tcp://127.0.0.1", "port"],
    ),
    (
        "node --network t --address ws://10.1.2.3:7000",
        &["ForbiddenAddress", "10.1.2.3"],
    ),
    (
        "proxy --network t --unowned --listen localhost:15001",
        &["localhost:15001", "127.0.0.1"],
    ),
    (
        "node --network t --metrics localhost:9464",
        &["localhost:9464", "127.0.0.1"],
    ),
    (
        "capsule serve --listen localhost:7300",
        &["localhost:7300", "127.0.0.1"],
    ),
    ("capsule", &["selfsame capsule --help"]),
    (
        "capsule heads short --server http://127.0.0.1:1",
        &["short", "52 characters"],
    ),
    ("capsule heads NAME", &["--server", "--network"]),
    ("capsule heads NAME --server ftp://x", &["ftp://x", "https://"]),
    (
        "capsule heads NAME --server http://x/#abc",
        &["abc", "64 hexadecimal digits"],
    ),
    ("capsule heads NAME --network t", &["--join"]),
    (
        "capsule read NAME abc --server http://127.0.0.1:1",
        &["abc", "name of a record"],
    ),
    (
        "capsule append NAME --server http://127.0.0.1:1",
        &["capsule.key", "--key"],
    ),
    ("capsule verify none.capsule", &["none.capsule"]),
    ("node --network t --serve check", &["check", "NAME=http://"]),
    ("node --network t --grant none.grant", &["none.grant"]),
    (
        "node --network t --grant no.grant",
        &["no.grant", "selfsame grant"],
    ),
    (
        "node --network t --grant other.grant",
        &["other.grant", "no grant", "selfsame grant"],
    ),
];

#[test]
fn mistakes_are_named_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("no.grant"), "not a grant!").expect("a file");
    std::fs::write(path.join("other.grant"), NO_ID).expect("a file");
    for (line, words) in MISTAKES {
        let line = line.replace("ID", NO_ID).replace("NAME", &"a".repeat(52));
        let arguments: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        fail(path, &arguments, 2, words);
    }
}

#[test]
fn wrong_address_of_a_bootstrap_is_named() {
    let ring = Ring::start();
    let path = ring.path();
    let (address, _) = ring.join.split_once('#').expect("an id");
    let place = address.trim_end_matches("/.mesh");
    let wrong = format!("{address}#{NO_ID}");
    for (network, join, code) in [("t", &wrong, "WrongPeer"), ("other", &ring.join, "WrongNetwork")] {
        let line =
            format!("find check --allow-private --unowned --log error --network {network} --join {join}");
        let line: Vec<&str> = line.split(' ').collect();
        fail(path, &line, 2, &[code, place]);
    }
    let listen = ["node", "--network", "t", "--data", "three", "--listen", place];
    fail(path, &listen, 2, &["cannot listen", place]);
}

#[test]
fn an_identity_is_made_once_and_only_its_user_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let id = succeed(path, &["id", "new", "--network", "one", "--data", "d"]);
    assert_eq!(id.len(), 64);
    fail(
        path,
        &["id", "new", "--network", "one", "--data", "d"],
        2,
        &["identity.key", "not replaced"],
    );
    assert_eq!(
        succeed(path, &["id", "show", "--network", "one", "--data", "d"]),
        id
    );
    assert_ne!(
        succeed(path, &["id", "show", "--network", "two", "--data", "d"]),
        id
    );
    let shown = json(&succeed(
        path,
        &["id", "show", "--network", "one", "--data", "d", "--json"],
    ));
    assert_eq!(shown["id"], id);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path.join("d/identity.key"))
            .expect("the file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    for damage in ["", "abc", "\u{0}\u{1}", &"g".repeat(64)] {
        std::fs::write(path.join("d/identity.key"), damage).expect("a file");
        fail(
            path,
            &["id", "show", "--network", "one", "--data", "d"],
            2,
            &["identity.key", "64 hexadecimal digits"],
        );
    }
}

#[test]
fn errors_are_json_when_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let join = format!("ws://127.0.0.1:1#{NO_ID}");
    let output = run(
        folder.path(),
        &[
            "find",
            "x",
            "--network",
            "t",
            "--unowned",
            "--join",
            &join,
            "--json",
        ],
    );
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_str(&stderr(&output)).expect("one line of JSON");
    assert_eq!(json["exit"], 3);
    assert!(json["code"].is_string() && json["error"].is_string(), "{json}");
}

#[test]
fn a_store_that_cannot_be_used_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    succeed(path, &["id", "new", "--network", "t", "--data", "d"]);
    std::fs::write(path.join("d/store"), "damaged").expect("a file");
    fail(
        path,
        &["node", "--network", "t", "--data", "d"],
        5,
        &["d/store", "corrupt", "move it away"],
    );
    assert_eq!(
        std::fs::read_to_string(path.join("d/store")).expect("the file"),
        "damaged"
    );
}

/// An HTTP server that answers one request after the other with what it was asked.
fn upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("a timeout");
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|len| len == 1) {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request).to_lowercase();
            let caller = request
                .lines()
                .filter(|line| line.starts_with("selfsame-caller: "))
                .collect::<Vec<_>>()
                .join("|");
            let first = request.lines().next().unwrap_or_default();
            let body = format!("{first}; {caller}");
            let head = format!(
                "HTTP/1.1 202 Accepted\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream
                .write_all(format!("{head}{body}").as_bytes())
                .expect("a write");
        }
    });
    port
}

/// Two nodes of one ring; the first serves `check` with a grant, from a server that echoes.
struct Ring {
    folder: tempfile::TempDir,
    owner: String,
    id: String,
    join: String,
    first: Running,
    second: Running,
}

impl Ring {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let owner = succeed(path, &["owner", "new", "--network", "t"]);
        let id = succeed(path, &["id", "new", "--network", "t", "--data", "one"]);
        let grant = succeed(path, &["grant", "--network", "t", "--name", "check", "--to", &id]);
        std::fs::write(path.join("check.grant"), grant).expect("a file");
        let node = [
            "node",
            "--network",
            "t",
            "--listen",
            "ws://127.0.0.1:0",
            "--allow-private",
            "--owner",
            &owner,
        ];
        let forward = format!("check=http://127.0.0.1:{}", upstream());
        let serve = ["--data", "one", "--serve", &forward, "--grant", "check.grant"];
        let mut first = Running::start(path, &[&node[..], &serve].concat());
        let started = first.event("started");
        assert_eq!(started["id"], id);
        let join = format!("{}#{id}", started["addresses"][0].as_str().expect("an address"));
        first.event("serving");
        let mut second = Running::start(path, &[&node[..], &["--data", "two", "--join", &join]].concat());
        assert_eq!(second.event("joined")["status"]["joined"], true);
        Self {
            folder,
            owner,
            id,
            join,
            first,
            second,
        }
    }

    /// A command of a client that means names of the ring's owner.
    fn owned<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        [
            command,
            &[
                "--network",
                "t",
                "--join",
                &self.join,
                "--allow-private",
                "--owner",
                &self.owner,
            ],
        ]
        .concat()
    }

    /// A command of a client that means names without an owner.
    fn unowned<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        [
            command,
            &[
                "--network",
                "t",
                "--join",
                &self.join,
                "--allow-private",
                "--unowned",
            ],
        ]
        .concat()
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn names_are_found_called_and_stored() {
    let ring = Ring::start();
    let path = ring.path();
    let found = succeed(path, &ring.owned(&["find", "check"]));
    assert!(found.starts_with(&ring.id), "{found}");
    assert_eq!(
        json(&succeed(path, &ring.owned(&["find", "check", "--json"])))["peer"],
        ring.id
    );
    for command in [&["find", "nobody"][..], &["call", "https://nobody.mesh/"]] {
        fail(path, &ring.owned(command), 4, &["nobody serves this name"]);
    }

    let caller = succeed(path, &["id", "new", "--network", "t", "--data", "caller"]);
    let call = [
        "call",
        "https://check.mesh/a?b",
        "--data",
        "caller",
        "-H",
        "selfsame-caller: forged",
    ];
    let answer = succeed(path, &ring.owned(&call));
    assert_eq!(answer, format!("get /a?b http/1.1; selfsame-caller: {caller}"));
    let answer = json(&succeed(
        path,
        &ring.owned(&["call", "https://check.mesh/", "-d", "body", "--json"]),
    ));
    assert_eq!(answer["status"], 202);
    assert!(
        answer["body"]
            .as_str()
            .is_some_and(|body| body.starts_with("post / http/1.1")),
        "{answer}"
    );

    let stored = json(&succeed(
        path,
        &ring.unowned(&["store", "thing", "--data", "caller", "--json"]),
    ));
    assert_eq!(stored["peer"], caller);
    let found = succeed(path, &ring.unowned(&["find", "thing"]));
    assert!(found.starts_with(&caller), "{found}");
    fail(
        path,
        &ring.owned(&["store", "check", "--data", "caller"]),
        2,
        &["grant", "check"],
    );

    let in_use = ["node", "--data", "two", "--network", "t"];
    fail(path, &in_use, 5, &["in use by another process"]);
    assert_eq!(ring.second.end(), Some(0));
    assert_eq!(ring.first.end(), Some(0));
}

#[cfg(unix)]
#[test]
fn grants_are_read_again_when_the_node_is_told_to() {
    let mut ring = Ring::start();
    let path = ring.path().to_owned();
    let grant = succeed(
        &path,
        &[
            "grant",
            "--network",
            "t",
            "--name",
            "check",
            "--to",
            &ring.id,
            "--expires",
            "60d",
        ],
    );
    std::fs::write(path.join("check.grant"), grant).expect("a file");
    ring.first.signal("-HUP");
    assert_eq!(ring.first.event("renewed")["grant"], "check.grant");
    ring.first.event("published");
    std::fs::write(path.join("check.grant"), "nonsense").expect("a file");
    ring.first.signal("-HUP");
    // The old one is in force.
    let answer = succeed(&path, &ring.owned(&["call", "https://check.mesh/"]));
    assert!(answer.starts_with("get / http/1.1"), "{answer}");
    assert_eq!(ring.second.end(), Some(0));
    assert_eq!(ring.first.end(), Some(0));
}

#[test]
fn a_node_that_is_killed_comes_back_as_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let arguments = [
        "node",
        "--network",
        "t",
        "--data",
        "d",
        "--listen",
        "ws://127.0.0.1:0",
        "--allow-private",
    ];
    let mut node = Running::start(path, &arguments);
    let id = node.event("started")["id"].clone();
    node.event("joined");
    drop(node);
    let mut node = Running::start(path, &arguments);
    assert_eq!(node.event("started")["id"], id);
    node.event("joined");
    assert_eq!(node.end(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_node_that_is_terminated_ends_although_its_input_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    succeed(path, &["id", "new", "--network", "n", "--data", "d"]);
    let listening = ["--listen", "ws://127.0.0.1:0", "--allow-private"];
    let of = ["node", "--network", "n", "--data", "d"];
    let mut node = Running::start(path, &[&of[..], &listening].concat());
    node.event("joined");
    // Held, because waiting for a child closes it.
    let input = node.child.stdin.take();
    node.signal("-TERM");
    node.event("left");
    assert!(node.child.wait().expect("an end").success());
    drop(input);
}
