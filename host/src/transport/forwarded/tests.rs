use alloc::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::*;
use crate::handle::{Handle, Inbound, Queues};
use crate::transport::{Exchanges, Listener, Server};

/// Cases that the host in TypeScript reads as well.
fn cases() -> Value {
    serde_json::from_str(include_str!("../../../../runtime/test/forwarded.json")).expect("JSON")
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn trusted(proxies: &[String]) -> TrustedProxies {
    TrustedProxies::parse(proxies).expect("proxies")
}

/// The headers of a case, a byte for each character.
fn headers(case: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, field) in [(FORWARDED, "forwarded"), (X_FORWARDED_FOR, "xForwardedFor")] {
        for (at, value) in texts(&case[field]).iter().enumerate() {
            let mut text = if at == 0 { before(case) } else { String::new() };
            text.push_str(value);
            let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(c).expect("a byte")).collect();
            headers.append(&name, HeaderValue::from_bytes(&bytes).expect("a value"));
        }
    }
    headers
}

fn before(case: &Value) -> String {
    let pieces = case["before"].as_array().into_iter().flatten();
    let repeated = pieces.map(|piece| {
        let count = piece[1].as_u64().and_then(|count| usize::try_from(count).ok());
        piece[0]
            .as_str()
            .expect("a text")
            .repeat(count.expect("a number"))
    });
    repeated.collect()
}

#[test]
fn forwarded_headers_give_the_source() {
    let cases = cases();
    let proxies = trusted(&texts(&cases["proxies"]));
    let sources = cases["sources"].as_array().expect("a list");
    assert!(!sources.is_empty());
    for case in sources {
        let [peer, source] = ["peer", "source"].map(|field| case[field].as_str().expect("an address"));
        let found = proxies.source(peer.parse().expect("an address"), &headers(case));
        assert_eq!(found.to_string(), source, "{}", case["what"]);
    }
}

#[test]
fn bad_proxies_are_refused() {
    let bad = texts(&cases()["badProxies"]);
    assert!(!bad.is_empty());
    for proxy in bad {
        let error = TrustedProxies::parse(core::slice::from_ref(&proxy)).expect_err(&proxy);
        assert!(
            error.to_string().contains("such as 192.0.2.1"),
            "{proxy}: {error}"
        );
    }
    assert!(TrustedProxies::parse(&vec!["10.0.0.1".into(); MAX_PREFIXES]).is_ok());
    assert!(TrustedProxies::parse(&vec!["10.0.0.1".into(); MAX_PREFIXES + 1]).is_err());
}

/// A server on loopback that trusts these proxies, and what its driver hears.
async fn server(proxies: &[&str]) -> (Server, core::net::SocketAddr, Queues) {
    let proxies: Vec<String> = proxies.iter().map(ToString::to_string).collect();
    let (handle, queues) = Handle::new();
    let listener = Listener::bind("ws://127.0.0.1:0").await.expect("a port");
    let local = listener.local;
    let exchanges = Exchanges::new(handle.clone());
    let server = Server::start(
        listener,
        &handle,
        &exchanges,
        &Arc::new(trusted(&proxies)),
        &Bytes::new(),
    );
    (server, local, queues)
}

/// The address of the path that a peer with this header opens by WebSocket, then by POST.
async fn remotes(proxies: &[&str], header: &'static str) -> [String; 2] {
    let (_server, local, mut queues) = server(proxies).await;
    let mut request = format!("ws://{local}/.mesh")
        .into_client_request()
        .expect("a request");
    let value = HeaderValue::from_static;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", value("selfsame.1"));
    request.headers_mut().insert(X_FORWARDED_FOR, value(header));
    let tcp = TcpStream::connect(local).await.expect("a connection");
    let _socket = tokio_tungstenite::client_async(request, tcp)
        .await
        .expect("a WebSocket");
    let by_socket = remote(&mut queues).await;
    let post = Request::post("/.mesh")
        .header("content-type", "application/selfsame")
        .header("selfsame-path", "0".repeat(32))
        .header(X_FORWARDED_FOR, header)
        .body(Empty::<Bytes>::new())
        .expect("a request");
    let tcp = TcpStream::connect(local).await.expect("a connection");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tcp))
        .await
        .expect("HTTP");
    tokio::spawn(connection);
    let answer = tokio::spawn(async move { sender.send_request(post).await });
    let by_post = remote(&mut queues).await;
    answer.abort();
    [by_socket, by_post]
}

/// The address of the next path that is opened.
async fn remote(queues: &mut Queues) -> String {
    loop {
        match queues.inbound.recv().await {
            Some(Inbound::Opened { remote, .. }) => return remote,
            Some(_) => {}
            None => panic!("the server ended"),
        }
    }
}

#[tokio::test]
async fn trusted_proxy_forwards_the_address_of_a_path() {
    let remotes = remotes(&["127.0.0.1"], "192.0.2.9, 198.51.100.1").await;
    assert_eq!(remotes, ["198.51.100.1"; 2]);
}

#[tokio::test]
async fn forwarded_header_of_an_untrusted_peer_is_ignored() {
    let remotes = remotes(&["10.0.0.0/8"], "192.0.2.9, 198.51.100.1").await;
    assert_eq!(remotes, ["127.0.0.1"; 2]);
}
