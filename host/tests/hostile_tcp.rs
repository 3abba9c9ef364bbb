//! Peers on bare TCP that mean harm, or nothing at all: each loses its connection, and nobody else notices.

extern crate alloc;

use core::net::SocketAddr;
use std::io::ErrorKind;

use selfsame_host::{Code, Error, Node};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[path = "suite/common/mod.rs"]
#[expect(dead_code, reason = "what starts programs is for the suite")]
mod common;
use common::nodes::{bootstrap, ring, says};
use common::{get, text, within};

mod noise;
use noise::Noise;

/// An id that none of the servers can prove.
const NO_ID: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// A node that listens on TCP alone and serves `hello`, and one that knows the way to it.
struct Victim {
    node: Node,
    neighbour: Node,
}

async fn victim() -> Victim {
    let neighbour = ring(1).await.remove(0);
    let node = Node::builder("test")
        .in_memory()
        .listen("tcp://127.0.0.1:0")
        .bootstrap(bootstrap(&neighbour))
        .allow_private(true)
        .unowned();
    let node = within(node.start()).await.expect("a node");
    within(node.serve("hello", says("undisturbed")))
        .await
        .expect("a service");
    Victim { node, neighbour }
}

/// Whether somebody new reaches the node.
async fn is_undisturbed(victim: &Victim) {
    let client = Node::builder("test")
        .in_memory()
        .unowned()
        .allow_private(true)
        // Beside a flood, and on a machine that is busy, an answer may take longer than a node waits for one.
        .keep_trying(true)
        .bootstrap(bootstrap(&victim.neighbour));
    let client = within(client.start()).await.expect("a leaf");
    let response = within(client.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "undisturbed");
    within(client.leave()).await.expect("an end");
}

/// Sends bytes, and reads until the other side closes; whether it did.
async fn is_closed(address: SocketAddr, bytes: &[u8]) -> bool {
    let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
    // The other side may have closed already.
    _ = tcp.write_all(bytes).await;
    let mut rest = Vec::new();
    let read = within(tcp.read_to_end(&mut rest)).await;
    read.is_ok() || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).expect("a short frame");
    [&len.to_le_bytes()[..], bytes].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_frames_close_the_connection() {
    let victim = victim().await;
    let address = victim.node.listening()[0];
    let cases: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        // A greeting of TLS, and one of SSH.
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc],
        b"SSH-2.0-OpenSSH_9.9\r\n",
        &65_537_u32.to_le_bytes(),
        &[0xff; 64],
    ];
    for bytes in cases {
        assert!(is_closed(address, bytes).await, "{bytes:?}");
    }
    is_undisturbed(&victim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_mean_nothing_cost_the_connection_without_a_session() {
    let victim = victim().await;
    let address = victim.node.listening()[0];
    let mut noise = Noise(3);
    for _ in 0..20 {
        let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
        for _ in 0..20 {
            let len = match noise.next() % 4 {
                0 => noise.next() as usize % 64,
                1 => noise.next() as usize % 2048,
                2 => 1328,
                _ => 65_536,
            };
            // The other side may have closed already.
            if tcp.write_all(&frame(&noise.bytes(len))).await.is_err() {
                break;
            }
        }
    }
    is_undisturbed(&victim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_is_closed_also_when_it_keeps_alive() {
    let victim = victim().await;
    let address = victim.node.listening()[0];
    let half = frame(&[7; 1000])[..500].to_vec();
    let silent = is_closed(address, &[]);
    let slow = is_closed(address, &half);
    let alive = async {
        let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
        loop {
            let mut answer = [1; 4];
            if tcp.write_all(&frame(&[])).await.is_err() || tcp.read_exact(&mut answer).await.is_err() {
                return;
            }
            assert_eq!(answer, [0; 4], "a sign of life is answered with one");
        }
    };
    let (silent, slow, ()) = tokio::join!(silent, slow, within(alive));
    assert!(silent && slow);
    is_undisturbed(&victim).await;
}

/// Memory of this process that is in use, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("the kernel's count");
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_takes_no_memory_and_others_are_served() {
    let victim = victim().await;
    is_undisturbed(&victim).await;
    let address = victim.node.listening()[0];
    let before = resident();
    let mut floods = tokio::task::JoinSet::new();
    for number in 0..16 {
        // Half of them send frames that mean nothing, the others signs of life whose answers they do not read.
        let piece = match number % 2 {
            0 => frame(&Noise(number + 1).bytes(65_536)),
            _ => frame(&[]).repeat(16_384),
        };
        floods.spawn(async move {
            let mut tcp = within(TcpStream::connect(address)).await.expect("a connection");
            while tcp.write_all(&piece).await.is_ok() {}
        });
    }
    for _ in 0..5 {
        is_undisturbed(&victim).await;
    }
    let grown = resident().saturating_sub(before);
    floods.shutdown().await;
    assert!(grown < 128 * 1024 * 1024, "{grown} bytes");
    is_undisturbed(&victim).await;
}

/// What a server does with each connection
#[derive(Clone, Copy, Debug)]
enum Script {
    Close,
    /// Nothing, on an open connection.
    Wait,
    /// The same bytes as fast as they are taken.
    Repeat(&'static [u8]),
    /// What it receives.
    Echo,
}

const SCRIPTS: &[Script] = &[
    Script::Close,
    Script::Wait,
    Script::Repeat(b"220 mail.example ESMTP\r\n"),
    Script::Repeat(&[4, 0, 0, 0, 1, 2, 3, 4]),
    Script::Repeat(&[0, 0, 0, 0]),
    Script::Repeat(&[1, 0, 1, 0]),
    Script::Echo,
];

async fn play(mut tcp: TcpStream, script: Script) {
    match script {
        Script::Close => {}
        // Until the node closes.
        Script::Wait => _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await,
        Script::Repeat(bytes) => {
            let bytes = bytes.repeat(1000);
            while tcp.write_all(&bytes).await.is_ok() {}
        }
        Script::Echo => {
            let (mut reader, mut writer) = tcp.split();
            _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    }
}

/// Starts one server for each script; their addresses as bootstraps.
async fn servers() -> Vec<String> {
    let mut urls = Vec::new();
    for script in SCRIPTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        urls.push(format!("tcp://{address}#{NO_ID}"));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(play(tcp, *script));
            }
        });
    }
    urls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_node_is_a_failure_that_is_told_in_time() {
    let mut joins = tokio::task::JoinSet::new();
    for (url, script) in servers().await.into_iter().zip(SCRIPTS) {
        joins.spawn(async move {
            let node = Node::builder("test").in_memory().unowned().bootstrap([url]);
            (within(node.start()).await.err(), script)
        });
    }
    for (error, script) in joins.join_all().await {
        // To its own first message, sent back, a node says that it is meant for somebody else.
        let is_expected = |error: &Error| match script {
            Script::Echo => error.code() == Some(Code::WrongPeer),
            _ => error.is_unreachable(),
        };
        assert!(error.as_ref().is_some_and(is_expected), "{script:?}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_such_server_keeps_a_node_from_its_ring() {
    let good = victim().await;
    let mut urls = servers().await;
    urls.extend(bootstrap(&good.node));
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
