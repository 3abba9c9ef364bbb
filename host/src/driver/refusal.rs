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

/// Why a node cannot join that reaches its bootstraps and must not dial the addresses that they name themselves by: all are
/// private. `None` if one is not.
pub(super) fn private_bootstrap(module: &CoreModule, config: &Config) -> Option<Error> {
    if config.allow_private {
        return None;
    }
    let mut private = config.bootstraps.iter().map(|url| {
        let address = url.split('#').next().unwrap_or(url);
        (!takes(module, config, address, false) && takes(module, config, address, true)).then_some(address)
    });
    let address = private.next()??;
    private.all(|url| url.is_some()).then(|| Error::Core {
        code: Code::ForbiddenAddress,
        detail: format!(
            "the bootstrap {address} is private: set allow_private (--allow-private) if that is meant"
        ),
    })
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
