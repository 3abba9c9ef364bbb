//! The attacks, and how each is played.

mod authorship;
mod half_open;
mod handshake;
mod mirror;
mod relay;
mod sessions;
mod siblings;
mod streams;
mod unsigned;
mod withdrawals;

use crate::figure::Figure;
use crate::module::Backend;

/// How an attack is played
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arena {
    /// What runs the module under attack.
    pub(crate) backend: Backend,
    /// What everything follows from.
    pub(crate) seed: u64,
}

/// An attack
pub(crate) struct Attack {
    /// Its name on the command line, and in `docs/threats.md`.
    pub(crate) name: &'static str,
    /// What the attacker does, in one line.
    pub(crate) what: &'static str,
    /// Plays it and returns what was measured.
    pub(crate) play: fn(Arena) -> Vec<Figure>,
    /// Whether the short form, which every change must pass, plays it.
    pub(crate) is_quick: bool,
}

/// All attacks, in the order of `docs/threats.md`.
pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "withdrawal-revokes",
        what: "a stranger's withdrawal carries an unsigned grant that revokes an owned name's providers",
        play: withdrawals::revoke,
        is_quick: true,
    },
    Attack {
        name: "withdrawals-revive",
        what: "254 ungranted withdrawals beside an owner's revocation",
        play: withdrawals::revive,
        is_quick: true,
    },
    Attack {
        name: "withdrawals-block",
        what: "256 ungranted withdrawals before the owner's new provider publishes",
        play: withdrawals::block,
        is_quick: true,
    },
    Attack {
        name: "authorship-frames",
        what: "a writer signs a record that points to two records in another's name with one sequence",
        play: authorship::frame,
        is_quick: true,
    },
    Attack {
        name: "authorship-burns",
        what: "a writer and one of three servers name a record of another's with a sequence near the last",
        play: authorship::burn,
        is_quick: true,
    },
    Attack {
        name: "unsigned-records",
        what: "a stranger stores 131,072 empty records that nobody signs",
        play: unsigned::crowd,
        is_quick: true,
    },
    Attack {
        name: "sibling-hiding",
        what: "the responsible member answers with a dead provider's entry alone",
        play: siblings::hide,
        is_quick: true,
    },
    Attack {
        name: "relay-paths",
        what: "1100 identities each send a leaf one 20-byte frame through one relay",
        play: relay::use_up_paths,
        is_quick: true,
    },
    Attack {
        name: "stream-overlap",
        what: "one session sends overlapping data on 256 streams",
        play: streams::overlap,
        is_quick: true,
    },
    Attack {
        name: "stream-sessions",
        what: "three sessions each send overlapping data on 256 streams",
        play: streams::many_sessions,
        is_quick: false,
    },
    Attack {
        name: "mirror-flood",
        what: "a stranger mirrors 65,536 foreign associations to one member",
        play: mirror::flood,
        is_quick: true,
    },
    Attack {
        name: "mirror-false-signatures",
        what: "a stranger mirrors entries whose signatures are false",
        play: mirror::false_signatures,
        is_quick: true,
    },
    Attack {
        name: "half-open",
        what: "one address opens 400 paths with four handshakes each and returns every cookie",
        play: half_open::fill,
        is_quick: true,
    },
    Attack {
        name: "stalled-sessions",
        what: "1100 sessions with an open stream each that never carries data",
        play: sessions::stalled,
        is_quick: true,
    },
    Attack {
        name: "one-identity",
        what: "one identity opens 1100 sessions with an open stream each",
        play: sessions::one_identity,
        is_quick: true,
    },
    Attack {
        name: "confirmation-signature",
        what: "1000 confirmations with a wrong signature on one half-open handshake",
        play: handshake::wrong_signature,
        is_quick: true,
    },
    Attack {
        name: "cookie-age",
        what: "a cookie is returned after it has expired",
        play: handshake::old_cookie,
        is_quick: true,
    },
    Attack {
        name: "previous-key",
        what: "a packet under the previous key arrives after that key's time",
        play: handshake::previous_key,
        is_quick: true,
    },
];
