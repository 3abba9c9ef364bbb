//! A node that cannot start is told why.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use selfsame_codec::{ABI_VERSION, Code};
use selfsame_host::{CoreModule, Error, Event, Limits, Node, Seed};

use crate::common::command::selfsame;
use crate::common::module::core_of;
use crate::common::nodes::{bootstrap, member};
use crate::common::within;

/// Why no node starts at an address and through a bootstrap.
async fn why_not(address: Option<&str>, bootstrap: Option<&str>) -> Error {
    let mut builder = Node::builder("test").in_memory().unowned();
    if let Some(url) = address {
        builder = builder.address(url);
    }
    if let Some(url) = bootstrap {
        builder = builder.bootstrap([url]);
    }
    builder.start().await.expect_err("it cannot start")
}

#[tokio::test]
async fn a_private_address_of_its_own_is_named() {
    let error = why_not(Some("ws://10.0.0.1:7000"), None).await;
    assert_eq!(error.code(), Some(Code::ForbiddenAddress));
    assert!(
        error.to_string().contains("ws://10.0.0.1:7000 is private"),
        "{error}"
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_named() {
    let error = why_not(Some("wss://node.example/elsewhere"), None).await;
    assert_eq!(error.code(), Some(Code::BadAddress));
    assert!(
        error.to_string().contains("wss://node.example/elsewhere"),
        "{error}"
    );
}

#[tokio::test]
async fn a_bootstrap_where_nobody_listens_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = taken.local_addr().expect("its number");
    drop(taken);
    // A path of POSTs is open before the first of them.
    for (scheme, code) in [("ws", Code::DialFailed), ("http", Code::Disconnected)] {
        let url = format!("{scheme}://{place}#{}", "11".repeat(32));
        let error = why_not(None, Some(&url)).await;
        assert_eq!(error.code(), Some(code));
        let text = error.to_string();
        assert!(
            text.contains(&format!("{scheme}://{place}")) && text.contains("refused"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn private_bootstrap_is_named_with_the_option() {
    let first = member().start().await.expect("a member");
    let [url] = bootstrap(&first);
    for address in [None, Some("wss://node.example")] {
        let error = why_not(address, Some(&url)).await;
        assert_eq!(error.code(), Some(Code::NoBootstrap), "{error}");
        let text = error.to_string();
        let told = "a private address was refused: set allow_private (--allow-private)";
        assert!(
            text.contains(&first.addresses()[0]) && text.contains(told),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_option_is_told_while_the_node_tries() {
    let first = member().start().await.expect("a member");
    let [url] = bootstrap(&first);
    let folder = tempfile::tempdir().expect("a folder");
    let mut node = selfsame(folder.path())
        .args(["node", "--network", "test", "--unowned", "--join", &url])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let lines = BufReader::new(node.stderr.take().expect("its log")).lines();
    let told = lines.map(|line| line.expect("a line")).next().expect("a warning");
    let is_running = node.try_wait().expect("its state").is_none();
    node.kill().expect("it ends");
    node.wait().expect("an end");
    assert!(is_running, "{told}");
    for part in ["WARN", "is tried again", &first.addresses()[0], "--allow-private"] {
        assert!(told.contains(part), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_that_has_not_joined_is_waited_for() {
    let seed = || Seed::from_bytes([7; 32]);
    // As behind a reverse proxy, it names itself otherwise than it is reached.
    let first = |url: &str| {
        let node = Node::builder("test").in_memory().seed(seed()).unowned();
        node.listen(url).address("wss://node.example").start()
    };
    for address in [None, Some("wss://other.example")] {
        let out = within(first("ws://127.0.0.1:0")).await.expect("a member");
        within(out.depart()).await.expect("it leaves");
        let place = format!("ws://{}", out.listening()[0]);
        let mut second = Node::builder("test")
            .in_memory()
            .unowned()
            .keep_trying(true)
            .bootstrap([format!("{place}#{}", out.id())]);
        if let Some(url) = address {
            second = second.address(url);
        }
        let second = within(second.start()).await.expect("it is delayed");
        assert!(!within(second.status()).await.expect("a status").joined);
        let mut events = second.events();
        within(out.stop()).await;
        let _first = within(first(&place)).await.expect("it comes back");
        while !within(second.status()).await.expect("a status").joined {
            within(events.recv()).await.expect("an event");
        }
    }
}

#[tokio::test]
async fn node_without_bootstrap_and_address_is_refused() {
    let error = why_not(None, None).await;
    assert!(matches!(error, Error::Input(_)), "{error}");
    assert!(error.to_string().contains("--join"), "{error}");
}

/// A core that gets ready, refuses the first `Join` for another one that is under way, and tells of those that follow.
const BUSY: &str = r#"
  (global $joins (mut i32) (i32.const 0))
  (data (i32.const 64) "\23\05\00\00\00\01\00\00\00\00")                   ;; Event Ready
  (data (i32.const 74) "\ff\08\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")          ;; Wake never
  (data (i32.const 128) "\21\0a\00\00\00\00\00\00\00\06\06\00\00\00\00")  ;; Failed, tag at 133, TooManyRequests
  (data (i32.const 143) "\ff\08\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")         ;; Wake never
  (data (i32.const 160) "\23\0a\00\00\00\05\05\00\00\00again")           ;; Event Published
  (data (i32.const 175) "\ff\08\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")         ;; Wake never
  (func (export "step") (param $handle i32) (param $at i32) (param $len i32) (result i32)
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 23))
    (if (i32.gt_u (local.get $len) (i32.const 8)) (then
      (i32.store (i32.const 133) (i32.load offset=13 (local.get $at)))
      (i32.store (i32.const 0) (select (i32.const 160) (i32.const 128) (global.get $joins)))
      (i32.store (i32.const 4) (i32.const 28))
      (global.set $joins (i32.const 1))))
    (i32.const 0))"#;

#[tokio::test]
async fn join_that_the_core_is_busy_with_is_repeated() {
    let wasm = core_of(ABI_VERSION, BUSY);
    let start = |keep_trying| {
        let core = CoreModule::compile(&wasm, Limits::default()).expect("a core");
        let node = Node::builder("test").in_memory().unowned().core(core);
        node.address("wss://node.example")
            .keep_trying(keep_trying)
            .start()
    };
    let error = within(start(false)).await.expect_err("it does not wait");
    assert_eq!(error.code(), Some(Code::TooManyRequests), "{error}");
    let node = within(start(true)).await.expect("it is delayed");
    let told = within(node.events().recv()).await.expect("an event");
    assert!(
        matches!(&told, Event::Published(name) if name == "again"),
        "{told:?}"
    );
    within(node.stop()).await;
}
