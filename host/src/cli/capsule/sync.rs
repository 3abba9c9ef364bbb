use selfsame_host::capsule::{CapsuleName, Peer};
use selfsame_host::{Replica, Synchronised};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{REPLICA, join, peers_of};
use crate::cli::args::SyncCommand;
use crate::cli::client;
use crate::cli::output::{Failure, Output};

/// Times that all are compared: what one has goes to the others the second time at the latest.
const ROUNDS: usize = 3;

pub(super) async fn sync(command: SyncCommand, output: Output) -> Result<(), Failure> {
    let SyncCommand { name, servers, data } = command;
    let deadline = Instant::now() + servers.timeout.timeout.0;
    let node = join(&servers, deadline, output).await?;
    let peers = peers_of(&servers, node.as_ref(), name).await?;
    if peers.is_empty() {
        return Err(selfsame_host::Error::from_code(selfsame_host::Code::NoProvider).into());
    }
    let replica = Replica::open(&data.folder.join(REPLICA))?;
    let what = "comparing replicas";
    let compared = timeout_at(deadline, compare(&replica, name, &peers));
    let compared = output.progress(what, compared).await;
    replica.close().await;
    if let Some(node) = node {
        client::leave(node, deadline).await;
    }
    let total = compared.map_err(|_| Failure::timed_out(what))??;
    let Synchronised { pulled, pushed, .. } = total;
    let value = json!({
        "capsule": name.to_string(),
        "replicas": peers.len(),
        "agreed": total.agreed,
        "pulled": pulled,
        "pushed": pushed,
    });
    let outcome = if total.agreed {
        "the same"
    } else {
        "not the same yet"
    };
    output.print(
        format_args!(
            "{} replicas hold {outcome}: {pulled} pulled, {pushed} pushed",
            peers.len()
        ),
        &value,
    )
}

/// Compares the replica with all others until all of them hold the same.
async fn compare(replica: &Replica, name: CapsuleName, peers: &[Peer]) -> Result<Synchronised, Failure> {
    let mut total = Synchronised::default();
    for _ in 0..ROUNDS {
        let before = (total.pulled, total.pushed);
        total.agreed = true;
        for peer in peers {
            let one = replica.synchronise(name, peer).await;
            let one = one.map_err(|error| Failure::from(error).at(peer.place()))?;
            total.agreed &= one.agreed;
            total.pulled += one.pulled;
            total.pushed += one.pushed;
        }
        if total.agreed && before == (total.pulled, total.pushed) {
            break;
        }
    }
    Ok(total)
}
