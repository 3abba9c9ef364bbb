//! Why the core refuses a configuration or a bootstrap, of which it says nothing more: what it takes instead tells.

use selfsame_codec::{Code, Config, Role};
use zeroize::Zeroize as _;

use crate::core::CoreModule;
use crate::error::Error;

/// An address with which nothing is wrong.
const ANY_ADDRESS: &str = "wss://node.example/";

/// Why the core refuses a configuration.
pub(super) fn refusal(module: &CoreModule, config: &Config) -> Error {
    let refused = |code, detail| Error::Core { code, detail };
    let is_wrong = |address: &&String| !takes(module, config, address, config.allow_private);
    let wrong = config.addresses.iter().find(is_wrong);
    let Some(address) = wrong.filter(|_| takes(module, config, ANY_ADDRESS, config.allow_private)) else {
        return Error::from_code(Code::BadConfig);
    };
    if !takes(module, config, address, true) {
        let detail = format!("{address}; one is like wss://node.example/.mesh");
        return refused(Code::BadAddress, detail);
    }
    let detail = format!(
        "{address} is private: give the address at which others reach this node, or set allow_private (--allow-private)"
    );
    refused(Code::ForbiddenAddress, detail)
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

/// Whether the core takes an address for one of a member.
fn takes(module: &CoreModule, config: &Config, address: &str, allow_private: bool) -> bool {
    let mut probe = Config {
        role: Role::Member,
        addresses: vec![address.into()],
        bootstraps: Vec::new(),
        allow_private,
        ..config.clone()
    };
    let taken = module.instantiate().and_then(|mut core| core.create(&probe));
    probe.seed.zeroize();
    taken.is_ok()
}
