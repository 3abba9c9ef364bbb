//! The example `appauth` as a process, asked through the mesh.

use core::time::Duration;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::SystemTime;

use http::{Request, StatusCode};
use selfsame_host::{Body, Node, OwnerKey, Seed};
use serde_json::Value;

use crate::common::{get, text, within};

/// The program; `cargo test` builds it together with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folder = test.parent().and_then(Path::parent).expect("the build folder");
    let program = folder
        .join("examples")
        .join("appauth")
        .with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "build it first: cargo build -p selfsame-host --example appauth"
    );
    program
}

/// The service, which ends with the test.
struct Service {
    child: Child,
    bootstrap: String,
    /// Held open: a service whose output is closed ends.
    _output: ChildStdout,
}

impl Service {
    fn start(folder: &Path, owner: &Seed) -> Self {
        let seed = Seed::generate().expect("a seed");
        seed.save(&folder.join("data/identity.key")).expect("a file");
        let id = seed.peer_id("test").expect("an id");
        let expires = SystemTime::now() + Duration::from_secs(600);
        let grant = owner.grant("test", "check", id, expires).expect("a grant");
        let mut child = Command::new(program())
            .current_dir(folder)
            .args([
                "--network",
                "test",
                "--listen",
                "ws://127.0.0.1:0",
                "--data",
                "data",
                "--users",
                "users.json",
            ])
            .args([
                "--allow-private",
                "--end-with-input",
                "--grant",
                &grant.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut bootstrap = String::new();
        let mut output = child.stdout.take().expect("its output");
        for line in BufReader::new(&mut output).lines() {
            let message: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            match message["event"].as_str() {
                Some("started") => {
                    let address = message["addresses"][0].as_str().expect("an address");
                    bootstrap = format!("{address}#{id}");
                }
                // Whoever waits for the service looks at the status, and no neighbour may come whose news would bring it.
                Some("serving") => {
                    assert_eq!(message["status"]["services"][0]["name"], "check");
                    break;
                }
                _ => {}
            }
        }
        assert!(!bootstrap.is_empty(), "it ended before it served");
        Self {
            child,
            bootstrap,
            _output: output,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn write_users(path: &Path) {
    let salt = *b"sixteen bytes :)";
    let mut hash = [0; 32];
    let cost = scrypt::Params::new(14, 8, 1).expect("parameters");
    scrypt::scrypt("caf\u{e9}".as_bytes(), &salt, &cost, &mut hash).expect("a hash");
    let users = serde_json::json!({ "ada": { "salt": hex(&salt), "hash": hex(&hash) } });
    std::fs::write(path, users.to_string()).expect("a file");
}

async fn caller(service: &Service, owner: OwnerKey) -> Node {
    let node = Node::builder("test")
        .in_memory()
        .allow_private(true)
        .owner(owner)
        .bootstrap([&service.bootstrap]);
    within(node.start()).await.expect("a leaf")
}

async fn ask(node: &Node, content: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post("https://check.mesh/")
        .header("content-type", content)
        .body(body.into());
    let response = within(node.fetch(request.expect("a request")))
        .await
        .expect("an answer");
    assert_eq!(response.headers()["served-by"], "wasmtime");
    (response.status(), text(response).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    write_users(&folder.path().join("users.json"));
    let owner = Seed::generate().expect("a seed");
    let service = Service::start(folder.path(), &owner);
    let node = caller(&service, owner.owner_key("test").expect("a key")).await;
    let login =
        |user: &str, password: &str| serde_json::json!({ "user": user, "password": password }).to_string();

    for composed in ["caf\u{e9}", "cafe\u{301}"] {
        let (status, body) = ask(&node, "application/json; charset=utf-8", login("ada", composed)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(
            (&body["ok"], &body["user"]),
            (&Value::from(true), &Value::from("ada"))
        );
    }
    let mut refusals = Vec::new();
    for (user, password) in [("ada", "cafe"), ("bob", "caf\u{e9}")] {
        let (status, body) = ask(&node, "application/json", login(user, password)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        refusals.push(body);
    }
    assert_eq!(
        refusals[0], refusals[1],
        "an unknown user looks like a wrong password"
    );

    let malformed = [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"user":"ada"}"#,
        r#"{"user":1,"password":"x"}"#,
    ];
    for body in malformed
        .map(str::to_owned)
        .into_iter()
        .chain([login("", "x"), login(&"u".repeat(129), "x")])
    {
        assert_eq!(
            ask(&node, "application/json", body.clone()).await.0,
            StatusCode::BAD_REQUEST,
            "{body}"
        );
    }
    assert_eq!(
        ask(&node, "text/plain", login("ada", "x")).await.0,
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
    let large = ask(&node, "application/json", "x".repeat(9000)).await;
    assert_eq!(large.0, StatusCode::PAYLOAD_TOO_LARGE);
    let wrong_method = within(node.fetch(get("https://check.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(wrong_method.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong_method.headers()["allow"], "POST");
}

/// Asks a process to end, as a terminal or a supervisor does.
#[cfg(unix)]
fn terminate(child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("a signal").success());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_asked_while_its_input_stays_open() {
    let folder = tempfile::tempdir().expect("a folder");
    write_users(&folder.path().join("users.json"));
    let owner = Seed::generate().expect("a seed");
    let mut service = Service::start(folder.path(), &owner);
    let input = service.child.stdin.take();
    terminate(&service.child);
    let ended = tokio::task::spawn_blocking(move || service.child.wait().map(|status| (status, service)));
    let (status, _service) = within(ended).await.expect("a thread").expect("its end");
    assert!(status.success(), "{status}");
    drop(input);
}
