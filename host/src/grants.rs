//! The permissions of a node to serve names of owners, which may be renewed while it runs.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::error::Error;
use crate::id::{OwnerKey, PeerId};
use crate::keys::Grant;

/// The grants of one node, by the names that they are for
#[derive(Debug)]
pub(crate) struct Grants {
    peer: PeerId,
    network: String,
    table: RwLock<HashMap<String, (OwnerKey, Grant)>>,
}

impl Grants {
    /// No grants yet.
    pub(crate) fn new(peer: PeerId, network: &str) -> Self {
        Self {
            peer,
            network: network.into(),
            table: RwLock::default(),
        }
    }

    /// Adds a grant in place of an older one for its name, which is returned with the one before. A grant that is not for
    /// this node is a mistake.
    pub(crate) fn add(&self, grant: Grant) -> Result<(String, Option<(OwnerKey, Grant)>), Error> {
        let granted = grant.verify(&self.network)?;
        if granted.peer != self.peer {
            let (name, peer, own) = (granted.name, granted.peer, self.peer);
            return Err(Error::Input(format!(
                "the grant for \"{name}\" is for peer {peer}, and this node is {own}"
            )));
        }
        // Nothing panics between two changes of the table.
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let before = table.insert(granted.name.clone(), (granted.owner, grant));
        Ok((granted.name, before))
    }

    /// The owner of a name, and its grant.
    pub(crate) fn of(&self, name: &str) -> Option<(OwnerKey, Grant)> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(name).cloned()
    }
}
