//! Neighbours that answer, and say nothing of use.

use alloc::rc::Rc;
use core::cell::Cell;

use selfsame_codec::cbor::Decoder;
use selfsame_codec::Code;
use selfsame_core::identity::PeerId;

use super::network::Network;
use super::outsider::encoded;

/// Time in which one member that is gone must have been found out: an update or two, and what was told of it before.
const FOUND_OUT_MS: u64 = 60_000;

/// Whether a response is one to an update; the record in it.
fn updated(body: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).ok()?;
    let is_result = decoder.uint() == Ok(0) && decoder.array_of(4).is_ok();
    decoder.bytes(4096).ok().filter(|_| is_result)
}

/// A ring in its final shape, and three of its members in a row, with one between the second and the third.
fn ring_with_liar() -> (Network, usize, usize, usize) {
    let mut net = Network::ring_of(77, 12);
    net.run_for(120_000);
    let members = net.members();
    (net, members[3], members[4], members[6])
}

fn lists(net: &Network, node: usize, peer: &PeerId) -> bool {
    let successors = net.nodes[node].ring.successors();
    successors.iter().any(|record| record.id() == *peer)
}

#[test]
fn successor_that_refuses_as_busy_is_replaced() {
    let (mut net, node, liar, gone) = ring_with_liar();
    let refusal = encoded(|encoder| {
        _ = encoder
            .array(2)
            .uint(1)
            .uint(Code::TooManyRequests.class() as u64)
    });
    let refused = Rc::new(Cell::new(0));
    let count = Rc::clone(&refused);
    net.forge = Some(Box::new(move |by, body| {
        updated(body).filter(|_| by == liar).map(|_| {
            count.set(count.get() + 1);
            refusal.clone()
        })
    }));
    let liar = net.id(liar);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &liar), "it answers no update");
    let gone_id = net.id(gone);
    net.crash(gone, false);
    refused.set(0);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &gone_id), "others tell that it is gone");
    assert!(refused.get() < 30, "{} updates in a minute", refused.get());
}

#[test]
fn successor_that_calls_a_current_record_stale_is_replaced() {
    let (mut net, node, liar, _) = ring_with_liar();
    let own = net.with(node, |ring, cx| ring.own_record(cx).encoded().to_vec());
    let refusal = encoded(|encoder| _ = encoder.array(2).uint(2).bytes(&own));
    net.forge = Some(Box::new(move |by, body| {
        updated(body).filter(|_| by == liar).map(|_| refusal.clone())
    }));
    let liar = net.id(liar);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &liar), "it answers no update");
}

#[test]
fn member_that_refuses_by_forged_records_is_disconnected() {
    let (mut net, node, liar, _) = ring_with_liar();
    let mut own = net.with(node, |ring, cx| ring.own_record(cx).encoded().to_vec());
    *own.last_mut().expect("a signature") ^= 1;
    let refusal = encoded(|encoder| _ = encoder.array(2).uint(2).bytes(&own));
    net.forge = Some(Box::new(move |by, _| (by == liar).then(|| refusal.clone())));
    let liar = net.id(liar);
    net.run_for(2 * FOUND_OUT_MS);
    assert!(net.nodes[node].disconnected.contains(&liar));
}
