//! What carries the datagrams of a thread.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use mio::Waker;
use selfsame_codec::rpc::Output;

use super::engine::Engine;

/// Carries the datagrams of an instance: a socket, or requests over HTTP and WebSocket.
pub(super) trait Way: Send + 'static {
    /// Returns what ends [`Self::wait`] from another thread.
    fn waker(&self) -> Arc<Waker>;

    /// Gives the instance what has arrived.
    fn receive(&mut self, engine: &mut Engine) -> io::Result<()>;

    /// Sends a datagram; one that does not leave is lost.
    fn send(&mut self, target: SocketAddr, datagram: &[u8]);

    /// Learns which calls are carried out, and which are given up.
    fn follow(&mut self, _output: &Output<'_>) {}

    /// Sends what waits for more, now that the instance has had all its inputs.
    fn flush(&mut self);

    /// Waits until something arrives, it is woken or the time is over.
    fn wait(&mut self, longest: Option<Duration>) -> io::Result<()>;
}
