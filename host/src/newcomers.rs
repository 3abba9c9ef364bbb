//! Newcomers to a closed network, whom a node looks up before they become neighbours.

use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
use core::pin::Pin;

use selfsame_codec::Code;

use crate::id::{NodeKey, PeerId};

/// A peer that wants to become a neighbour
#[cfg_attr(not(feature = "admission"), expect(dead_code, reason = "nobody looks it up"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    /// Its id, which follows from its key and the address of its certificate.
    pub(crate) peer: PeerId,
    pub(crate) key: NodeKey,
    /// From where it connected, if it did, and not through another peer.
    pub(crate) source: Option<IpAddr>,
}

/// Why a newcomer is not confirmed, if it is not
pub(crate) type Confirmation = Pin<Box<dyn Future<Output = Result<(), Code>> + Send>>;

/// Where newcomers are looked up
#[derive(Clone)]
pub(crate) struct Newcomers {
    look_up: Arc<dyn Fn(Newcomer) -> Confirmation + Send + Sync>,
    take_strays: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Newcomers {
    #[cfg(feature = "admission")]
    pub(crate) fn new(
        look_up: impl Fn(Newcomer) -> Confirmation + Send + Sync + 'static,
        take_strays: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            look_up: Arc::new(look_up),
            take_strays: Arc::new(take_strays),
        }
    }

    pub(crate) fn look_up(&self, newcomer: Newcomer) -> Confirmation {
        (self.look_up)(newcomer)
    }

    /// Whether datagrams have answered other queries since this was asked last.
    pub(crate) fn take_strays(&self) -> bool {
        (self.take_strays)()
    }
}

impl fmt::Debug for Newcomers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Newcomers").finish_non_exhaustive()
    }
}
