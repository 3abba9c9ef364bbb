use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use selfsame_host::capsule::{CapsuleName, CapsuleServer, Export, ExportInfo, Import, Peer};
use selfsame_host::{Code, Error};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{join, peers_of};
use crate::cli::args::{ExportCommand, ImportCommand};
use crate::cli::client;
use crate::cli::output::{Failure, Output};

/// Bytes of a file that are read at a time.
const CHUNK: usize = 1 << 20;

pub(super) async fn export(command: ExportCommand, output: Output) -> Result<(), Failure> {
    let ExportCommand {
        name,
        output: path,
        servers,
    } = command;
    let deadline = Instant::now() + servers.timeout.timeout.0;
    let node = join(&servers, deadline, output).await?;
    let peers = peers_of(&servers, node.as_ref(), name).await?;
    let written = output.progress("exporting", write(&path, name, &peers)).await;
    if let Some(node) = node {
        client::leave(node, deadline).await;
    }
    let info = written?;
    let mut value = export_value(&info);
    value["file"] = json!(path);
    output.print(path.display(), &value)
}

/// Writes the file out of what the first server gives that gives all of it.
async fn write(path: &Path, name: CapsuleName, peers: &[Peer]) -> Result<ExportInfo, Failure> {
    let mut failures = Vec::new();
    for peer in peers {
        let mut file = File::create_new(path).map_err(|error| Failure::file(path, error))?;
        match write_from(&mut file, path, name, peer).await {
            Ok(info) => {
                for failure in failures {
                    tracing::warn!("another server was asked: {failure}");
                }
                return Ok(info);
            }
            Err(failure) => {
                // A half of a file is no capsule.
                _ = std::fs::remove_file(path);
                failures.push(failure.at(peer.place()));
            }
        }
    }
    let failed = failures.pop();
    Err(failed.unwrap_or_else(|| Error::from_code(Code::NoProvider).into()))
}

async fn write_from(
    file: &mut File,
    path: &Path,
    name: CapsuleName,
    peer: &Peer,
) -> Result<ExportInfo, Failure> {
    let mut export = Export::begin(name, peer)?;
    while let Some(bytes) = export.next().await? {
        file.write_all(&bytes)
            .map_err(|error| Failure::file(path, error))?;
    }
    file.sync_all().map_err(|error| Failure::file(path, error))?;
    export
        .info()
        .ok_or_else(|| Failure::other("the export ended before its end"))
}

pub(super) async fn import(command: ImportCommand, output: Output) -> Result<(), Failure> {
    let ImportCommand { file: path, server } = command;
    for server in &server {
        let stored = output
            .progress("importing", store(&path, server.parse::<CapsuleServer>()?.peer()))
            .await;
        let stored = stored.map_err(|failure| failure.at(server))?;
        let mut value = export_value(&stored);
        value["file"] = json!(path);
        value["server"] = server.as_str().into();
        let ExportInfo { capsule, records, .. } = stored;
        let text = format_args!("{capsule}: {records} records are stored at {server}");
        output.print(text, &value)?;
    }
    Ok(())
}

async fn store(path: &Path, peer: &Peer) -> Result<ExportInfo, Failure> {
    let mut file = File::open(path).map_err(|error| Failure::file(path, error))?;
    let mut import = Import::begin(peer)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match file
            .read(&mut chunk)
            .map_err(|error| Failure::file(path, error))?
        {
            0 => return Ok(import.finish().await?),
            read => import.push(&chunk[..read]).await?,
        }
    }
}

/// What an export file holds, as JSON.
pub(super) fn export_value(info: &ExportInfo) -> Value {
    json!({
        "capsule": info.capsule.to_string(),
        "records": info.records,
        "holes": info.holes,
    })
}
