//! Rings of a few nodes, and services in them.

use selfsame_codec::{Input, PathKind, Policy};

use super::{Net, Seen};

/// The head of a request: `GET /`.
pub const HEAD: &[u8] = b"\x83\x63GET\x61/\x80";

pub fn join(net: &mut Net, index: usize) {
    net.step(index, &[Input::Join { tag: 100 }]);
    net.run_ms(3_000);
    assert_eq!(
        net.reply(index, 100),
        Some(vec![]),
        "node {index} joins: {:?}",
        net.failed(index, 100)
    );
}

/// Members that have joined one after the other, each through the first.
pub fn ring(size: u8) -> Net {
    ring_over(PathKind::Ordered, size)
}

pub fn ring_over(kind: PathKind, size: u8) -> Net {
    let mut net = Net::new();
    net.kind = kind;
    for seed in 0..size {
        let bootstraps: &[usize] = if seed == 0 { &[] } else { &[0] };
        let index = net.member(seed + 1, bootstraps);
        join(&mut net, index);
    }
    net.run_ms(20_000);
    net
}

pub fn publish(net: &mut Net, index: usize, name: &str) {
    net.step(
        index,
        &[Input::Publish {
            tag: 300,
            grant: &[],
            name,
            replicas: 2,
            version: "1",
            weight: 10_000,
        }],
    );
    net.run_ms(5_000);
    assert_eq!(
        net.reply(index, 300),
        Some(vec![]),
        "{:?}",
        net.failed(index, 300)
    );
    net.hosts[index]
        .seen
        .retain(|seen| !matches!(seen, Seen::Reply { tag: 300, .. }));
}

/// Calls a name; gives the caller's stream, the callee's index and its stream.
pub fn call(net: &mut Net, index: usize, name: &str, tag: u32) -> Option<(u32, usize, u32)> {
    call_within(net, index, name, tag, 10_000)
}

/// As [`call`], and lets so much time pass.
pub fn call_within(net: &mut Net, index: usize, name: &str, tag: u32, ms: u64) -> Option<(u32, usize, u32)> {
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    net.step(index, &[any_provider(tag, name)]);
    net.run_ms(ms);
    let mine = net.hosts[index].seen.iter().find_map(|seen| match seen {
        Seen::StreamOpened {
            stream,
            tag: other,
            peer,
            ..
        } if *other == tag => Some((*stream, *peer)),
        _ => None,
    })?;
    let callee = net.hosts.iter().position(|host| host.id.0 == mine.1)?;
    let theirs = net.hosts[callee].seen.iter().find_map(|seen| match seen {
        Seen::StreamOpened {
            stream,
            tag: 0,
            service,
            head,
            ..
        } if service == name && head == HEAD => Some(*stream),
        _ => None,
    })?;
    Some((mine.0, callee, theirs))
}

/// A call of any provider of an unowned name.
pub fn any_provider(tag: u32, name: &str) -> Input<'_> {
    Input::Call {
        tag,
        owner: &[],
        name,
        key: &[],
        tried: &[],
        policy: Policy::PowerOfTwo,
        timeout_ms: 0,
        head: HEAD,
    }
}

impl Net {
    /// Connects two nodes by address and id; delivers what they send.
    pub fn connect(&mut self, from: usize, to: usize) {
        let (peer, address) = (self.hosts[to].id.0, self.hosts[to].address.clone());
        self.step(
            from,
            &[Input::Connect {
                tag: 1,
                peer,
                address: &address,
            }],
        );
        self.deliver();
    }
}
