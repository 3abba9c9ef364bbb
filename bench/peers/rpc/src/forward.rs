//! A socket between one client and a server that counts the datagrams of each.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bench_pair::Outcome;

use crate::sealed::told;

const BUFFER_BYTES: usize = 65_536;

/// Passes datagrams on until the process ends
pub(crate) struct Forwarder {
    address: SocketAddr,
    counts: Arc<[AtomicU64; 2]>,
}

impl Forwarder {
    pub(crate) fn start(server: SocketAddr) -> Outcome<Self> {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").map_err(told)?);
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").map_err(told)?);
        back.connect(server).map_err(told)?;
        let address = front.local_addr().map_err(told)?;
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        // The client that sent last.
        let client = Arc::new(Mutex::new(address));
        let there = (
            Arc::clone(&front),
            Arc::clone(&back),
            Arc::clone(&counts),
            Arc::clone(&client),
        );
        thread::spawn(move || {
            let (front, back, counts, client) = there;
            let mut buffer = vec![0; BUFFER_BYTES];
            while let Ok((len, source)) = front.recv_from(&mut buffer) {
                *client.lock().unwrap_or_else(PoisonError::into_inner) = source;
                counts[0].fetch_add(1, Ordering::Relaxed);
                // One that does not leave is lost.
                _ = back.send(&buffer[..len]);
            }
        });
        let counted = Arc::clone(&counts);
        thread::spawn(move || {
            let mut buffer = vec![0; BUFFER_BYTES];
            while let Ok(len) = back.recv(&mut buffer) {
                let target = *client.lock().unwrap_or_else(PoisonError::into_inner);
                counted[1].fetch_add(1, Ordering::Relaxed);
                _ = front.send_to(&buffer[..len], target);
            }
        });
        Ok(Self { address, counts })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the datagrams that came from clients, and from the server.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|way: usize| self.counts[way].load(Ordering::Relaxed))
    }
}
