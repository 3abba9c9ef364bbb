use selfsame_host::capsule::{Capsule, HashFunction, Plan, describe, public_key, reader_key};
use serde_json::json;

use super::{Client, load_or_create};
use crate::cli::args::{CreateCommand, Hash, KeyFile};
use crate::cli::output::{Failure, Output};

pub(super) async fn create(command: CreateCommand, output: Output) -> Result<(), Failure> {
    let CreateCommand {
        description,
        sealed,
        hash,
        writer,
        servers,
        key,
        data,
    } = command;
    let (owner, _) = load_or_create(&key.key)?;
    let mut plan = Plan::new(description).writers(writer).hash(match hash {
        Hash::Blake3 => HashFunction::Blake3,
        Hash::Sha256 => HashFunction::Sha256,
    });
    if sealed {
        plan = plan.sealed();
    }
    let metadata = plan.sign(&owner)?;
    let name = describe(&metadata)?.name;
    let builder = Capsule::builder().metadata(metadata).seed(owner);
    let client = Client::start(builder, &servers, &data.folder, output).await?;
    let what = "creating the capsule";
    client
        .with(what, output, async |capsule| Ok(capsule.create().await?))
        .await?;
    let value = json!({ "capsule": name.to_string(), "key": key.key });
    output.print(name, &value)
}

/// Shows by which keys others know whoever has this file.
pub(super) fn key(file: &KeyFile, output: Output) -> Result<(), Failure> {
    let (seed, is_new) = load_or_create(&file.key)?;
    let (key, reader) = (public_key(&seed)?, reader_key(&seed)?);
    let value = json!({
        "key": key.to_string(),
        "reader": reader.to_string(),
        "file": file.key,
        "new": is_new,
    });
    output.print(format_args!("key {key}\nreader {reader}"), &value)
}
