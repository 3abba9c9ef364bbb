use alloc::sync::Arc;

use selfsame_host::capsule::{CapsuleKey, Peer};
use selfsame_host::{ConnectionLimit, Replica, ReplicateOptions, TrustedProxies};
use serde_json::json;

use super::REPLICA;
use crate::cli::args::ServeCommand;
use crate::cli::listen::{accept_strangers, answer_from, bind};
use crate::cli::output::{Failure, Output};
use crate::cli::signals::interrupted;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 1024;

pub(super) async fn run(command: ServeCommand, output: Output) -> Result<(), Failure> {
    let interrupted = interrupted(command.end_with_input)?;
    let proxies = Arc::new(TrustedProxies::parse(&command.trusted_proxy)?);
    let limit = ConnectionLimit::new(MAX_CONNECTIONS, Arc::clone(&proxies));
    let replica = Replica::builder()
        .owners(command.owner)
        .write_buffer((command.write_buffer as usize) << 20)
        .open(&command.data.folder.join(REPLICA))?;
    let (listener, address) = bind(command.listen).await?;
    let key = CapsuleKey(replica.key());
    output.print(
        format_args!("replica at http://{address}/#{key}"),
        &json!({
            "event": "serving",
            "url": format!("http://{address}/"),
            "key": key.to_string(),
            "capsules": replica.capsules().len(),
        }),
    )?;
    let mut others = ReplicateOptions::new().keep(command.keep);
    for url in &command.replica {
        others = others.peer(Peer::at(url)?);
    }
    let replicating = (!command.replica.is_empty()).then(|| replica.replicate(others));
    let joined = async {
        if let Some(replicating) = &replicating {
            replicating.joined().await;
            output.print(
                "joined",
                &json!({ "event": "joined", "capsules": replica.capsules().len() }),
            )?;
        }
        core::future::pending().await
    };
    let ended = tokio::select! {
        () = accept_strangers(listener, &limit, |socket| answer_from(socket, replica.service(), Arc::clone(&proxies))) => Ok(()),
        () = interrupted => Ok(()),
        failed = joined => failed,
    };
    drop(replicating);
    replica.close().await;
    ended
}
