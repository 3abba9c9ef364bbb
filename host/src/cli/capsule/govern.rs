use selfsame_host::capsule::{
    Authorship, Capsule, CapsuleKey, Description, Governing, RecordName, Revocation, describe,
};
use serde_json::json;

use super::{Client, needs_key};
use crate::cli::args::GovernCommand;
use crate::cli::output::{Failure, Output};

pub(super) async fn govern(command: GovernCommand, output: Output) -> Result<(), Failure> {
    let is_change = command.is_change();
    let GovernCommand {
        capsule: opened,
        add,
        revoke,
        accept,
        reader,
        new_epoch,
    } = command;
    if is_change {
        needs_key(&opened.key)?;
    }
    let client = Client::open(&opened, output).await?;
    let what = "changing who writes and reads";
    client
        .with(what, output, async |capsule| {
            if !is_change {
                return show(&capsule.describe().await?, output);
            }
            if !reader.is_empty() && !describe(&capsule.describe().await?.metadata)?.is_sealed {
                return Err(Failure::usage(
                    "--reader: the capsule is not sealed, so everybody reads it; make one with `selfsame capsule create --sealed`",
                ));
            }
            let change = Governing {
                add,
                revoke: revocations(capsule, &revoke, &accept).await?,
                readers: reader,
                new_epoch,
            };
            super::print(&capsule.govern(&change).await?, output)
        })
        .await
}

/// Who may write.
fn show(description: &Description, output: Output) -> Result<(), Failure> {
    let epoch = description.epoch;
    for (writer, key) in &description.writers {
        let value = json!({ "writer": writer, "key": key.to_string(), "epoch": epoch });
        output.print(format_args!("writer {writer} {key}"), &value)?;
    }
    Ok(())
}

/// Who leaves, by their keys, each with those of the records that still count which it wrote.
async fn revocations(
    capsule: &Capsule,
    keys: &[CapsuleKey],
    accepted: &[RecordName],
) -> Result<Vec<Revocation>, Failure> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let writers = capsule.describe().await?.writers;
    let mut revoked = keys
        .iter()
        .map(|key| {
            let number = writers
                .iter()
                .find(|(_, other)| other == key)
                .map(|(number, _)| *number);
            let heads = Vec::new();
            number.map(|writer| Revocation { writer, heads }).ok_or_else(|| {
                let why = "nobody who may write has this key: without a change the command shows who may";
                Failure::usage(format!("--revoke {key}: {why}"))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    for (name, record) in accepted.iter().zip(capsule.read_all(accepted).await?) {
        // One that names a writer who has not signed it is somebody else's.
        let authorship = record?.authorship;
        let is_of = |revocation: &&mut Revocation| authorship == Authorship::SignedBy(revocation.writer);
        let of = revoked.iter_mut().find(is_of);
        let why = "none of those who are revoked signed it";
        of.ok_or_else(|| Failure::usage(format!("--accept {name}: {why}")))?
            .heads
            .push(*name);
    }
    Ok(revoked)
}
