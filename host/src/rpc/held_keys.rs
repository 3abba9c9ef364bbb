//! The ticket keys that a server holds: its own, or those that the replicas share.

use core::time::Duration;
use std::sync::Mutex;

use zeroize::Zeroizing;

use super::key_sharing::SharedTicketKeys;
use super::keys::TicketKeys;
use super::serving::ServerOrder;
use super::thread::OrderSender;
use crate::error::Error;
use crate::keys::Seed;
use crate::lock::lock;
use crate::task::Task;

/// What the replicas of a service share, and tickets are sealed with
#[derive(Clone)]
#[non_exhaustive]
pub enum RpcTicketKey {
    /// A secret that all replicas are given.
    Secret(Seed),
    /// Secrets that they tell each other over the mesh.
    Shared(SharedTicketKeys),
}

impl From<Seed> for RpcTicketKey {
    fn from(secret: Seed) -> Self {
        Self::Secret(secret)
    }
}

impl From<SharedTicketKeys> for RpcTicketKey {
    fn from(keys: SharedTicketKeys) -> Self {
        Self::Shared(keys)
    }
}

impl core::fmt::Debug for RpcTicketKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RpcTicketKey(..)")
    }
}

/// The ticket keys of a server.
#[derive(Debug)]
pub(super) enum HeldKeys {
    Own(Mutex<TicketKeys>),
    Shared(SharedTicketKeys, Option<Task>),
}

impl HeldKeys {
    /// # Errors
    /// [`Error::Input`] when tickets would outlive keys that are shared.
    pub(super) fn new(key: &RpcTicketKey, ticket_life: Duration) -> Result<Self, Error> {
        match key {
            RpcTicketKey::Secret(secret) => Ok(Self::Own(Mutex::new(TicketKeys::new(secret.clone())))),
            RpcTicketKey::Shared(keys) if keys.rotation() < ticket_life => Err(Error::Input(format!(
                "tickets are good for at most {} s: then the keys that the replicas share rotate",
                keys.rotation().as_secs()
            ))),
            RpcTicketKey::Shared(keys) => Ok(Self::Shared(keys.clone(), None)),
        }
    }

    /// Returns the secrets as the module takes them.
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Own(keys) => lock(keys).encode(),
            Self::Shared(keys, _) => keys.secrets().borrow().clone(),
        }
    }

    /// Returns what is shared, if it is.
    pub(super) fn shared(&self) -> Option<&SharedTicketKeys> {
        match self {
            Self::Own(_) => None,
            Self::Shared(keys, _) => Some(keys),
        }
    }

    /// Changes the server's own keys, and returns the secrets as the module takes them.
    ///
    /// # Errors
    /// [`Error::Input`] when they are shared.
    pub(super) fn change(&self, change: impl FnOnce(&mut TicketKeys)) -> Result<Zeroizing<Vec<u8>>, Error> {
        let Self::Own(keys) = self else {
            return Err(Error::Input(
                "the replicas share their ticket keys, which rotate by themselves: renew replaces them"
                    .into(),
            ));
        };
        let mut keys = lock(keys);
        change(&mut keys);
        Ok(keys.encode())
    }

    /// Tells threads of the server the secrets that are shared, now and whenever they change.
    pub(super) fn follow(&mut self, threads: Vec<OrderSender<ServerOrder>>) {
        let Self::Shared(keys, following) = self else {
            return;
        };
        let mut secrets = keys.secrets();
        secrets.mark_changed();
        let telling = async move {
            while secrets.changed().await.is_ok() {
                let secrets = secrets.borrow_and_update().clone();
                for thread in &threads {
                    thread.send(ServerOrder::SetTicketKeys(secrets.clone()));
                }
            }
        };
        *following = Some(Task::spawn(telling));
    }
}
