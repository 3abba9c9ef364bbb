//! Programs and servers that write bytes of HTTP/1.1 themselves.

use core::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::within;

/// A connection whose messages are read by hand
pub(crate) struct Raw(pub(crate) BufReader<TcpStream>);

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let socket = within(TcpStream::connect(address)).await;
        Self(BufReader::new(socket.expect("it listens")))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        within(self.0.write_all(bytes)).await.expect("it reads");
    }

    /// Reads to the end of a head; empty when the connection ended before one.
    pub(crate) async fn head(&mut self) -> Vec<u8> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if within(self.0.read_until(b'\n', &mut head)).await.unwrap_or(0) == 0 {
                break;
            }
        }
        head
    }

    /// As [`Self::head`], where all of it is text.
    pub(crate) async fn text_head(&mut self) -> String {
        String::from_utf8(self.head().await).expect("text")
    }

    /// Reads so many bytes.
    pub(crate) async fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        within(self.0.read_exact(&mut bytes)).await.expect("more bytes");
        bytes
    }

    /// Reads until the other side ends or breaks the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // What arrived before it broke counts as well.
        _ = within(self.0.read_to_end(&mut bytes)).await;
        bytes
    }

    /// Ends the connection so that the other side is told at once, whatever it does.
    pub(crate) fn reset(self) {
        let socket = self.0.into_inner();
        socket.set_zero_linger().expect("a socket");
    }
}

/// A server that does with each connection what the test says.
pub(crate) async fn server<F>(serve: impl Fn(Raw) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(Raw(BufReader::new(socket))));
        }
    });
    address
}

/// The values of a field in a head.
pub(crate) fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}
