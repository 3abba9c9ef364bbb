//! A name server that sends what a test says.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

/// A query as it came.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) bytes: Vec<u8>,
    pub(crate) source: SocketAddr,
    pub(crate) is_tcp: bool,
    /// How many came before.
    pub(crate) index: usize,
}

/// A server on a free port of this machine, over UDP and TCP.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    queries: Arc<AtomicUsize>,
}

impl NameServer {
    /// Sends what `answer` gives: datagrams, or over TCP raw bytes in a row, after which the connection ends.
    pub(crate) async fn start(
        answer: impl Fn(&Query) -> Vec<Vec<u8>> + Clone + Send + Sync + 'static,
    ) -> Self {
        // A port that is free for UDP is hardly ever taken for TCP, and then another one is tried.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            let address = udp.local_addr().expect("its address");
            if let Ok(tcp) = TcpListener::bind(address).await {
                break (udp, tcp);
            }
        };
        let server = Self {
            address: udp.local_addr().expect("its address"),
            queries: Arc::default(),
        };
        tokio::spawn(over_udp(udp, answer.clone(), Arc::clone(&server.queries)));
        tokio::spawn(over_tcp(tcp, answer, Arc::clone(&server.queries)));
        server
    }

    /// How many queries it got.
    pub(crate) fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }
}

async fn over_udp(socket: UdpSocket, answer: impl Fn(&Query) -> Vec<Vec<u8>>, queries: Arc<AtomicUsize>) {
    let mut datagram = vec![0; 65_535];
    while let Ok((len, source)) = socket.recv_from(&mut datagram).await {
        let query = Query {
            bytes: datagram[..len].to_vec(),
            source,
            is_tcp: false,
            index: queries.fetch_add(1, Ordering::SeqCst),
        };
        for bytes in answer(&query) {
            socket.send_to(&bytes, source).await.expect("a datagram");
        }
    }
}

async fn over_tcp(listener: TcpListener, answer: impl Fn(&Query) -> Vec<Vec<u8>>, queries: Arc<AtomicUsize>) {
    while let Ok((mut stream, source)) = listener.accept().await {
        let len = stream.read_u16().await.expect("a length");
        let mut bytes = vec![0; usize::from(len)];
        stream.read_exact(&mut bytes).await.expect("a query");
        let query = Query {
            bytes,
            source,
            is_tcp: true,
            index: queries.fetch_add(1, Ordering::SeqCst),
        };
        for bytes in answer(&query) {
            stream.write_all(&bytes).await.expect("bytes");
        }
    }
}

/// The response to a query with these flags and TXT records of the name that it asks for.
pub(crate) fn response(query: &[u8], flags: u16, ttl_s: u32, texts: &[&str]) -> Vec<u8> {
    let mut out = query[..2].to_vec();
    out.extend_from_slice(&(0x8180 | flags).to_be_bytes());
    out.extend_from_slice(&[0, 1, 0, texts.len() as u8, 0, 0, 0, 0]);
    // What follows the question is the EDNS record, of 11 bytes.
    out.extend_from_slice(&query[12..query.len() - 11]);
    for text in texts {
        out.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1]);
        out.extend_from_slice(&ttl_s.to_be_bytes());
        let strings = text.as_bytes().chunks(255);
        out.extend_from_slice(&((text.len() + strings.len()) as u16).to_be_bytes());
        for string in strings {
            out.push(string.len() as u8);
            out.extend_from_slice(string);
        }
    }
    out
}

/// The same as a stream carries it.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}
