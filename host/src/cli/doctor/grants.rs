//! Whether a node may serve the names that it is to serve.

use std::path::Path;
use std::time::SystemTime;

use selfsame_host::Granted;

use super::finding::Finding;
use crate::cli::args::{Member, NodeCommand};
use crate::cli::keys::{GRANT_REMEDY, check_grant};

const CHECK: &str = "grant";

/// What is to be said of each grant, and of each name that needs one and has none.
pub(super) fn findings(command: &NodeCommand, network: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names = Vec::new();
    for path in &command.member.grant {
        match check_grant(path, network, &command.member.data.folder) {
            Ok((_, granted)) => {
                findings.push(judge(path, &granted, command));
                names.push(granted.name);
            }
            Err(why) => findings.push(Finding::wrong(
                CHECK,
                format!("{}: {why}", path.display()),
                GRANT_REMEDY,
            )),
        }
    }
    let Member { network, grant, .. } = &command.member;
    // One that cannot be used may be for any name.
    let is_lacking = !network.unowned && names.len() == grant.len();
    let lacking = command
        .serve
        .iter()
        .filter(|forward| is_lacking && !names.contains(&forward.name));
    findings.extend(lacking.map(|forward| {
        let text = format!("no grant lets this node serve {}", forward.name);
        let remedy =
            "--grant FILE, which `selfsame grant` makes, or --unowned for a name that anybody may serve";
        Finding::wrong(CHECK, text, remedy)
    }));
    findings
}

/// Whether a grant that can be used is for what the command line names.
fn judge(path: &Path, granted: &Granted, command: &NodeCommand) -> Finding {
    let Granted { name, owner, .. } = granted;
    let path = path.display();
    if let Some(meant) = command.member.network.owner.filter(|meant| meant != owner) {
        let text = format!("{path}: the grant for {name} is of owner {owner}, and --owner is {meant}");
        return Finding::wrong(
            CHECK,
            text,
            "name its owner, or ask the one who is meant for a grant",
        );
    }
    if !command.serve.is_empty() && command.serve.iter().all(|forward| forward.name != *name) {
        let text = format!("{path}: the grant is for {name}, which no --serve names");
        return Finding::wrong(CHECK, text, format!("--serve {name}=URL, or leave the grant out"));
    }
    let left = granted
        .expires
        .duration_since(SystemTime::now())
        .unwrap_or_default();
    let hours = left.as_secs() / 3600;
    Finding::well(
        CHECK,
        format!(
            "{path}: it may serve {name} for {} d {} h more",
            hours / 24,
            hours % 24
        ),
    )
}
