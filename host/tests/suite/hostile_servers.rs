//! Servers that mean harm, or nothing at all, at an address that a node dials: it hears of a failure in time, and joins
//! through another one.

use core::net::SocketAddr;

use selfsame_host::{Body, Error, Node};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::common::nodes::{bootstrap, ring, says};
use crate::common::{get, text, within};

/// An id that none of the servers can prove.
const NO_ID: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// What a server does with each connection, once it has read the head of the request
#[derive(Clone, Copy)]
struct Script {
    /// What it answers first, with the right accept key in the place of KEY.
    first: &'static str,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Close,
    /// Nothing more, on an open connection.
    Wait,
    /// The same bytes as fast as they are taken.
    Repeat(&'static [u8]),
}

const UPGRADED: &str = "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: KEY\r\n\
                        sec-websocket-protocol: selfsame.1\r\n\r\n";
const FRAMES: &str = "HTTP/1.1 200 x\r\ncontent-type: application/selfsame\r\n\r\n";

const WEBSOCKETS: &[Script] = &[
    Script {
        first: "",
        then: Then::Close,
    },
    Script {
        first: "",
        then: Then::Wait,
    },
    Script {
        first: "nonsense\r\n\r\n",
        then: Then::Wait,
    },
    Script {
        first: "HTTP/1.1 200 x\r\ncontent-length: 0\r\n\r\n",
        then: Then::Wait,
    },
    // A head without end.
    Script {
        first: "HTTP/1.1 101 x\r\n",
        then: Then::Repeat(b"x: y\r\n"),
    },
    // The answer to another request.
    Script {
        first: "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: AAAA\r\n\
                sec-websocket-protocol: selfsame.1\r\n\r\n",
        then: Then::Wait,
    },
    // Another protocol.
    Script {
        first: "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: KEY\r\n\r\n",
        then: Then::Wait,
    },
    // A WebSocket that says nothing; messages that are no frames; texts; pings; one of 2^62 bytes.
    Script {
        first: UPGRADED,
        then: Then::Wait,
    },
    Script {
        first: UPGRADED,
        then: Then::Repeat(&[0x82, 4, 1, 2, 3, 4]),
    },
    Script {
        first: UPGRADED,
        then: Then::Repeat(&[0x81, 1, b'x']),
    },
    Script {
        first: UPGRADED,
        then: Then::Repeat(&[0x89, 0]),
    },
    Script {
        first: UPGRADED,
        then: Then::Repeat(&[0x82, 127, 0x40, 0, 0, 0, 0, 0, 0, 0, 1]),
    },
];

const EXCHANGES: &[Script] = &[
    Script {
        first: "",
        then: Then::Close,
    },
    Script {
        first: "",
        then: Then::Wait,
    },
    Script {
        first: "HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n",
        then: Then::Wait,
    },
    Script {
        first: "HTTP/1.1 200 x\r\n",
        then: Then::Repeat(b"x: y\r\n"),
    },
    // Frames that mean nothing, a frame of 2^24 bytes, and one that is cut short.
    Script {
        first: FRAMES,
        then: Then::Repeat(&[4, 0, 0, 0, 1, 2, 3, 4]),
    },
    Script {
        first: FRAMES,
        then: Then::Repeat(&[0, 0, 0, 1]),
    },
    Script {
        first: "HTTP/1.1 200 x\r\ncontent-length: 3\r\n\r\n\u{1}\u{1}\u{1}",
        then: Then::Close,
    },
    Script {
        first: "HTTP/1.1 200 x\r\ncontent-length: 90\r\n\r\n\u{1}",
        then: Then::Wait,
    },
];

async fn play(mut tcp: TcpStream, script: Script) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match tcp.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let key = head
        .lines()
        .find_map(|line| {
            line.split_once(": ")
                .filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))
        })
        .map(|(_, key)| derive_accept_key(key.as_bytes()))
        .unwrap_or_default();
    let mut written = tcp.write_all(script.first.replace("KEY", &key).as_bytes()).await;
    match script.then {
        Then::Close => {}
        // Until the node closes.
        Then::Wait => _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await,
        Then::Repeat(bytes) => {
            let bytes = bytes.repeat(1000);
            while written.is_ok() {
                written = tcp.write_all(&bytes).await;
            }
        }
    }
}

/// Starts a server; its address.
async fn server(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its number");
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(play(tcp, script));
        }
    });
    address
}

async fn servers() -> Vec<String> {
    let mut urls = Vec::new();
    for (scheme, scripts) in [("ws", WEBSOCKETS), ("http", EXCHANGES)] {
        for script in scripts {
            urls.push(format!("{scheme}://{}#{NO_ID}", server(*script).await));
        }
    }
    // Without TLS the head of a request never comes, and the connection stays open and silent.
    for scheme in ["wss", "https"] {
        urls.push(format!("{scheme}://{}#{NO_ID}", server(WEBSOCKETS[0]).await));
    }
    urls
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_a_failure_that_is_told_in_time() {
    let mut joins = tokio::task::JoinSet::new();
    for url in servers().await {
        joins.spawn(async move {
            let node = Node::builder("test").in_memory().unowned().bootstrap([&url]);
            (within(node.start()).await.err(), url)
        });
    }
    for (error, url) in joins.join_all().await {
        assert!(
            matches!(&error, Some(error) if error.is_unreachable()),
            "{url}: {error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn none_keeps_a_node_from_its_ring() {
    let good = ring(1).await.remove(0);
    within(good.serve("hello", says("undisturbed")))
        .await
        .expect("a service");
    let mut urls = servers().await;
    urls.extend(bootstrap(&good));
    let node = Node::builder("test")
        .in_memory()
        .unowned()
        .allow_private(true)
        .bootstrap(urls);
    let node = within(node.start()).await.expect("a leaf");
    let response = within(node.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "undisturbed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirection_leads_nowhere() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let location = elsewhere.local_addr().expect("its number");
    let (asked, mut was_asked) = mpsc::channel(1);
    tokio::spawn(async move {
        _ = elsewhere.accept().await;
        // The test may be over.
        _ = asked.send(()).await;
    });
    let first: &'static str = Box::leak(
        format!("HTTP/1.1 307 x\r\nlocation: http://{location}/.mesh\r\ncontent-length: 0\r\n\r\n")
            .into_boxed_str(),
    );
    for scheme in ["ws", "http"] {
        let address = server(Script {
            first,
            then: Then::Wait,
        })
        .await;
        let node = Node::builder("test")
            .in_memory()
            .unowned()
            .bootstrap([format!("{scheme}://{address}#{NO_ID}")]);
        let error = within(node.start()).await.expect_err("no node is there");
        assert!(error.is_unreachable(), "{error}");
    }
    assert!(was_asked.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_http_does_not_allow_is_named() {
    let node = ring(1).await.remove(0);
    let mut request = get("https://hello.mesh/");
    *request.body_mut() = Body::from("x");
    let error = within(node.fetch(request)).await.expect_err("a GET with a body");
    assert!(
        matches!(&error, Error::Input(text) if text.contains("GET")),
        "{error}"
    );
}
