//! What a refusal of the core means to whoever has configured the node.

use selfsame_codec::{Code, Config};

use crate::error::Error;

/// The error for a configuration that the core refuses.
pub(super) fn refusal(config: &Config, code: Code) -> Error {
    let addresses = config.addresses.join(", ");
    let detail = match code {
        Code::BadAddress => format!("{addresses}; one is like wss://node.example/.mesh"),
        Code::ForbiddenAddress => format!(
            "{addresses} is private: give the address at which others reach this node, or set allow_private (--allow-private)"
        ),
        Code::WrongAddress => addresses,
        _ => String::new(),
    };
    Error::Core { code, detail }
}

/// Why the bootstraps did not let a node in, as far as the core said.
pub(super) fn join_failure(config: &Config, has_refused_private: bool) -> String {
    let through = joining(config);
    if has_refused_private {
        format!(
            "{through}, a private address was refused: set allow_private (--allow-private) if that is meant"
        )
    } else {
        format!("{through} failed: they do not answer, have not joined yet themselves, or have no room")
    }
}

/// Which bootstraps a node joins through.
pub(super) fn joining(config: &Config) -> String {
    let without_id = |url: &String| url.split('#').next().unwrap_or_default().to_owned();
    let bootstraps: Vec<String> = config.bootstraps.iter().map(without_id).collect();
    format!("joining through {}", bootstraps.join(", "))
}
