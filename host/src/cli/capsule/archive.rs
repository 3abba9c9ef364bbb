use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use selfsame_host::capsule::{CapsuleName, CapsuleServer, Export, ExportInfo, Import, Peer, find_servers};
use selfsame_host::{Code, Error};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::join;
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
    let mut peers: Vec<Peer> = servers
        .server
        .iter()
        .map(|server| server.peer().clone())
        .collect();
    if let Some(node) = &node {
        let found = find_servers(node, name).await?;
        peers.extend(found.iter().map(|server| server.peer().clone()));
    }
    let written = output.progress("exporting", write(&path, name, &peers)).await;
    if let Some(node) = node {
        client::leave(node, deadline).await;
    }
    let info = written?;
    output.print(path.display(), &value(&info, &path))
}

/// Writes the file out of what the first server gives that gives all of it.
async fn write(path: &Path, name: CapsuleName, peers: &[Peer]) -> Result<ExportInfo, Failure> {
    let mut failed = Failure::from(Error::from_code(Code::NoProvider));
    for peer in peers {
        let mut file = File::create_new(path).map_err(|error| unusable(path, &error))?;
        match write_from(&mut file, path, name, peer).await {
            Ok(info) => return Ok(info),
            Err(failure) => {
                // A half of a file is no capsule.
                _ = std::fs::remove_file(path);
                failed = failure;
            }
        }
    }
    Err(failed)
}

async fn write_from(
    file: &mut File,
    path: &Path,
    name: CapsuleName,
    peer: &Peer,
) -> Result<ExportInfo, Failure> {
    let mut export = Export::begin(name, peer)?;
    while let Some(bytes) = export.next().await? {
        file.write_all(&bytes).map_err(|error| unusable(path, &error))?;
    }
    file.sync_all().map_err(|error| unusable(path, &error))?;
    export
        .info()
        .ok_or_else(|| Failure::other("the export ended before its end"))
}

pub(super) async fn import(command: ImportCommand, output: Output) -> Result<(), Failure> {
    let ImportCommand { file: path, server } = command;
    for server in &server {
        let stored = output
            .progress("importing", store(&path, server.parse::<CapsuleServer>()?.peer()))
            .await?;
        let Value::Object(mut value) = value(&stored, &path) else {
            continue;
        };
        value.insert("server".into(), server.as_str().into());
        let ExportInfo { capsule, records, .. } = stored;
        output.print(
            format_args!("{capsule}: {records} records are stored at {server}"),
            &Value::Object(value),
        )?;
    }
    Ok(())
}

async fn store(path: &Path, peer: &Peer) -> Result<ExportInfo, Failure> {
    let mut file = File::open(path).map_err(|error| unusable(path, &error))?;
    let mut import = Import::begin(peer)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk).map_err(|error| unusable(path, &error))? {
            0 => return Ok(import.finish().await?),
            read => import.push(&chunk[..read]).await?,
        }
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}

fn value(info: &ExportInfo, path: &Path) -> Value {
    json!({
        "file": path,
        "capsule": info.capsule.to_string(),
        "records": info.records,
        "holes": info.holes,
    })
}
