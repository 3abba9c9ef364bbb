//! Leaves behind members, and what callers hear of one that is gone.

use crate::support::Net;
use crate::support::rings::{any_provider, join, publish, ring};
use selfsame_codec::{Code, Input};

/// A ring of four with a leaf that serves a page.
fn leaf() -> (Net, usize) {
    let mut net = ring(4);
    let leaf = net.leaf(60, &[0]);
    join(&mut net, leaf);
    net.run_ms(5_000);
    publish(&mut net, leaf, "page");
    (net, leaf)
}

/// How a member's call of the page ends within a second.
fn outcome(net: &mut Net, index: usize, tag: u32) -> Option<Code> {
    net.step(index, &[any_provider(tag, "page")]);
    net.run_ms(1_000);
    net.failed(index, tag)
}

#[test]
fn leaf_that_is_gone_after_a_restart_gives_its_place_back() {
    let (mut net, leaf) = leaf();
    let is_kept = |net: &Net, index: usize| {
        net.hosts[index]
            .store
            .keys()
            .any(|key| key.starts_with(b"ring/leaf/"))
    };
    let relays: Vec<usize> = (0..4).filter(|index| is_kept(&net, *index)).collect();
    assert!(!relays.is_empty());
    for relay in &relays {
        net.kill(*relay);
    }
    net.kill(leaf);
    for relay in &relays {
        net.restart(*relay);
        assert!(is_kept(&net, *relay), "one that slept may have it still");
        net.step(*relay, &[Input::Join { tag: 100 }]);
    }
    net.run_ms(20_000);
    for relay in relays {
        assert!(!is_kept(&net, relay));
    }
}

#[test]
fn callers_hear_at_once_of_a_leaf_that_is_gone() {
    for gone_ms in [0, 10_000, 60_000] {
        let (mut net, leaf) = leaf();
        net.kill(leaf);
        net.run_ms(gone_ms);
        for index in 0..4 {
            let code = outcome(&mut net, index, 10);
            assert!(
                matches!(code, Some(Code::NoRoute | Code::NoProvider)),
                "{gone_ms} ms, member {index}: {code:?}"
            );
        }
    }
}

#[test]
fn session_with_a_leaf_ends_when_the_leaf_is_gone() {
    let (mut net, leaf) = leaf();
    let peer = net.hosts[leaf].id;
    net.step(
        2,
        &[Input::Connect {
            tag: 20,
            peer: peer.0,
            address: "",
        }],
    );
    net.step(2, &[any_provider(21, "page")]);
    net.run_ms(1_000);
    assert!(net.connected(2, peer));
    net.kill(leaf);
    net.run_ms(60_000);
    assert!(!net.connected(2, peer));
}
