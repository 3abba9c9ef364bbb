//! Clients that mean harm, or nothing at all: each loses its connection, and nobody else notices.

extern crate alloc;

use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use selfsame_host::Node;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};

#[path = "suite/common/mod.rs"]
#[expect(dead_code, reason = "what starts programs is for the suite")]
mod common;
use common::nodes::{ring, says};
use common::{get, text, within};

mod noise;
use noise::Noise;

/// Two nodes, of which the first is attacked and the second sees whether that matters.
async fn victim() -> (Vec<Node>, SocketAddr) {
    let nodes = ring(2).await;
    within(nodes[0].serve("hello", says("undisturbed")))
        .await
        .expect("a service");
    let address = nodes[0].listening()[0];
    (nodes, address)
}

async fn is_undisturbed(nodes: &[Node]) {
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "undisturbed");
}

async fn websocket(address: SocketAddr) -> WebSocketStream<TcpStream> {
    let mut request = format!("ws://{address}/.mesh")
        .into_client_request()
        .expect("a request");
    request
        .headers_mut()
        .insert("sec-websocket-protocol", "selfsame.1".parse().expect("a value"));
    let tcp = within(TcpStream::connect(address)).await.expect("a connection");
    within(client_async(request, tcp)).await.expect("a WebSocket").0
}

/// Reads until the other side closes; the code it gave.
async fn close_code(socket: &mut WebSocketStream<TcpStream>) -> Option<CloseCode> {
    loop {
        match within(socket.next()).await {
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return None,
        }
    }
}

/// Reads until the other side closes.
async fn read_to_end(tcp: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset ends a connection as well as an orderly close.
    _ = within(tcp.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_http() {
    let (nodes, address) = victim().await;
    let mut noise = Noise(1);
    for _ in 0..50 {
        let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
        let len = noise.next() as usize % 4096;
        // The other side may have closed already.
        _ = tcp.write_all(&noise.bytes(len)).await;
        _ = tcp.shutdown().await;
        read_to_end(&mut tcp).await;
    }
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_for_a_node() {
    let (nodes, address) = victim().await;
    let long = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    let upgrade = "GET /.mesh HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n";
    let cases = [
        (
            "OPTIONS /.mesh HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(),
            "204",
        ),
        (
            "GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(),
            "404",
        ),
        (
            "DELETE /.mesh HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(),
            "405",
        ),
        (
            "GET /.mesh HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(),
            "426",
        ),
        (format!("{upgrade}sec-websocket-version: 8\r\n\r\n"), "400"),
        (
            format!(
                "{upgrade}sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            ),
            "400",
        ),
        (
            format!("{upgrade}sec-websocket-version: 13\r\nsec-websocket-protocol: selfsame.1\r\n\r\n"),
            "400",
        ),
        (long, "431"),
    ];
    for (request, status) in cases {
        let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
        _ = tcp.write_all(request.as_bytes()).await;
        let answer = read_to_end(&mut tcp).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{status} expected: {answer}"
        );
        // RFC 9110, section 15.5.22.
        let offers = answer.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n");
        assert_eq!(offers, status == "426", "{answer}");
    }
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_a_node_is_json() {
    let (nodes, address) = victim().await;
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer = within(client.get(format!("http://{address}/").parse().expect("a URL")))
        .await
        .expect("an answer");
    let body = within(answer.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    let health: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(health["id"], nodes[0].id().to_string());
    assert_eq!(health["network"], "test");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_mean_nothing() {
    let (nodes, address) = victim().await;
    let mut noise = Noise(2);
    for round in 0..20 {
        let mut socket = websocket(address).await;
        for _ in 0..20 {
            let len = match noise.next() % 4 {
                0 => noise.next() as usize % 64,
                1 => noise.next() as usize % 2048,
                2 => 1328,
                _ => 65_536,
            };
            // The other side may have closed already.
            if socket.send(Message::binary(noise.bytes(len))).await.is_err() {
                break;
            }
        }
        if round % 2 == 0 {
            _ = socket.close(None).await;
        }
    }
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_the_limit_closes_the_connection() {
    let (nodes, address) = victim().await;
    let mut socket = websocket(address).await;
    socket
        .send(Message::binary(vec![0; 65_537]))
        .await
        .expect("a message");
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Size));
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keep_alive_is_answered_and_other_texts_close_the_connection() {
    let (nodes, address) = victim().await;
    let mut socket = websocket(address).await;
    socket.send(Message::text("ping")).await.expect("a message");
    assert_eq!(
        within(socket.next())
            .await
            .expect("an answer")
            .expect("a message"),
        Message::text("pong")
    );
    socket.send(Message::text("hello")).await.expect("a message");
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Unsupported));
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_break_the_websocket_protocol() {
    let (nodes, address) = victim().await;
    // Unmasked; masked with a length that never comes; reserved bits and an unknown kind; a piece without a beginning;
    // a length of 2^63.
    let broken: [&[u8]; 5] = [
        &[0x82, 0x01, 0x00],
        &[0x82, 0xfe, 0xff, 0xff, 1, 2, 3, 4, 5],
        &[0xf7, 0x80, 0, 0, 0, 0],
        &[0x80, 0x81, 0, 0, 0, 0, 1],
        &[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
    ];
    for bytes in broken {
        let mut tcp = websocket(address).await.into_inner();
        tcp.write_all(bytes).await.expect("a write");
        _ = tcp.shutdown().await;
        read_to_end(&mut tcp).await;
    }
    is_undisturbed(&nodes).await;
}

/// Memory of this process that is in use, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("the kernel's count");
    status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .expect("a number")
        * 4096
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_takes_no_memory_and_others_are_served() {
    let (nodes, address) = victim().await;
    is_undisturbed(&nodes).await;
    let before = resident();
    let mut floods = tokio::task::JoinSet::new();
    for number in 0..16 {
        floods.spawn(async move {
            let frame = Bytes::from(Noise(number + 1).bytes(65_536));
            let mut socket = websocket(address).await;
            while socket.send(Message::Binary(frame.clone())).await.is_ok() {}
        });
    }
    for _ in 0..20 {
        is_undisturbed(&nodes).await;
    }
    let grown = resident().saturating_sub(before);
    floods.shutdown().await;
    assert!(grown < 128 * 1024 * 1024, "{grown} bytes");
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_served_while_large_posts_pour_in() {
    let (nodes, address) = victim().await;
    let mut floods = tokio::task::JoinSet::new();
    for number in 0..8 {
        let frame = [&65_536_u32.to_le_bytes()[..], &Noise(number + 1).bytes(65_536)].concat();
        let body = Bytes::from(frame.repeat(15));
        let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        floods.spawn(async move {
            loop {
                let request = http::Request::post(format!("http://{address}/.mesh"))
                    .header("content-type", "application/selfsame")
                    .header("selfsame-path", format!("{number:032x}"))
                    .body(Full::new(body.clone()))
                    .expect("a request");
                // Refused or not: the next one follows.
                _ = client.request(request).await;
            }
        });
    }
    for _ in 0..20 {
        is_undisturbed(&nodes).await;
    }
    floods.shutdown().await;
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_that_are_no_exchange() {
    let (nodes, address) = victim().await;
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let token = "00112233445566778899aabbccddeeff";
    let frame = |len: u32, bytes: usize| [&len.to_le_bytes()[..], &vec![1; bytes]].concat();
    let stale = "ffeeddccbbaa99887766554433221100";
    // A packet of a session that the node has never had, as peers send it that do not know that it has started again.
    let packet = [&40u32.to_le_bytes()[..], &[16], &[0; 39]].concat();
    let cases: [(&str, &str, Vec<u8>, u16); 11] = [
        ("text/plain", token, vec![], 415),
        ("application/selfsame", "", vec![], 400),
        ("application/selfsame", "0011", vec![], 400),
        ("application/selfsame", &token.to_uppercase(), vec![], 400),
        ("application/selfsame", token, vec![1, 2, 3], 400),
        ("application/selfsame", token, frame(5, 4), 400),
        ("application/selfsame", token, frame(65_537, 65_537), 400),
        ("application/selfsame", token, vec![0; 1024 * 1024 + 1], 413),
        ("application/selfsame", token, frame(200, 200), 200),
        ("application/selfsame", stale, packet.clone(), 410),
        ("application/selfsame", stale, packet, 410),
    ];
    for (content, token, body, status) in cases {
        let request = http::Request::post(format!("http://{address}/.mesh"))
            .header("content-type", content)
            .header("selfsame-path", token)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let answer = within(client.request(request)).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_keeps_a_node_waiting_loses_its_connection() {
    let (nodes, address) = victim().await;
    let post = "POST /.mesh HTTP/1.1\r\nhost: x\r\ncontent-type: application/selfsame\r\n\
                selfsame-path: 00112233445566778899aabbccddeeff\r\n";
    let cases = [
        (String::new(), ""),
        ("GET / HTTP/1.1\r\nhost: x\r\n".into(), ""),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n".into(), "HTTP/1.1 200 "),
        (format!("{post}content-length: 9\r\n\r\n1"), "HTTP/1.1 408 "),
        (
            format!("{post}transfer-encoding: chunked\r\n\r\n1\r\n1\r\n"),
            "HTTP/1.1 408 ",
        ),
    ];
    let mut clients = tokio::task::JoinSet::new();
    for (request, answer) in cases {
        clients.spawn(async move {
            let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
            tcp.write_all(request.as_bytes()).await.expect("a write");
            let began = tokio::time::Instant::now();
            let text = read_to_end(&mut tcp).await;
            assert!(text.starts_with(answer), "{request}: {text}");
            let elapsed = began.elapsed();
            assert!(
                elapsed > Duration::from_secs(5),
                "{request}: slow clients get some time"
            );
        });
    }
    clients.join_all().await;
    is_undisturbed(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_without_a_session_is_closed_also_when_it_keeps_alive() {
    let (nodes, address) = victim().await;
    let mut silent = websocket(address).await;
    let mut alive = websocket(address).await;
    let keep_alive = async {
        while alive.send(Message::text("ping")).await.is_ok() {
            match within(alive.next()).await {
                Some(Ok(Message::Text(_))) => tokio::time::sleep(Duration::from_millis(100)).await,
                _ => break,
            }
        }
    };
    tokio::join!(close_code(&mut silent), within(keep_alive));
    is_undisturbed(&nodes).await;
}
