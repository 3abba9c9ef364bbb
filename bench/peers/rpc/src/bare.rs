//! Two blocking sockets and one thread: the least that an echo over UDP takes.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use bench_pair::Outcome;

use crate::echo::{Echo, four};

const LONGEST: Duration = Duration::from_secs(10);

/// An echo without a protocol
pub(crate) struct Bare {
    socket: UdpSocket,
}

impl Bare {
    pub(crate) fn start() -> Outcome<Self> {
        let failed = |error: std::io::Error| error.to_string();
        let server = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        socket
            .connect(server.local_addr().map_err(failed)?)
            .map_err(failed)?;
        socket.set_read_timeout(Some(LONGEST)).map_err(failed)?;
        // Ends with the process.
        thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((len, source)) = server.recv_from(&mut buffer) {
                // An echo that does not leave is lost, and its caller says so.
                _ = server.send_to(&buffer[..len], source);
            }
        });
        Ok(Self { socket })
    }
}

impl Echo for Bare {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let mut answer = [0; 64];
        let taken = self
            .socket
            .send(&payload)
            .and_then(|_| self.socket.recv(&mut answer));
        four(&answer[..taken.map_err(|error| error.to_string())?])
    }
}
