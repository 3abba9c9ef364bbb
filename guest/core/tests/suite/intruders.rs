//! What members and leaves of a closed network try that they must not.

use selfsame_codec::reply::Status;
use selfsame_codec::{BatchReader, BatchWriter, EntryWriter, Input, Output, PathKind, Role};
use selfsame_core::Node;
use selfsame_core::channel::{Frame, FrameReader};
use selfsame_core::identity::PeerId;
use selfsame_core::ring::Parameters;

use crate::support::closed::{self, revocations};
use crate::support::rings::{join, publish};
use crate::support::strangers::{Outside, Stranger};
use crate::support::{Net, START_MS};

/// The frames of packets that a node sent to a stranger that are requests of this kind.
fn requests(stranger: &mut Stranger, now_ms: u64, packets: Vec<Vec<u8>>, kind: u8) -> usize {
    let mut count = 0;
    for mut packet in packets {
        let Ok(payload) = stranger.session.open(now_ms, &mut packet) else {
            continue;
        };
        let frames = FrameReader::new(payload).map_while(Result::ok);
        let asks = |frame: &Frame<'_>| matches!(frame, Frame::Request { body, .. } if body[1] == kind);
        count += frames.filter(asks).count();
    }
    count
}

/// How many requests of a kind a node sends to a leaf that says the same two thousand times.
fn drawn(mut net: Net, body: &[u8], kind: u8) -> usize {
    let outside = Outside::new(&mut net);
    let mut liar = outside
        .enter_closed(&mut net, 0, 90, Role::Leaf)
        .expect("a session");
    let mut drawn = 0;
    for id in 0..2_000 {
        let answers = outside.say(&mut net, &mut liar, &Frame::Request { id, body });
        drawn += requests(&mut liar, net.now_ms, answers, kind);
    }
    drawn
}

#[test]
fn peer_that_boasts_of_new_revocations_is_asked_a_few_times_at_once() {
    // [11, the highest serial]
    let body = [&[0x82, 11, 0x1b][..], &[0xff; 8]].concat();
    let asked = drawn(closed::ring(3), &body, 11);
    assert!((1..=4).contains(&asked), "{asked}");
}

#[test]
fn peer_that_boasts_of_convictions_is_asked_a_few_times_at_once() {
    // [13, [[a key, a time]]]
    let body = [&[0x82, 13, 0x81, 0x82, 0x58, 32][..], &[7; 32], &[1]].concat();
    let asked = drawn(closed::guarded_ring(3), &body, 13);
    assert!((1..=4).contains(&asked), "{asked}");
}

/// Failures of the node as a whole in a step of it.
fn broken(node: &mut Node, inputs: &[Input<'_>]) -> Vec<u16> {
    let mut batch = BatchWriter::new();
    inputs.iter().for_each(|input| input.encode(&mut batch));
    let bytes = [&START_MS.to_le_bytes()[..], batch.as_bytes()].concat();
    let output = node.step(&bytes).to_vec();
    let outputs = BatchReader::new(&output).expect("a sound batch");
    let failed = outputs.filter_map(|item| match Output::decode(item) {
        Ok(Output::Failed { tag: 0, code, .. }) => Some(code),
        _ => None,
    });
    failed.collect()
}

#[test]
fn list_that_comes_before_the_older_one_is_loaded_breaks_no_store() {
    let net = closed::ring(1);
    let stored = revocations(&net, 1, &[]);
    let list = revocations(&net, 2, &[2]);
    let mut node = Node::new(&net.hosts[0].config.encode(), &Parameters::DEFAULT).expect("a node");
    broken(&mut node, &[]);
    broken(
        &mut node,
        &[Input::Revoke {
            tag: 400,
            list: &list,
        }],
    );
    let mut entries = EntryWriter::new();
    entries.push(b"ring/revocations", &stored);
    let loaded = Input::StoreRead {
        tag: 0,
        ok: true,
        entries: entries.as_bytes(),
    };
    assert_eq!(broken(&mut node, &[loaded]), [0; 0]);
}

#[test]
fn session_of_a_peer_that_was_revoked_does_not_wake() {
    let mut net = Net::new();
    net.kind = PathKind::Hibernating;
    for seed in 1..4 {
        let bootstraps: &[usize] = if seed == 1 { &[] } else { &[0] };
        let index = closed::add(&mut net, seed, Role::Member, bootstraps);
        join(&mut net, index);
    }
    net.run_ms(20_000);
    let (kept, revoked) = (net.hosts[2].id, net.hosts[1].id);
    assert!(has_session(&mut net, kept) && has_session(&mut net, revoked));
    // The list was stored, and the sockets outlived the process that stored it.
    let list = revocations(&net, 1, &[2]);
    net.hosts[0].store.insert(b"ring/revocations".to_vec(), list);
    net.wake(0);
    assert!(has_session(&mut net, kept) && !has_session(&mut net, revoked));
}

/// Whether the first node has a session with a peer.
fn has_session(net: &mut Net, peer: PeerId) -> bool {
    status(net, 0).peers.contains(&peer.0)
}

fn status(net: &mut Net, index: usize) -> Status {
    net.hosts[index].seen.clear();
    net.step(index, &[Input::Status { tag: 200 }]);
    let body = net.reply(index, 200).expect("a status");
    Status::decode(&body).expect("a sound status")
}

#[test]
fn nobody_stores_what_a_revoked_peer_has_published() {
    let mut net = closed::ring(12);
    // Who keeps copies has not met it.
    let leaf = closed::add(&mut net, 100, Role::Leaf, &[0, 1]);
    join(&mut net, leaf);
    for name in ["one", "two", "three", "four"] {
        publish(&mut net, leaf, name);
    }
    let stored = |net: &mut Net| -> u64 { (0..12).map(|index| status(net, index).objects).sum() };
    assert!(stored(&mut net) > 12);
    let list = revocations(&net, 1, &[100]);
    net.step(
        3,
        &[Input::Revoke {
            tag: 400,
            list: &list,
        }],
    );
    net.run_ms(5_000);
    assert_eq!(stored(&mut net), 0);
}
