//! Capsules: what is written, read, proven and verified.

use core::time::Duration;
use std::path::Path;

use selfsame_host::capsule::{Capsule, CapsuleBuilder, CapsuleName, Peer, RecordName, Timing, find_servers};
use selfsame_host::{Node, Seed};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::args::{CapsuleCommand, KeyFile, Opened, Servers};
use super::client;
use super::output::{Failure, Output};

mod archive;
mod create;
mod govern;
mod look;
mod serve;
mod sync;
mod verify;
mod write;

/// Folder, in that of the state, with what clients must not forget.
const CLIENTS: &str = "capsule-clients";

/// Folder, in that of the state, of this machine's replica.
const REPLICA: &str = "capsules";

pub(crate) async fn run(command: CapsuleCommand, output: Output) -> Result<(), Failure> {
    match command {
        CapsuleCommand::Create(command) => create::create(command, output).await,
        CapsuleCommand::Append(command) => write::append(command, output).await,
        CapsuleCommand::Read(command) => look::read(command, output).await,
        CapsuleCommand::Prove(command) => look::prove(command, output).await,
        CapsuleCommand::Verify(command) => verify::verify(&command, output),
        CapsuleCommand::Heads(command) => look::heads(command, output).await,
        CapsuleCommand::Log(command) => look::log(command, output).await,
        CapsuleCommand::Sync(command) => sync::sync(command, output).await,
        CapsuleCommand::Export(command) => archive::export(command, output).await,
        CapsuleCommand::Import(command) => archive::import(command, output).await,
        CapsuleCommand::Govern(command) => govern::govern(command, output).await,
        CapsuleCommand::Key(file) => create::key(&file, output),
        CapsuleCommand::Serve(command) => serve::run(command, output).await,
    }
}

/// A client of a capsule, and what it asks through
struct Client {
    capsule: Capsule,
    node: Option<Node>,
    deadline: Instant,
}

impl Client {
    /// Opens the capsule of a name, which reads with the key in the file if there is one.
    async fn open(opened: &Opened, output: Output) -> Result<Self, Failure> {
        let Opened {
            name,
            servers,
            key,
            data,
        } = opened;
        let mut builder = Capsule::builder().name(*name);
        if key.key.exists() {
            builder = builder.seed(Seed::load(&key.key)?);
        }
        Self::start(builder, servers, &data.folder, output).await
    }

    /// Opens what a builder describes, through these servers.
    async fn start(
        mut builder: CapsuleBuilder,
        servers: &Servers,
        folder: &Path,
        output: Output,
    ) -> Result<Self, Failure> {
        let longest = servers.timeout.timeout.0;
        let deadline = Instant::now() + longest;
        let node = join(servers, deadline, output).await?;
        for server in &servers.server {
            builder = builder.server(server.clone());
        }
        if let Some(node) = &node {
            builder = builder.mesh(node);
        }
        let builder = builder
            .storage(folder.join(CLIENTS))
            .timing(timing(longest))
            .open();
        let what = "asking the servers who they are";
        let opened = output.progress(what, timeout_at(deadline, builder)).await;
        Ok(Self {
            capsule: opened.map_err(|_| Failure::timed_out(what))??,
            node,
            deadline,
        })
    }

    /// Does something with the capsule, and ends it; whatever that came to, the store is closed.
    async fn with<T>(
        self,
        what: &str,
        output: Output,
        work: impl AsyncFnOnce(&Capsule) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = output
            .progress(what, timeout_at(self.deadline, work(&self.capsule)))
            .await;
        let (failures, lacks) = (self.capsule.failures(), self.capsule.lacks());
        let places = self.capsule.places();
        self.capsule.close().await;
        if let Some(node) = self.node {
            client::leave(node, self.deadline).await;
        }
        let done = done.map_err(|_| Failure::too_few(what, &failures))?;
        if done.is_ok() && !lacks.is_empty() {
            tracing::warn!("{what} went without some servers: {}", lacks.join("; "));
        }
        done.map_err(|failure| failure.of_servers(what, &lacks, &places))
    }
}

/// A node that finds servers, if a network is named.
async fn join(servers: &Servers, deadline: Instant, output: Output) -> Result<Option<Node>, Failure> {
    let Some(network) = servers.network() else {
        if servers.server.is_empty() {
            return Err(Failure::usage(
                "say where the capsule is: --server URL#KEY, or --network NAME --join URL#PEER-ID to find it by its name",
            ));
        }
        return Ok(None);
    };
    let builder = super::node::builder(&network)?.in_memory();
    client::join(builder, &network, deadline, output).await.map(Some)
}

/// The replicas that hold a capsule: those that are named, and those that a node finds by its name.
async fn peers_of(servers: &Servers, node: Option<&Node>, name: CapsuleName) -> Result<Vec<Peer>, Failure> {
    let mut found = servers.server.clone();
    if let Some(node) = node {
        found.extend(find_servers(node, name).await?);
    }
    Ok(found.iter().map(|server| server.peer().clone()).collect())
}

/// A command is given up no later than whoever gave it says.
fn timing(longest: Duration) -> Timing {
    Timing {
        deadline: longest,
        ..Timing::default()
    }
}

/// Refuses to write without the secret to write with.
fn needs_key(file: &KeyFile) -> Result<(), Failure> {
    if file.key.exists() {
        return Ok(());
    }
    let why = "no such file: it holds the secret of the capsule's owner or of a writer (--key names another)";
    Err(Failure::file(&file.key, why))
}

/// Prints the names of records that were written.
fn print(names: &[RecordName], output: Output) -> Result<(), Failure> {
    for name in names {
        output.print(name, &json!({ "record": name.to_string() }))?;
    }
    Ok(())
}

/// The secret in a file, which is made if there is none; whether it was.
fn load_or_create(path: &Path) -> Result<(Seed, bool), Failure> {
    let is_new = !path.exists();
    Ok((Seed::load_or_create(path)?, is_new))
}
