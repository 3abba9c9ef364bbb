//! Strangers that try to choose what a node dials.

use crate::support::rings::ring;
use crate::support::strangers::{Outside, Stranger, address, identity};
use crate::support::{Net, config};
use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Input, Role};
use selfsame_core::channel::Frame;
use selfsame_core::identity::{Identity, NetworkId};
use selfsame_core::record::{NodeRecord, RecordTerms};

const HOUR_MS: u64 = 3_600_000;

fn signed(identity: &Identity, addresses: &[String], now_ms: u64) -> NodeRecord {
    let terms = RecordTerms::new(Role::Member, addresses, now_ms, now_ms + 20 * HOUR_MS);
    NodeRecord::sign(identity, &terms).expect("a record")
}

/// An invented member, at eight addresses that take connections and say nothing.
fn ghost(number: u32, now_ms: u64) -> NodeRecord {
    let mut seed = [0xEE; 32];
    seed[..4].copy_from_slice(&number.to_le_bytes());
    let identity = Identity::recall(&seed, NetworkId::open("twiitr"), &[]);
    let addresses: Vec<String> = (0..8)
        .map(|n| format!("ws://tarpit.example:{}", 1 + number * 8 % 60_000 + n))
        .collect();
    signed(&identity, &addresses, now_ms)
}

fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out));
    out
}

/// A stranger whose id, of those that it can make, comes right before that of the first member: it has become its neighbour.
fn neighbour(net: &mut Net, outside: &Outside) -> (Stranger, NodeRecord) {
    let first = net.hosts[0].id;
    let mut others: Vec<_> = net
        .hosts
        .iter()
        .map(|host| host.id.0)
        .filter(|id| *id < first.0)
        .collect();
    others.sort_unstable();
    let before = others.last().copied().unwrap_or([0; 32]);
    let seed = (0..u16::MAX).find(|seed| (before..first.0).contains(&identity(*seed).id().0));
    let seed = seed.expect("an id near the first member's");
    let mut stranger = outside.enter(net, 0, "192.0.2.1", seed).expect("a session");
    let own = signed(&identity(seed), &["ws://tarpit.example/".into()], net.now_ms);
    let update = encoded(|encoder| _ = encoder.array(4).uint(6).bytes(own.encoded()).bool(true).array(0));
    outside.say(net, &mut stranger, &Frame::Request { id: 0, body: &update });
    (stranger, own)
}

/// Has the neighbour leave again and again, and name other invented members each time.
fn invent(net: &mut Net, outside: &Outside, (stranger, own): &mut (Stranger, NodeRecord)) {
    for message in 1..=64 {
        let ghosts: Vec<NodeRecord> = (0..16).map(|n| ghost(message * 16 + n, net.now_ms)).collect();
        let body = encoded(|encoder| {
            let encoder = encoder
                .array(5)
                .uint(7)
                .bytes(own.encoded())
                .null()
                .array(ghosts.len());
            for ghost in &ghosts {
                encoder.bytes(ghost.encoded());
            }
            encoder.array(0);
        });
        outside.say(
            net,
            stranger,
            &Frame::Request {
                id: message,
                body: &body,
            },
        );
    }
}

/// Has a stranger of a network of its own ask four times for its place.
fn ask_to_join(net: &mut Net, outside: &Outside, seed: u16, id: u32) {
    let Some(mut stranger) = outside.enter(net, 0, &address(seed), seed) else {
        return;
    };
    let own = signed(&identity(seed), &["ws://tarpit.example/".into()], net.now_ms);
    let body = encoded(|encoder| _ = encoder.array(2).uint(5).bytes(own.encoded()));
    for n in 0..4 {
        outside.say(
            net,
            &mut stranger,
            &Frame::Request {
                id: id + n,
                body: &body,
            },
        );
    }
}

#[test]
fn lookups_through_invented_members_dial_few() {
    let mut net = ring(20);
    let outside = Outside::new(&mut net);
    let mut neighbour = neighbour(&mut net, &outside);
    let began = net.hosts[0].dials;
    for second in 0..40 {
        invent(&mut net, &outside, &mut neighbour);
        for seed in 0..70 {
            ask_to_join(&mut net, &outside, seed, 4 * second);
        }
        net.recorded.clear();
        net.run_ms(1_000);
    }
    let dials = net.hosts[0].dials - began;
    assert!(dials < 800, "{dials} in 40 s");
}

#[test]
fn dialled_sessions_count_for_the_network_of_their_address() {
    let mut net = ring(2);
    let outside = Outside::new(&mut net);
    let from = |seed: u16| format!("198.51.{}.1", 100 + seed / 2);
    let friends = (0..6).map(|seed| outside.enter(&mut net, 0, &from(seed), seed).expect("a session"));
    let friends: Vec<Stranger> = friends.collect();
    let mut dialled = Vec::new();
    for number in 0..1_100_u32 {
        let mut config = config(9, Role::Member, &[]);
        config.seed[..4].copy_from_slice(&number.to_le_bytes());
        config.addresses = vec![format!("ws://192.0.2.{}:{}/", number % 200, 10_000 + number)];
        let at = net.add(config);
        let (peer, address) = (net.hosts[at].id.0, net.hosts[at].address.clone());
        let tag = 5_000 + number;
        // As a lookup does with whom somebody has named.
        net.step(
            0,
            &[Input::Connect {
                tag,
                peer,
                address: &address,
            }],
        );
        net.deliver();
        assert!(net.reply(0, tag).is_some(), "{number}");
        net.recorded.clear();
        dialled.push(net.hosts[at].id);
    }
    assert_eq!(outside.connected(&net, &friends), 6);
    let live = dialled.iter().filter(|peer| net.connected(0, **peer)).count();
    assert!(live <= 513, "{live} sessions with one network");
}
