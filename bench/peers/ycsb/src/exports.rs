//! Whole capsules as files.

use std::path::Path;

use bench_pair::Outcome;
use selfsame_host::capsule::{Capsule, Export, WriteOptions};

use crate::backend::Durability;
use crate::clock::Clock;
use crate::server::{Server, Way, said};
use crate::session::Owner;
use crate::workload::{Random, Values};
use crate::ycsb::Folder;

const VALUE_BYTES: usize = 16;

/// Exports a capsule of `count` records, each of which was signed when it was written, from a server that is asked in this way;
/// nanoseconds of the export.
///
/// # Errors
/// When something is refused.
pub(crate) async fn run(folder: &Path, way: Way, count: u64) -> Outcome<String> {
    let folder = Folder::create(folder)?;
    let server = Server::start(&folder.0, Durability::None, way).await?;
    let (_, capsule) = Owner::create(0, server.way(), None).await?;
    let values = Values::new(&mut Random::new(1), VALUE_BYTES);
    for number in 0..count {
        let content = values.of(number).to_vec();
        capsule
            .append([content], WriteOptions::new())
            .await
            .map_err(said)?;
    }
    let measured = measure(&server, &capsule).await;
    capsule.close().await;
    server.end().await;
    measured
}

async fn measure(server: &Server, capsule: &Capsule) -> Outcome<String> {
    let begin = Clock::now();
    let mut export = Export::begin(capsule.name(), server.way().peer()).map_err(said)?;
    let mut bytes = 0;
    while let Some(piece) = export.next().await.map_err(said)? {
        bytes += piece.len();
    }
    let spent = Clock::now().since(begin);
    if bytes == 0 {
        return Err("nothing was exported".into());
    }
    Ok(spent.of_each(1))
}
