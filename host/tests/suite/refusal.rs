//! A node that cannot start is told why.

use selfsame_codec::Code;
use selfsame_host::{Error, Node};

use crate::common::nodes::{bootstrap, member};

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
        assert_eq!(error.code(), Some(Code::ForbiddenAddress), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&first.addresses()[0]) && text.contains("allow_private (--allow-private)"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn node_without_bootstrap_and_address_is_refused() {
    let error = why_not(None, None).await;
    assert!(matches!(error, Error::Input(_)), "{error}");
    assert!(error.to_string().contains("--join"), "{error}");
}
