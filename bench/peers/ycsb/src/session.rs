//! The client of a capsule's owner, as a program that embeds the host has it.

use std::path::PathBuf;

use bench_pair::Outcome;
use selfsame_host::capsule::{Capsule, CapsuleServer, Plan};
use selfsame_host::{RecordName, Seed};

use crate::server::said;

/// Reads records, each proven.
///
/// # Errors
/// Why one of them cannot be read.
pub(crate) async fn read_all(capsule: &Capsule, names: &[RecordName]) -> Outcome<()> {
    let records = capsule.read_all(names).await.map_err(said)?;
    records
        .into_iter()
        .try_for_each(|record| record.map(drop).map_err(said))
}

/// An owner of a capsule at one server, and where the client keeps what it must not forget
#[derive(Debug)]
pub(crate) struct Owner {
    metadata: Vec<u8>,
    seed: [u8; 32],
    server: CapsuleServer,
    folder: Option<PathBuf>,
}

impl Owner {
    /// Creates a sealed capsule; its client, which keeps nothing unless a folder is given.
    ///
    /// # Errors
    /// What the client or the server refuses, here and in all that follows.
    pub(crate) async fn create(
        number: u32,
        server: &CapsuleServer,
        folder: Option<PathBuf>,
    ) -> Outcome<(Self, Capsule)> {
        let mut seed = [1; 32];
        seed[..4].copy_from_slice(&number.to_le_bytes());
        let plan = Plan::new("a benchmark").sealed();
        let owner = Self {
            metadata: plan.sign(&Seed::from_bytes(seed)).map_err(said)?,
            seed,
            server: server.clone(),
            folder,
        };
        let capsule = owner.open().await?;
        capsule.create().await.map_err(said)?;
        Ok((owner, capsule))
    }

    /// Ends a client, and goes on with one that has verified nothing yet.
    pub(crate) async fn open_anew(&self, capsule: &mut Capsule) -> Outcome<()> {
        capsule.clone().close().await;
        *capsule = self.open().await?;
        Ok(())
    }

    async fn open(&self) -> Outcome<Capsule> {
        let builder = Capsule::builder()
            .metadata(self.metadata.clone())
            .server(self.server.clone())
            .seed(Seed::from_bytes(self.seed));
        let builder = match &self.folder {
            Some(folder) => builder.storage(folder),
            None => builder.in_memory(),
        };
        builder.open().await.map_err(said)
    }
}
