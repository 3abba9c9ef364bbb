//! Nodes that really talk to each other over a wire that drops, repeats, reorders, cuts and changes frames. `Pair`
//! begins anew with each input; `Soak` keeps one node running for the whole time and watches what it holds.

use selfsame_codec::{Input, PathKind, Policy};

use super::Target;
use super::lab::{HEAD, owner};
use super::peer::combine;
use super::step::{milliseconds, operation};
use crate::items::{self, Item};
use crate::mutate::Shape;

/// Nodes in one thread with a virtual clock.
#[path = "../../../core/tests/support/mod.rs"]
mod support;

use support::Net;

/// Deliver the frame under way with this number; the first one if there is no payload.
const DELIVER: u8 = 0;
/// Deliver all.
const DELIVER_ALL: u8 = 1;
/// Lose a frame.
const DROP: u8 = 2;
/// Send a frame twice.
const REPEAT: u8 = 3;
/// Swap two frames.
const SWAP: u8 = 4;
/// Change a frame: its number, then places and what to combine with them.
const CHANGE: u8 = 5;
/// Cut a frame: its number, how much is left.
const CUT: u8 = 6;
/// Lengthen a frame: its number, by how much.
const LENGTHEN: u8 = 7;
/// Send a frame of long ago once more.
const REPLAY: u8 = 8;
/// Send the payload to the node with this number.
const RAW: u8 = 9;
/// Let time pass.
const PASS: u8 = 10;
/// An input of an application: number of the node, kind, payload.
const LOCAL: u8 = 11;
/// Kill a node and start it again with its store.
const RESTART: u8 = 12;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 64;
/// Most time that one input lets pass at once.
const MAX_PASS_MS: u64 = 60_000;

/// Kind of a first operation that says how the nodes are joined: the bits of its payload are flags.
const SETTING: u8 = 200;
/// Paths that do not keep the order.
const EXCHANGE: u8 = 1;
/// Two leaves behind one member in place of two members.
const LEAVES: u8 = 2;
/// Paths that hibernate.
const HIBERNATING: u8 = 4;

/// Two or three nodes on a bad wire
pub(super) struct Pair;

fn start(setting: u8) -> Net {
    let mut net = Net::new();
    net.kind = match setting {
        _ if setting & EXCHANGE != 0 => PathKind::Exchange,
        _ if setting & HIBERNATING != 0 => PathKind::Hibernating,
        _ => PathKind::Ordered,
    };
    net.member(1, &[]);
    net.step(0, &[Input::Join { tag: 1 }]);
    if setting & LEAVES == 0 {
        net.member(2, &[0]);
    } else {
        net.leaf(2, &[0]);
        net.leaf(3, &[0]);
        net.step(2, &[Input::Join { tag: 1 }]);
    }
    net.step(1, &[Input::Join { tag: 1 }]);
    net
}

fn run(net: &mut Net, Item { kind, payload }: &Item) {
    let number = payload.first().copied().map_or(0, usize::from);
    let rest = payload.get(1..).unwrap_or_default();
    let place = number % net.flights.len().max(1);
    let nodes = net.hosts.len();
    match *kind {
        DELIVER => {
            if let Some(flight) = net.flights.remove(place) {
                receive(net, flight.to, flight.path, &flight.frame);
            }
        }
        DELIVER_ALL => net.deliver(),
        DROP => _ = net.flights.remove(place),
        REPEAT => {
            if let Some(flight) = net.flights.get(place) {
                let (to, path, frame) = (flight.to, flight.path, flight.frame.clone());
                receive(net, to, path, &frame);
            }
        }
        SWAP if !net.flights.is_empty() => {
            let other = rest.first().copied().map_or(0, usize::from) % net.flights.len();
            net.flights.swap(place, other);
        }
        CHANGE | CUT | LENGTHEN => {
            if let Some(flight) = net.flights.get_mut(place) {
                change(*kind, &mut flight.frame, rest);
            }
        }
        REPLAY => {
            if let Some((_, to, path, frame)) = net.recorded.get(number).cloned() {
                receive(net, to, path, &frame);
            }
        }
        RAW => receive(net, number % nodes, 2, rest),
        PASS => net.run_ms(milliseconds(payload).min(MAX_PASS_MS)),
        LOCAL => {
            let input = rest.split_first().map(|(kind, rest)| Item::new(*kind, rest));
            let input: Vec<Item> = input.into_iter().collect();
            let batch = [&net.now_ms.to_le_bytes()[..], &items::encode(&input)].concat();
            net.step_raw(number % nodes, &batch);
        }
        RESTART => {
            net.kill(number % nodes);
            net.restart(number % nodes);
            net.step(number % nodes, &[Input::Join { tag: 9 }]);
        }
        _ => {}
    }
}

fn receive(net: &mut Net, to: usize, path: u32, frame: &[u8]) {
    net.step(to, &[Input::Received { path, frame }]);
}

fn change(kind: u8, frame: &mut Vec<u8>, how: &[u8]) {
    let number = how
        .iter()
        .take(2)
        .rev()
        .fold(0, |number, byte| number << 8 | usize::from(*byte));
    match kind {
        CHANGE => combine(frame, how),
        CUT => frame.truncate(number),
        _ => frame.resize(frame.len() + number, 0xa5),
    }
}

fn local(node: u8, input: &Input<'_>) -> Item {
    let Item { kind, payload } = operation(input);
    Item::new(LOCAL, [&[node, kind][..], &payload].concat())
}

fn pass(ms: u32) -> Item {
    Item::new(PASS, (ms << 7).to_le_bytes())
}

impl Target for Pair {
    fn name(&self) -> &'static str {
        "pair"
    }

    fn weight(&self) -> usize {
        3
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let with = |setting: u8, list: Vec<Item>| {
            let first = Item::new(SETTING, [setting]);
            items::encode(&[vec![first], list].concat())
        };
        vec![
            with(0, sound_seed(0)),
            with(0, bad_seed()),
            with(EXCHANGE, sound_seed(0)),
            with(HIBERNATING, sound_seed(0)),
            with(LEAVES, sound_seed(2)),
            with(LEAVES | EXCHANGE, sound_seed(2)),
        ]
    }

    fn run(&mut self, input: &[u8]) {
        let list = items::parse(input);
        let setting = list.first().filter(|item| item.kind == SETTING);
        let flags = setting.and_then(|item| item.payload.first().copied());
        let mut net = start(flags.unwrap_or(0));
        list.iter()
            .take(MAX_OPERATIONS)
            .for_each(|item| run(&mut net, item));
    }
}

/// A stream from one node to another, and a farewell.
fn sound_seed(caller: u8) -> Vec<Item> {
    let publish = Input::Publish {
        tag: 2,
        grant: &[],
        name: "echo",
        replicas: 0,
        version: "1",
        weight: 1,
    };
    let call = Input::Call {
        tag: 3,
        owner: &[],
        name: "echo",
        key: &[],
        tried: &[],
        policy: Policy::PowerOfTwo,
        timeout_ms: 0,
        head: HEAD,
    };
    let find = Input::Find {
        tag: 4,
        owner: &owner().public().0,
        name: "check",
    };
    vec![
        Item::new(DELIVER_ALL, []),
        pass(3_000),
        local(1, &publish),
        pass(1_000),
        local(caller, &call),
        Item::new(DELIVER_ALL, []),
        local(
            caller,
            &Input::StreamData {
                stream: 1,
                data: b"ask",
            },
        ),
        local(caller, &Input::StreamEnd { stream: 1 }),
        Item::new(DELIVER_ALL, []),
        local(
            1,
            &Input::StreamData {
                stream: 1,
                data: b"tell",
            },
        ),
        Item::new(DELIVER_ALL, []),
        local(caller, &find),
        Item::new(DELIVER_ALL, []),
        local(1, &Input::Leave { tag: 5 }),
        pass(20_000),
    ]
}

/// A handshake on a wire that does everything wrong.
fn bad_seed() -> Vec<Item> {
    vec![
        Item::new(DELIVER, []),
        Item::new(REPEAT, []),
        Item::new(DELIVER, []),
        Item::new(CHANGE, [0, 20, 0, 1]),
        Item::new(DELIVER_ALL, []),
        pass(20_000),
        Item::new(CUT, [0, 30, 0]),
        Item::new(LENGTHEN, [0, 255, 255]),
        Item::new(SWAP, [0, 1]),
        Item::new(DROP, []),
        Item::new(DELIVER_ALL, []),
        Item::new(REPLAY, [0]),
        Item::new(REPLAY, [2]),
        Item::new(RAW, [1, 16, 0, 0, 0]),
        Item::new(RESTART, [1]),
        pass(30_000),
    ]
}

/// Paths that strangers hold open at a time.
const MAX_STRANGERS: usize = 128;

/// A member that runs from the first execution to the last, while strangers come, send what they like and go
pub(super) struct Soak {
    net: Net,
    strangers: Vec<u32>,
}

impl Soak {
    /// A ring of two, of which the first node is watched.
    pub(super) fn new() -> Self {
        let mut net = start(0);
        net.run_ms(10_000);
        Self {
            net,
            strangers: Vec::new(),
        }
    }

    /// A new path from a stranger.
    fn come(&mut self) -> u32 {
        let path = self.net.new_path(0);
        self.net.step(
            0,
            &[Input::PathOpened {
                path,
                dial: 0,
                kind: PathKind::Ordered,
                remote: "203.0.113.1:1",
            }],
        );
        self.strangers.push(path);
        path
    }
}

impl Target for Soak {
    fn name(&self) -> &'static str {
        "soak"
    }

    fn weight(&self) -> usize {
        10
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn keeps_state(&self) -> bool {
        true
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        // What the two members said to each other, as a stranger who listened would send it again.
        let recorded = self.net.recorded.iter().filter(|(_, to, ..)| *to == 0);
        let mut seeds: Vec<Vec<u8>> = recorded
            .take(40)
            .map(|(.., frame)| items::encode(&[Item::new(RAW, frame.clone())]))
            .collect();
        seeds.push(items::encode(&[
            Item::new(RAW, [1; 1328]),
            pass(100),
            Item::new(RAW, [16; 64]),
        ]));
        seeds
    }

    fn run(&mut self, input: &[u8]) {
        let path = self.come();
        for item in items::parse(input).into_iter().take(MAX_OPERATIONS) {
            match item.kind {
                PASS => self.net.run_ms(milliseconds(&item.payload).min(MAX_PASS_MS)),
                _ => receive(&mut self.net, 0, path, &item.payload),
            }
        }
        if self.strangers.len() > MAX_STRANGERS {
            let path = self.strangers.remove(0);
            self.net.step(0, &[Input::PathClosed { path }]);
        }
        // Time goes on for the node, so that what it forgets with time is forgotten.
        self.net.run_ms(50);
        self.net.flights.clear();
        self.net.recorded.clear();
        self.net.hosts.iter_mut().for_each(|host| host.seen.clear());
    }
}
