//! Providers that leave in good order, several at the same time, are named no more.

use crate::support::Net;
use crate::support::rings::{publish, ring};
use selfsame_codec::Input;
use selfsame_codec::reply::decode_providers;

/// Who a fresh find names.
fn found(net: &mut Net, index: usize, tag: u32) -> Vec<[u8; 32]> {
    let find = Input::Find {
        tag,
        owner: &[],
        name: "check",
    };
    net.step(index, &[find]);
    net.run_ms(2_000);
    let Some(body) = net.reply(index, tag) else {
        return Vec::new();
    };
    let providers = decode_providers(&body).expect("providers");
    providers.into_iter().map(|provider| provider.peer).collect()
}

/// Lets time pass until all that is under way has arrived; the hosts of nodes that have left close their paths.
fn settle(net: &mut Net, leavers: &[usize], ms: u64) {
    net.run_ms(ms);
    for index in leavers {
        if net.hosts[*index].up && net.reply(*index, 400).is_some() {
            net.kill(*index);
        }
    }
}

/// Three providers leave a ring at the same time; gives how many of them others name two seconds later.
fn named_after_leaving(size: u8, leavers: [usize; 3]) -> usize {
    let mut net = ring(size);
    for index in leavers {
        publish(&mut net, index, "check");
    }
    for index in leavers {
        net.step(index, &[Input::Leave { tag: 400 }]);
    }
    for _ in 0..20 {
        settle(&mut net, &leavers, 100);
    }
    for index in leavers {
        assert!(!net.hosts[index].up, "{index} of {size} leaves in time");
    }
    let others = (0..usize::from(size)).filter(|index| !leavers.contains(index));
    others
        .map(|index| found(&mut net, index, 500).len())
        .max()
        .unwrap_or_default()
}

#[test]
fn providers_that_leave_together_are_named_no_more() {
    let mut named = Vec::new();
    for size in [4, 5, 6, 8, 12] {
        let net = ring(size);
        let mut in_order: Vec<usize> = (0..usize::from(size)).collect();
        in_order.sort_by_key(|index| net.hosts[*index].id);
        for first in 0..usize::from(size) {
            let neighbours = [0, 1, 2].map(|n| in_order[(first + n) % in_order.len()]);
            let apart = [0, 1, 2].map(|n| (first + n * usize::from(size) / 3) % usize::from(size));
            for leavers in [neighbours, apart] {
                let count = named_after_leaving(size, leavers);
                named.extend((count > 0).then_some((size, leavers, count)));
            }
        }
    }
    assert!(named.is_empty(), "ring, who left, how many are named: {named:?}");
}
