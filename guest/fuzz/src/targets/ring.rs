//! The ring's part of a member: requests and responses of peers, what the store held, commands, and time.

use std::collections::VecDeque;

use selfsame_codec::{Code, Role};
use selfsame_core::identity::Identity;
use selfsame_core::random::Random;
use selfsame_core::ring::{Action, Context, MAX_MESSAGE_BYTES, Parameters, Ring, Service, Settings};
use selfsame_core::{Holder, Place};

use super::Target;
use super::lab::{START_MS, address, identity, known_id, known_record, network, owner, owner_grant, seed_of};
use super::step::milliseconds;
use crate::items::{self, Item};
use crate::mutate::Shape;

/// A request: who asks (a seed), and the body.
const REQUEST: u8 = 0;
/// The answer to the oldest call that waits for one.
const RESPOND: u8 = 1;
/// The oldest call that waits fails.
const FAIL: u8 = 2;
/// Let time pass.
const PASS: u8 = 3;
/// Find a name.
const FIND: u8 = 4;
/// Publish a name: replicas, then the name; an owned one if it is `check`.
const PUBLISH: u8 = 5;
/// Withdraw a name.
const WITHDRAW: u8 = 6;
/// Join through nodes with these seeds.
const JOIN: u8 = 7;
/// Leave.
const LEAVE: u8 = 8;
/// The node with this seed is connected.
const CONNECTED: u8 = 9;
/// The node with this seed is gone.
const GONE: u8 = 10;
/// The record of the node with this seed is learnt.
const LEARN: u8 = 11;
/// What the store held: length of the key, key, value.
const LOAD: u8 = 12;
/// Look up who is responsible for an id.
const FIND_NODE: u8 = 13;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 96;
/// Most bytes of a stored key and value: the limits of the smallest store.
const MAX_STORED: (usize, usize) = (256, 60 * 1024);

/// One node's ring with what it brings along
struct Member {
    identity: Identity,
    random: Random,
    ring: Ring,
    calls: VecDeque<(u64, u8)>,
    now_ms: u64,
    commands: u32,
    stored: Vec<(Vec<u8>, Vec<u8>)>,
    responses: Vec<Vec<u8>>,
    requests: Vec<Vec<u8>>,
}

impl Member {
    fn new(seed: u8, role: Role) -> Self {
        let identity = identity(seed);
        let settings = Settings {
            id: identity.id(),
            network: network(),
            authority: None,
            role,
            addresses: if role == Role::Member {
                vec![address(seed)]
            } else {
                vec![]
            },
            domain: String::new(),
            allow_private: true,
            idle_ms: 15_000,
        };
        Self {
            identity,
            random: Random::new(&[seed; 32]),
            ring: Ring::new(settings, &Parameters::DEFAULT),
            calls: VecDeque::new(),
            now_ms: START_MS,
            commands: 0,
            stored: Vec::new(),
            responses: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Does something with the ring and takes what it wants done.
    fn with(&mut self, act: impl FnOnce(&mut Ring, &mut Context<'_>, u32)) {
        self.commands += 1;
        let mut context = Context {
            now_ms: self.now_ms,
            wall_ms: self.now_ms,
            identity: &self.identity,
            random: &mut self.random,
            source: Holder::network(["192.0.2.1", "", "127.0.0.1"][self.commands as usize % 3]),
        };
        act(&mut self.ring, &mut context, self.commands);
        while let Some(action) = self.ring.poll() {
            self.take(action);
        }
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Request { call, to, body, .. } => {
                assert!(body.len() <= MAX_MESSAGE_BYTES, "a request fits");
                let seed = seed_of(&to).unwrap_or(u8::MAX);
                self.calls.push_back((call, seed));
                self.requests.push(body);
            }
            Action::Respond { body, .. } => {
                assert!(body.len() <= MAX_MESSAGE_BYTES, "a response fits");
                self.responses.push(body);
            }
            Action::Put { key, value, .. } => {
                assert!(key.starts_with(Ring::STORE_PREFIX), "the ring keeps to its keys");
                assert!(
                    key.len() <= MAX_STORED.0 && value.len() <= MAX_STORED.1,
                    "every store takes it"
                );
                self.stored.push((key, value));
            }
            _ => {}
        }
    }

    fn run(&mut self, Item { kind, payload }: &Item) {
        let seed = payload.first().copied().unwrap_or(0);
        let text = String::from_utf8_lossy(payload);
        match *kind {
            REQUEST => {
                let body = payload.get(1..).unwrap_or_default();
                self.with(|ring, cx, token| ring.request(cx, known_id(seed), u64::from(token), body));
            }
            RESPOND => {
                if let Some((call, _)) = self.calls.pop_front() {
                    self.with(|ring, cx, _| ring.response(cx, call, Ok(payload)));
                }
            }
            FAIL => {
                if let Some((call, _)) = self.calls.pop_front() {
                    self.with(|ring, cx, _| ring.response(cx, call, Err(Code::TimedOut)));
                }
            }
            PASS => {
                self.now_ms += milliseconds(payload);
                self.with(|ring, cx, _| ring.tick(cx));
            }
            FIND => self.with(|ring, cx, command| {
                let owner = (text == "check").then(|| owner().public());
                ring.find_up_to(cx, command, owner, &text, false);
            }),
            PUBLISH => {
                let service = service(
                    payload.first().copied().unwrap_or(0),
                    payload.get(1..).unwrap_or_default(),
                );
                self.with(|ring, cx, command| ring.publish(cx, command, service));
            }
            WITHDRAW => self.with(|ring, cx, command| {
                let owner = (text == "check").then(|| owner().public());
                ring.withdraw(cx, command, owner, &text);
            }),
            JOIN => {
                let bootstraps = payload.iter().take(4).map(|seed| known_id(*seed)).collect();
                self.with(|ring, cx, command| ring.join(cx, command, bootstraps));
            }
            LEAVE => self.with(|ring, cx, command| ring.leave(cx, command)),
            CONNECTED => self.with(|ring, cx, _| ring.peer_connected(cx, known_id(seed))),
            GONE => self.with(|ring, cx, _| ring.peer_gone(cx, known_id(seed))),
            LEARN => self.with(|ring, cx, _| ring.learn(cx, known_record(seed))),
            LOAD => {
                let (key, value) = key_and_value(payload);
                self.with(|ring, cx, _| _ = ring.load(cx, key, value));
            }
            FIND_NODE => {
                let mut id = [0; 32];
                id.iter_mut().zip(payload).for_each(|(to, from)| *to = *from);
                self.with(|ring, cx, command| ring.find_node(cx, command, Place(id)));
            }
            _ => {}
        }
    }
}

/// Length of the key, key, value.
pub(super) fn key_and_value(payload: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = payload.split_first() else {
        return (&[], &[]);
    };
    rest.split_at(usize::from(*len).min(rest.len()))
}

fn service(replicas: u8, name: &[u8]) -> Service {
    let owned = name == b"check";
    Service {
        name: String::from_utf8_lossy(name).into_owned(),
        owner: owned.then(|| owner().public()),
        grant: if owned {
            owner_grant().encoded().to_vec()
        } else {
            vec![]
        },
        replicas,
        version: "1".into(),
        weight: 100,
    }
}

/// A member with seed 1 and peers that it knows by their records
pub(super) struct Rings {
    records: Vec<Item>,
}

impl Rings {
    /// The peers.
    pub(super) fn new() -> Self {
        let records = (2..5).map(|seed| Item::new(LEARN, [seed])).collect();
        Self { records }
    }
}

impl Target for Rings {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn weight(&self) -> usize {
        35
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn max_len(&self) -> usize {
        80_000
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let samples = Samples::make();
        let mut seeds = vec![items::encode(&samples.stored)];
        // Every request alone, and the whole life of a member with what its peers really answered.
        for body in samples.requests {
            let request = Item::new(REQUEST, [&[2][..], &body].concat());
            seeds.push(items::encode(&[Item::new(JOIN, []), request]));
        }
        seeds.push(items::encode(&samples.life));
        seeds
    }

    fn run(&mut self, input: &[u8]) {
        let mut member = Member::new(1, Role::Member);
        self.records.iter().for_each(|item| member.run(item));
        for item in items::parse(input).iter().take(MAX_OPERATIONS) {
            member.run(item);
        }
    }
}

/// One sound request of each kind, as members really send them.
pub(super) fn sample_requests() -> Vec<Vec<u8>> {
    Samples::make().requests
}

/// What a member of a real ring has stored: length of the key, key, value.
pub(super) fn sample_store() -> Vec<Vec<u8>> {
    Samples::make()
        .stored
        .into_iter()
        .map(|item| item.payload)
        .collect()
}

/// What members of a real ring said to each other
struct Samples {
    requests: Vec<Vec<u8>>,
    stored: Vec<Item>,
    life: Vec<Item>,
}

impl Samples {
    /// Runs a ring of four members and a leaf for a while.
    fn make() -> Self {
        let mut members: Vec<Member> = (1..5).map(|seed| Member::new(seed, Role::Member)).collect();
        members.push(Member::new(5, Role::Leaf));
        let mut samples = Self {
            requests: Vec::new(),
            stored: Vec::new(),
            life: Vec::new(),
        };
        let pass = Item::new(PASS, (16_000_u32 << 7).to_le_bytes());
        samples.order(&mut members, 1, &Item::new(JOIN, []));
        for at in [0, 2, 3, 4] {
            samples.order(&mut members, at, &Item::new(LEARN, [2]));
            samples.order(&mut members, at, &Item::new(JOIN, [2]));
        }
        for item in [
            &pass,
            &Item::new(PUBLISH, b"\x03check".as_slice()),
            &Item::new(PUBLISH, b"\x00open".as_slice()),
            &Item::new(FIND, b"check".as_slice()),
            &Item::new(FIND_NODE, [0x55; 32]),
            &pass,
            &Item::new(WITHDRAW, b"open".as_slice()),
        ] {
            samples.order(&mut members, 0, item);
            (1..members.len()).for_each(|at| samples.order(&mut members, at, &pass));
        }
        samples.order(&mut members, 3, &Item::new(LEAVE, []));
        samples.order(&mut members, 4, &Item::new(LEAVE, []));
        samples.order(&mut members, 0, &Item::new(LEAVE, []));
        samples.stored = members[0]
            .stored
            .iter()
            .map(|(key, value)| Item::new(LOAD, [&[key.len() as u8][..], key, value].concat()))
            .take(MAX_OPERATIONS)
            .collect();
        samples
    }

    /// One operation at one member, and all that follows from it everywhere.
    fn order(&mut self, members: &mut [Member], at: usize, item: &Item) {
        members[at].run(item);
        self.note(at, item.clone());
        while let Some(asking) = members.iter().position(|member| !member.calls.is_empty()) {
            let Some((call, seed)) = members[asking].calls.pop_front() else {
                return;
            };
            let request = members[asking].requests.remove(0);
            self.keep(&request);
            let answer = (1..=members.len())
                .contains(&usize::from(seed))
                .then(|| ask(&mut members[usize::from(seed) - 1], asking, &request))
                .flatten();
            let result = answer.as_deref().ok_or(Code::TimedOut);
            members[asking].with(|ring, cx, _| ring.response(cx, call, result));
            let operation = answer.map_or_else(|| Item::new(FAIL, []), |body| Item::new(RESPOND, body));
            self.note(asking, operation);
        }
    }

    fn note(&mut self, at: usize, item: Item) {
        if at == 0 && self.life.len() < MAX_OPERATIONS {
            self.life.push(item);
        }
    }

    /// Keeps the first requests of each kind and length of array.
    fn keep(&mut self, request: &[u8]) {
        let alike = self
            .requests
            .iter()
            .filter(|kept| kept.get(..2) == request.get(..2));
        if alike.count() == 0 {
            self.requests.push(request.to_vec());
        }
    }
}

/// The answer of a member, if it has one at once.
fn ask(member: &mut Member, asking: usize, request: &[u8]) -> Option<Vec<u8>> {
    let from = known_id(asking as u8 + 1);
    member.with(|ring, cx, token| ring.request(cx, from, u64::from(token), request));
    member.responses.pop()
}
