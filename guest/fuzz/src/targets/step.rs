//! One node that is fed inputs in any order, sound and broken ones.

use std::collections::BTreeMap;

use selfsame_codec::{BatchWriter, Code, Input, PathKind, Policy, Role};

use super::Target;
use super::lab::{HEAD, Lab, address, config, identity, owner, owner_grant};
use super::ring::{key_and_value, sample_store};
use crate::items::{self, Item};
use crate::mutate::Shape;

/// Kind of the operation that ends a batch and lets as many milliseconds pass as its payload says.
const STEP: u8 = 250;
/// Kind of the operation whose payload is a whole batch, framing and all.
const RAW: u8 = 251;
/// Kind of a first operation that fills the store: length of the key, key, value.
const STORE: u8 = 252;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 64;

/// A node and its host's inputs; every other kind of operation is an input with its kind and payload
pub(super) struct Step;

impl Target for Step {
    fn name(&self) -> &'static str {
        "step"
    }

    fn weight(&self) -> usize {
        40
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let mut seeds = vec![member_seed(), call_seed(), store_seed()];
        // What a member stored, loaded by its next life.
        let stored = sample_store();
        let loaded = stored.into_iter().map(|payload| Item::new(STORE, payload));
        let list: Vec<Item> = loaded
            .chain([operation(&Input::Join { tag: 1 }), pass(1_000)])
            .collect();
        seeds.push(items::encode(&list));
        seeds
    }

    fn run(&mut self, input: &[u8]) {
        let list = items::parse(input);
        let stored = list.iter().take_while(|item| item.kind == STORE);
        let store: BTreeMap<Vec<u8>, Vec<u8>> = stored
            .map(|item| {
                let (key, value) = key_and_value(&item.payload);
                (key.to_vec(), value.to_vec())
            })
            .collect();
        let mut lab = Lab::new(&config(1, Role::Member), store);
        let mut batch: Vec<Item> = Vec::new();
        for item in list.into_iter().take(MAX_OPERATIONS) {
            match item.kind {
                STORE => {}
                STEP => {
                    lab.now_ms += milliseconds(&item.payload);
                    lab.step_items(&items::encode(&batch), batch.len());
                    batch.clear();
                }
                RAW => lab.step_items(&item.payload, item.payload.len()),
                _ => batch.push(item),
            }
        }
        lab.step_items(&items::encode(&batch), batch.len());
    }
}

/// A time out of a payload: up to about nine hours.
pub(super) fn milliseconds(payload: &[u8]) -> u64 {
    let bytes = payload.iter().take(4).rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)) >> 7
}

/// An input as an operation.
pub(super) fn operation(input: &Input<'_>) -> Item {
    let mut batch = BatchWriter::new();
    input.encode(&mut batch);
    let [item] = &items::parse(batch.as_bytes())[..] else {
        unreachable!("an input is one item");
    };
    item.clone()
}

fn pass(ms: u32) -> Item {
    Item::new(STEP, (ms << 7).to_le_bytes())
}

fn data(stream: u32) -> Item {
    operation(&Input::StreamData {
        stream,
        data: b"data",
    })
}

fn member_seed() -> Vec<u8> {
    items::encode(&[
        operation(&Input::Join { tag: 1 }),
        pass(1000),
        operation(&Input::Publish {
            tag: 2,
            grant: owner_grant().encoded(),
            name: "check",
            replicas: 1,
            version: "1",
            weight: 100,
        }),
        operation(&Input::Status { tag: 3 }),
        pass(20_000),
        operation(&Input::Find {
            tag: 4,
            owner: &owner().public().0,
            name: "check",
        }),
        operation(&Input::Call {
            tag: 5,
            owner: &owner().public().0,
            name: "check",
            key: &[],
            tried: &[],
            policy: Policy::PowerOfTwo,
            timeout_ms: 0,
            head: HEAD,
        }),
        pass(100),
        data(1),
        data(2),
        operation(&Input::StreamCredit { stream: 1, bytes: 4 }),
        operation(&Input::StreamCredit { stream: 2, bytes: 4 }),
        operation(&Input::StreamEnd { stream: 1 }),
        operation(&Input::StreamReset {
            stream: 2,
            code: Code::StreamRefused.as_u16(),
        }),
        operation(&Input::Withdraw {
            tag: 6,
            owner: &owner().public().0,
            name: "check",
        }),
        operation(&Input::Leave { tag: 7 }),
        pass(60_000),
    ])
}

fn call_seed() -> Vec<u8> {
    let peer = identity(2).id().0;
    items::encode(&[
        operation(&Input::Connect {
            tag: 1,
            peer,
            address: &address(2),
        }),
        pass(10),
        operation(&Input::PathOpened {
            path: 1,
            dial: 1,
            kind: PathKind::Exchange,
            remote: "127.0.0.1:7002",
        }),
        operation(&Input::CallPeer {
            tag: 2,
            peer,
            owner: &[],
            name: "echo",
            timeout_ms: 0,
            head: HEAD,
        }),
        pass(10),
        operation(&Input::Received {
            path: 1,
            frame: &[4; 48],
        }),
        operation(&Input::DialFailed { dial: 1 }),
        operation(&Input::PathClosed { path: 1 }),
        operation(&Input::Cancel { tag: 2 }),
        operation(&Input::FindNode { tag: 3, id: peer }),
        pass(30_000),
        Item::new(RAW, [1, 4, 0, 0, 0, 1, 0, 0, 0]),
    ])
}

fn store_seed() -> Vec<u8> {
    items::encode(&[
        operation(&Input::Join { tag: 1 }),
        operation(&Input::StoreRead {
            tag: 0,
            ok: true,
            entries: &[],
        }),
        operation(&Input::StoreCommitted { tag: 1, ok: false }),
        operation(&Input::Entropy { bytes: [1; 32] }),
        operation(&Input::PathOpened {
            path: 7,
            dial: 0,
            kind: PathKind::Hibernating,
            remote: "192.0.2.1:1",
        }),
        pass(11_000),
        operation(&Input::PathResumed {
            path: 8,
            remote: "192.0.2.1:2",
            snapshot: &[],
        }),
        pass(1),
    ])
}
