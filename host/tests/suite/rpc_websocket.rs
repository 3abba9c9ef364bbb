//! Encrypted RPC over WebSocket: what a server takes and answers, and what a client does with sockets.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use selfsame_host::Code;
use selfsame_host::rpc::{RpcAddress, RpcClient, RpcOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tower_service::Service as _;

use crate::common::nodes::ring;
use crate::common::sockets::{
    ANSWER, BIND, KIND, MAX_MESSAGE, MIB, REJECTION, Talk, client, close_in, connect, echo, fake, forged,
    held, idempotent, is_acknowledgement, opening, request_of, requests_of, status_of, url_of, web,
};
use crate::common::tickets::PublicOnly;
use crate::common::within;

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_client_share_a_socket() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let (url, opened) = web(http).await;
    let client = client(&nodes, &server, core::slice::from_ref(&url)).await;
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7) as u8).collect();
    for payload in [&b""[..], b"ping", &long] {
        for options in [idempotent(), RpcOptions::new()] {
            let answer = within(client.call("check", payload, options)).await;
            let answer = answer.expect("an answer");
            assert!(answer.payload == payload);
            assert_eq!(answer.server, url);
        }
    }
    let calls = (0..50_u8).map(|number| {
        let client = client.clone();
        async move {
            let answer = client.call("check", &[number], idempotent()).await;
            assert_eq!(answer.expect("an answer").payload, [number]);
        }
    });
    within(futures_util::future::join_all(calls)).await;
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    let RpcAddress::WebSocket(uri) = &url else {
        panic!("a URL of WebSocket")
    };
    let post: RpcAddress = format!("http://{}/rpc", uri.authority().expect("a host"))
        .parse()
        .expect("a URL");
    let posted = within(client.call("check", b"ping", idempotent().server(post.clone()))).await;
    assert_eq!(posted.expect("an answer").server, post);
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_messages_pass_both_ways_at_once() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let (url, _) = web(http).await;
    let client = client(&nodes, &server, &[url]).await;
    let calls = [1, 2, 3].map(|byte| {
        let client = client.clone();
        async move {
            let payload = vec![byte; 9 * MIB];
            let answer = client.call("check", &payload, idempotent()).await;
            assert!(answer.expect("an answer").payload == payload);
        }
    });
    within(futures_util::future::join_all(calls)).await;
    let longest = vec![1; (16 << 20) - (64 << 10)];
    let answer = within(client.call("check", &longest, idempotent())).await;
    assert!(answer.expect("an answer").payload == longest);
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_are_none_are_refused() {
    let (_server, http) = echo();
    for (fields, status) in [
        (&[("sec-websocket-protocol", "selfsame.1")][..], 400),
        (&[("sec-websocket-protocol", "")], 400),
        (&[("sec-websocket-version", "7")], 400),
        (&[("connection", "close")], 400),
        (&[("upgrade", "h2c")], 405),
        (&[("sec-websocket-protocol", "other, selfsame-rpc.1")], 101),
    ] {
        // Not through the library, which knows better.
        let request = opening(fields);
        let mut head = format!("{} /rpc HTTP/1.1\r\n", request.method());
        for (name, value) in request.headers() {
            head += &format!("{name}: {}\r\n", value.to_str().expect("text"));
        }
        let mut connection = connect(&http, "127.0.0.1");
        head += "\r\n";
        within(connection.write_all(head.as_bytes()))
            .await
            .expect("it is read");
        let mut line = [0; 12];
        within(connection.read_exact(&mut line)).await.expect("an answer");
        assert_eq!(
            core::str::from_utf8(&line),
            Ok(&*format!("HTTP/1.1 {status}")),
            "{fields:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_of_http_that_cannot_upgrade_takes_no_socket() {
    let (_server, http) = echo();
    let request = opening(&[]).map(|()| Full::<Bytes>::default());
    let response = within(http.clone().call(request)).await.expect("an answer");
    assert_eq!(response.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_that_brings_no_datagram_is_closed_with_the_reason() {
    let (_server, http) = echo();
    let mut wrong = vec![
        (Message::text("text"), CloseCode::Unsupported),
        (Message::text(""), CloseCode::Unsupported),
        (forged(0x60, 0b1000).into(), CloseCode::Policy),
        (forged(0x64, 0).into(), CloseCode::Policy),
        (vec![0x60; MAX_MESSAGE + 1].into(), CloseCode::Size),
    ];
    for len in [0, 1, 17, 100, 4096] {
        wrong.push((vec![0; len].into(), CloseCode::Policy));
    }
    for (message, code) in wrong {
        let len = message.len();
        let talk = Talk::open(&http, "127.0.0.1").await;
        // It is closed while the longest is still being sent.
        let (mut sink, mut stream) = talk.0.split();
        let (_, closed) = within(async { tokio::join!(sink.send(message), close_in(&mut stream)) }).await;
        assert_eq!(closed, Some(code), "{len} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_break_the_protocol_end_the_socket() {
    let (_server, http) = echo();
    for frame in [
        // Without a mask, of a reserved kind, a continuation of nothing, and a control frame that is too long.
        &[0x82, 1, 0x60][..],
        &[0x83, 0x81, 0, 0, 0, 0, 0x60],
        &[0x80, 0x81, 0, 0, 0, 0, 0x60],
        &[&[0x89, 0xfe, 0, 126, 0, 0, 0, 0][..], &[0; 126]].concat(),
    ] {
        let talk = Talk::open(&http, "127.0.0.1").await;
        let mut io = talk.0.into_inner();
        within(io.write_all(frame)).await.expect("it is read");
        let mut answer = Vec::new();
        within(io.read_to_end(&mut answer)).await.expect("the end");
        assert_eq!(answer.get(..4), Some(&[0x88, answer[1], 0x03, 0xea][..]), "1002");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_that_does_not_open_is_rejected_with_fewer_bytes_than_came() {
    let (_server, http) = echo();
    let mut talk = Talk::open(&http, "127.0.0.1").await;
    for form in [0x60, 0x61] {
        let request = forged(form, 0);
        talk.send(request.clone()).await;
        let answer = talk.next().await;
        assert_eq!(answer[0], REJECTION);
        assert!(answer.len() < request.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_comes_again_is_acknowledged_and_carried_out_once() {
    let nodes = ring(2).await;
    let mut held = held(0);
    let request = request_of(&nodes, &held.server, &held.http, b"once").await;
    let mut talk = Talk::open(&held.http, "127.0.0.1").await;
    talk.send(request.clone()).await;
    within(held.begun.recv()).await.expect("it is carried out");
    talk.send(request.clone()).await;
    assert!(is_acknowledgement(&talk.next().await));
    held.answer.send(true).expect("the handler waits");
    let answer = talk.next().await;
    assert_eq!((answer[0], answer[1] & KIND), (ANSWER, 0));
    talk.send(request.clone()).await;
    assert_eq!(talk.next().await, answer, "the same bytes again");
    let mut changed = request.to_vec();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    talk.send(changed).await;
    assert_eq!(talk.next().await[1] & KIND, BIND, "what does not open");
    talk.send(request).await;
    assert_eq!(talk.next().await, answer);
    assert_eq!(held.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_goes_to_all_connections_that_are_there() {
    let nodes = ring(2).await;
    let mut held = held(0);
    let request = request_of(&nodes, &held.server, &held.http, b"late").await;
    let mut talks = Vec::new();
    for _ in 0..3 {
        talks.push(Talk::open(&held.http, "127.0.0.1").await);
    }
    let mut gone = talks.pop().expect("a socket");
    gone.send(request.clone()).await;
    within(held.begun.recv()).await.expect("it is carried out");
    drop(gone);
    for talk in &mut talks {
        talk.send(request.clone()).await;
        assert!(is_acknowledgement(&talk.next().await));
    }
    let post = Request::post("/rpc")
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(Full::new(request));
    let mut posted = held.http.clone().call(post.expect("a request"));
    assert!((&mut posted).now_or_never().is_none());
    held.answer.send(true).expect("the handler waits");
    let answer = within(posted).await.expect("an answer").into_body();
    let answer = answer.collect().await.expect("bytes").to_bytes();
    for talk in &mut talks {
        let heard = loop {
            let heard = talk.next().await;
            if !is_acknowledgement(&heard) {
                break heard;
            }
        };
        assert_eq!(heard, answer);
    }
    assert_eq!(held.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_one_source_leave_room_to_others() {
    let (_server, http) = echo();
    let mut sockets = Vec::new();
    for number in 0..1024 {
        sockets.push(Talk::open(&http, &format!("1.1.1.{}", number % 256)).await);
    }
    let refused = within(Talk::try_open(&http, "1.1.1.9")).await;
    assert_eq!(status_of(refused.err().expect("no socket")), 429);
    Talk::open(&http, "1.1.2.1").await;
    let mut last = sockets.pop().expect("a socket");
    last.0.close(None).await.expect("it is told");
    last.closed().await;
    // Its place is given back when the server has seen the end.
    within(async {
        while Talk::try_open(&http, "1.1.1.9").await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_source_leave_room_to_others() {
    let nodes = ring(2).await;
    let mut held = held(0);
    let mut requests = requests_of(&nodes, &held.server, &held.http, b"", 1000).await;
    requests.extend(requests_of(&nodes, &held.server, &held.http, b"", 26).await);
    let mut first = Talk::open(&held.http, "1.1.1.1").await;
    let mut second = Talk::open(&held.http, "1.1.1.2").await;
    for (number, request) in requests[..1024].iter().enumerate() {
        let talk = if number % 2 == 0 { &mut first } else { &mut second };
        talk.send(request.clone()).await;
        within(held.begun.recv()).await.expect("it is carried out");
    }
    first.send(requests[0].clone()).await;
    assert!(is_acknowledgement(&first.next().await), "it takes no more");
    first.send(requests[1024].clone()).await;
    assert_eq!(first.closed().await, Some(CloseCode::Again));
    let mut other = Talk::open(&held.http, "1.1.2.1").await;
    other.send(requests[1025].clone()).await;
    within(held.begun.recv()).await.expect("it is carried out");
    assert_eq!(held.calls.load(Ordering::Relaxed), 1025);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_not_whole_leave_room_to_others() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let request = request_of(&nodes, &server, &http, &vec![1; 4 * MIB]).await;
    let mut partial = Vec::new();
    for from in ["1.1.1.1", "1.1.1.2"] {
        let mut io = Talk::open(&http, from).await.0.into_inner();
        // A frame that announces a longest message, masked with zeros.
        let mut frame = vec![0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        frame[6..10].copy_from_slice(&(MAX_MESSAGE as u32).to_be_bytes());
        frame.resize(12 * MIB, 0x60);
        partial.push(tokio::spawn(async move {
            let written = io.write_all(&frame).await;
            let mut answer = Vec::new();
            if written.is_ok() {
                _ = io.read_to_end(&mut answer).await;
            }
        }));
    }
    // One of them is cut off, and another source is heard.
    within(futures_util::future::select_all(partial))
        .await
        .0
        .expect("its end");
    let mut talk = Talk::open(&http, "1.1.2.1").await;
    talk.send(request).await;
    assert!(talk.next().await.len() > 4 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_read_is_cut_off() {
    let nodes = ring(2).await;
    let mut held = held(15 * MIB);
    let mut requests = Vec::new();
    for _ in 0..4 {
        requests.push(request_of(&nodes, &held.server, &held.http, b"much").await);
    }
    let mut talk = Talk::open(&held.http, "1.1.1.1").await;
    for request in requests {
        talk.send(request).await;
        within(held.begun.recv()).await.expect("it is carried out");
    }
    held.answer.send(true).expect("the handlers wait");
    // A write fails once the server is gone, which has sent what it may hold.
    within(async { while talk.0.send(Message::Ping(Bytes::new())).await.is_ok() {} }).await;
    let mut read = 0;
    while let Some(Ok(message)) = within(talk.0.next()).await {
        read += message.len();
    }
    assert!(read <= 16 * MIB, "{read} bytes");
}

#[tokio::test(start_paused = true)]
async fn socket_without_a_request_is_closed() {
    let (_server, http) = echo();
    let mut talk = Talk::open(&http, "127.0.0.1").await;
    let begun = tokio::time::Instant::now();
    talk.send(Message::Ping(Bytes::new())).await;
    // Its time is longer than that of other tests.
    assert_eq!(close_in(&mut talk.0).await, Some(CloseCode::Normal));
    assert!(
        begun.elapsed() >= Duration::from_secs(60),
        "pings are no requests"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_end_with_the_server() {
    let (server, http) = echo();
    let mut talk = Talk::open(&http, "127.0.0.1").await;
    drop(server);
    assert_eq!(talk.closed().await, Some(CloseCode::Away));
    let refused = within(Talk::try_open(&http, "127.0.0.1")).await;
    assert_eq!(status_of(refused.err().expect("no socket")), 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_takes_one_datagram_in_each_message_and_nothing_else() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let (url, mut sockets) = fake().await;
    let client = client(&nodes, &server, &[url]).await;
    let calling = client.call("check", b"ping", idempotent());
    let answering = async {
        for (last, code) in [
            (Message::text("text"), CloseCode::Unsupported),
            (vec![0; MAX_MESSAGE + 1].into(), CloseCode::Size),
        ] {
            let mut fake = sockets.recv().await.expect("a socket");
            for noise in [0, 1, 100] {
                for form in [0, ANSWER, REJECTION, 0x66, 0xff] {
                    let mut datagram = vec![7; noise];
                    datagram.first_mut().into_iter().for_each(|first| *first = form);
                    fake.send(datagram).await;
                }
            }
            fake.send(last).await;
            assert_eq!(fake.closed().await, Some(code));
        }
        // The same bytes come on the next one.
        let mut fake = sockets.recv().await.expect("a socket");
        let mut talk = Talk::open(&http, "127.0.0.1").await;
        loop {
            talk.send(fake.next().await).await;
            fake.send(talk.next().await).await;
        }
    };
    let answer = within(async {
        tokio::select! {
            answer = calling => answer,
            () = answering => unreachable!("it goes on"),
        }
    });
    assert_eq!(answer.await.expect("an answer").payload, b"ping");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_comes_on_the_next_socket_when_one_breaks() {
    let nodes = ring(2).await;
    let mut held = held(0);
    let (url, mut sockets) = fake().await;
    let client = client(&nodes, &held.server, &[url]).await;
    // Not idempotent: nothing else than the same bytes may be sent again.
    let calling = client.call("check", b"late", RpcOptions::new());
    let http = held.http.clone();
    let answering = async {
        let mut fake = sockets.recv().await.expect("a socket");
        let mut talk = Talk::open(&http, "127.0.0.1").await;
        // A probe, and the call.
        talk.send(fake.next().await).await;
        fake.send(talk.next().await).await;
        let request = fake.next().await;
        talk.send(request.clone()).await;
        held.begun.recv().await.expect("it is carried out");
        drop((fake, talk));
        let mut fake = sockets.recv().await.expect("another socket");
        let mut talk = Talk::open(&http, "127.0.0.1").await;
        let again = fake.next().await;
        assert_eq!(again, request);
        talk.send(again).await;
        held.answer.send(true).expect("the handler waits");
        loop {
            fake.send(talk.next().await).await;
        }
    };
    let answer = within(async {
        tokio::select! {
            answer = calling => answer,
            () = answering => unreachable!("it goes on"),
        }
    });
    assert_eq!(answer.await.expect("an answer").payload, b"late");
    assert_eq!(held.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_the_subprotocol_is_left_alone_for_a_while() {
    let nodes = ring(2).await;
    let (server, _http) = echo();
    let opened = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&opened);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = url_of(listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            counted.lock().expect("times").push(std::time::Instant::now());
            tokio::spawn(tokio_tungstenite::accept_async(io));
        }
    });
    let client = client(&nodes, &server, &[url]).await;
    let options = idempotent().timeout(Duration::from_millis(2500));
    let failed = within(client.call("check", b"ping", options)).await;
    assert_eq!(failed.expect_err("no answer").code(), Some(Code::TimedOut));
    let opened = opened.lock().expect("times");
    assert!((2..=3).contains(&opened.len()), "{}", opened.len());
    for pair in opened.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_is_talked_into_no_private_address() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let (plain, _) = web(http).await;
    let tickets = server.tickets(["wss://echo.example/rpc".parse::<RpcAddress>().expect("a URL")]);
    within(nodes[0].serve("check", tickets.expect("tickets")))
        .await
        .expect("it is served");
    let client = RpcClient::with_tickets(PublicOnly(nodes[1].clone()));
    let named = "wss://localhost:9/rpc".parse::<RpcAddress>().expect("a URL");
    let inside = "wss://127.0.0.1:9/rpc".parse().expect("a URL");
    for server in [plain, inside, named] {
        let options = idempotent().server(server.clone());
        let failed = within(client.call("check", b"ping", options)).await;
        let code = failed.expect_err("no answer").code();
        assert_eq!(code, Some(Code::ForbiddenAddress), "{server}");
    }
}
