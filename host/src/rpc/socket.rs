//! A UDP socket that takes and sends many datagrams with one system call where the system can.

use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::{self, ErrorKind, IoSliceMut};

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use selfsame_codec::rpc::Input;
use socket2::{Domain, Protocol, Socket as RawSocket, Type};

use super::endpoint::endpoint_of;
use super::engine::Engine;
use super::way::Way;

/// Buffers that one system call fills. Each is as long as what the kernel joins of the datagrams of one sender.
const BUFFERS: usize = 16;
const BUFFER_BYTES: usize = 65_536;
/// Datagrams of one step: later ones stay in the kernel.
const MAX_DATAGRAMS: usize = 512;
/// Largest datagram that leaves: with IPv6's and UDP's headers the smallest packet that every path carries (RFC 8200, section 5).
pub(super) const DATAGRAM_BYTES: u32 = 1200;
/// What the kernel holds of datagrams that were not taken yet: bursts of many clients.
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;
const READABLE: Token = Token(0);
const WOKEN: Token = Token(1);

/// A socket, and what wakes the thread that has it.
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    poll: Poll,
    waker: Arc<Waker>,
    events: Events,
    buffers: Vec<u8>,
    batch: SendBatch,
    /// Nothing more is there to be received.
    is_drained: bool,
    is_ipv6: bool,
}

/// Datagrams of one length to one address, which leave together.
#[derive(Debug)]
struct SendBatch {
    target: SocketAddr,
    bytes: Vec<u8>,
    datagram_bytes: usize,
}

impl Socket {
    /// Binds the first socket of a server to a port that no other socket has.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let raw = Self::raw(address)?;
        raw.bind(&address.into())?;
        // Only afterwards, or two servers of one user would share the port.
        #[cfg(unix)]
        raw.set_reuse_port(true)?;
        Self::of(raw, address)
    }

    /// Binds another socket of a server to the port of its first one; each gets the datagrams of some senders.
    pub(super) fn bind_beside(&self) -> io::Result<Self> {
        let address = self.local_addr()?;
        let raw = Self::raw(address)?;
        #[cfg(unix)]
        raw.set_reuse_port(true)?;
        raw.bind(&address.into())?;
        Self::of(raw, address)
    }

    /// Binds the socket of a client to a free port that no other socket shares.
    fn bind_alone(ip: IpAddr) -> io::Result<Self> {
        let address = SocketAddr::from((ip, 0));
        let raw = Self::raw(address)?;
        raw.bind(&address.into())?;
        Self::of(raw, address)
    }

    fn raw(address: SocketAddr) -> io::Result<RawSocket> {
        let raw = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // It reaches IPv4, too.
            raw.set_only_v6(false)?;
        }
        Ok(raw)
    }

    fn of(raw: RawSocket, address: SocketAddr) -> io::Result<Self> {
        raw.set_nonblocking(true)?;
        // The system may give less.
        _ = raw.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        let mut socket = UdpSocket::from_std(raw.into());
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut socket, READABLE, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WOKEN)?);
        Ok(Self {
            socket,
            state,
            poll,
            waker,
            events: Events::with_capacity(2),
            buffers: vec![0; BUFFERS * BUFFER_BYTES],
            batch: SendBatch {
                target: address,
                bytes: Vec::new(),
                datagram_bytes: 0,
            },
            is_drained: false,
            is_ipv6: address.is_ipv6(),
        })
    }

    /// Binds a free port, of both families where the system has them.
    pub(super) fn bind_any() -> io::Result<Self> {
        Self::bind_alone(Ipv6Addr::UNSPECIFIED.into())
            .or_else(|_| Self::bind_alone(Ipv4Addr::UNSPECIFIED.into()))
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes what one system call gives; how many datagrams these were. There are none until [`Way::wait`] has found some.
    fn receive_some(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        if self.is_drained {
            return Ok(0);
        }
        let mut meta = [RecvMeta::default(); BUFFERS];
        let mut slices: [IoSliceMut<'_>; BUFFERS] = {
            let mut chunks = self.buffers.chunks_mut(BUFFER_BYTES);
            core::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
        };
        let count = match self
            .state
            .recv(UdpSockRef::from(&self.socket), &mut slices, &mut meta)
        {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_drained = true;
                return Ok(0);
            }
            // An earlier datagram of ours met a closed port.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut datagrams = 0;
        for (meta, slice) in meta.iter().zip(&slices).take(count) {
            for datagram in slice[..meta.len].chunks(meta.stride.max(1)) {
                take(meta.addr, datagram);
                datagrams += 1;
            }
        }
        Ok(datagrams)
    }
}

impl Way for Socket {
    fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    fn receive(&mut self, engine: &mut Engine) -> io::Result<()> {
        let mut datagrams = 0;
        while datagrams < MAX_DATAGRAMS {
            let received = self.receive_some(|source, bytes| {
                let source = endpoint_of(source);
                engine.give(&Input::Datagram { source, bytes });
            })?;
            if received == 0 {
                break;
            }
            datagrams += received;
        }
        Ok(())
    }

    /// Only what came after [`Self::receive_some`] found nothing ends the wait.
    fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        if !self.is_drained {
            return Ok(());
        }
        match self.poll.poll(&mut self.events, longest) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.is_drained = !self.events.iter().any(|event| event.token() == READABLE);
        Ok(())
    }

    /// Sends a datagram, with those before and after it that go to the same address and are as long.
    fn send(&mut self, target: SocketAddr, datagram: &[u8]) {
        let batch = &self.batch;
        let fits = batch.target == target
            && batch.datagram_bytes == datagram.len()
            && batch.bytes.len() / batch.datagram_bytes < self.state.max_gso_segments()
            && batch.bytes.len() + datagram.len() < BUFFER_BYTES;
        if !fits {
            self.flush();
            (self.batch.target, self.batch.datagram_bytes) = (target, datagram.len());
        }
        self.batch.bytes.extend_from_slice(datagram);
    }

    /// Sends what waits for more datagrams to go with.
    fn flush(&mut self) {
        let SendBatch {
            target,
            bytes,
            datagram_bytes,
        } = &mut self.batch;
        if bytes.is_empty() {
            return;
        }
        let destination = match target.ip() {
            IpAddr::V4(ip) if self.is_ipv6 => SocketAddr::from((ip.to_ipv6_mapped(), target.port())),
            _ => *target,
        };
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: bytes,
            segment_size: (bytes.len() > *datagram_bytes).then_some(*datagram_bytes),
            src_ip: None,
        };
        // A datagram that does not leave is lost like one that is lost on the way.
        if let Err(error) = self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            tracing::debug!(%error, %target, "a datagram was not sent");
        }
        bytes.clear();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn is_taken(bound: io::Result<Socket>) -> bool {
        bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
    }

    #[test]
    fn port_of_a_client_is_not_shared() {
        let client = Socket::bind_any().expect("a socket");
        let port = client.local_addr().expect("an address").port();
        assert!(is_taken(Socket::bind((Ipv4Addr::LOCALHOST, port).into())));
        assert!(is_taken(client.bind_beside()));
    }

    #[test]
    fn port_of_a_server_is_shared_among_its_threads_alone() {
        let first = Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
        first.bind_beside().expect("another socket of the server");
        assert!(is_taken(Socket::bind(first.local_addr().expect("an address"))));
    }
}
