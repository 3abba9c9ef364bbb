//! A client and replicas of one service, driven through the boundary over a network that the test controls.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use selfsame_codec::rpc::IDEMPOTENT;
use selfsame_codec::rpc::{ClientConfig, Input, Output, ServerConfig};
use selfsame_codec::{BatchReader, BatchWriter, Code};
use selfsame_rpc::Machine;

/// Options of a call that may not.
pub(crate) const ONCE: u8 = 0;
/// The first of the secrets that ticket keys follow from.
pub(crate) const SECRET: [u8; 32] = secret(0);
pub(crate) const ROUTER_SECRET: [u8; 32] = [3; 32];
pub(crate) const CALLER: [u8; 32] = [7; 32];
pub(crate) const SERVICE: u32 = 3;
pub(crate) const START_US: u64 = 1_800_000_000_000_000;
pub(crate) const TICKET_LIFE_S: u32 = 3600;

pub(crate) type Address = [u8; 18];

const fn secret(rotations: u8) -> [u8; 32] {
    [100 + rotations; 32]
}

/// The secrets of the current and of the next ticket key after so many rotations.
fn secrets(rotations: u8) -> [u8; 64] {
    let secrets = [secret(rotations), secret(rotations + 1)];
    core::array::from_fn(|at| secrets.as_flattened()[at])
}

/// The address of a replica, or of the client, which is 0.
pub(crate) fn address(number: u16) -> Address {
    let mut address = [0; 18];
    address[10..12].copy_from_slice(&[0xff, 0xff]);
    address[12..14].copy_from_slice(&[192, 0]);
    address[14..16].copy_from_slice(&number.to_be_bytes());
    address[17] = 9;
    address
}

/// A datagram under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) bytes: Vec<u8>,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(Vec<u8>),
    Failed(Code),
}

/// How a replica is set up.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) secrets: [u8; 64],
    pub(crate) replay: u8,
    pub(crate) not_before_ms: u64,
    pub(crate) seed: u8,
    pub(crate) streams: bool,
}

impl Setup {
    pub(crate) fn idempotent(seed: u8) -> Self {
        Self {
            secrets: secrets(0),
            replay: 1,
            not_before_ms: 0,
            seed,
            streams: false,
        }
    }

    pub(crate) fn bound(seed: u8) -> Self {
        Self {
            replay: 0,
            ..Self::idempotent(seed)
        }
    }
}

/// A replica that echoes, with what it carried out.
pub(crate) struct Replica {
    pub(crate) machine: Machine,
    pub(crate) wake_us: u64,
    /// Payloads in the order in which they were carried out.
    pub(crate) executed: Vec<Vec<u8>>,
    pub(crate) cancelled: usize,
    /// Answers this many bytes in place of an echo.
    pub(crate) answer_bytes: Option<usize>,
    /// Whether calls stay unanswered.
    pub(crate) is_silent: bool,
    pub(crate) open: Vec<u32>,
}

/// Everything, and the time.
pub(crate) struct World {
    pub(crate) now_us: u64,
    pub(crate) client: Machine,
    pub(crate) client_wake_us: u64,
    pub(crate) replicas: BTreeMap<Address, Replica>,
    pub(crate) network: VecDeque<Datagram>,
    /// All datagrams that were ever sent.
    pub(crate) captured: Vec<Datagram>,
    pub(crate) outcomes: BTreeMap<u32, Outcome>,
    pub(crate) tickets_wanted: usize,
    /// Replica that issues tickets; none are to be had without.
    pub(crate) issuer: Option<Address>,
    pub(crate) refused: Vec<Code>,
}

impl World {
    /// A client and so many replicas, at addresses from 1 on.
    pub(crate) fn new(setups: &[Setup]) -> Self {
        let client = Machine::new(&ClientConfig { datagram_bytes: 1200 }.encode()).expect("a client");
        let mut world = Self {
            now_us: START_US,
            client,
            client_wake_us: u64::MAX,
            replicas: BTreeMap::new(),
            network: VecDeque::new(),
            captured: Vec::new(),
            outcomes: BTreeMap::new(),
            tickets_wanted: 0,
            issuer: Some(address(1)),
            refused: Vec::new(),
        };
        for (at, setup) in setups.iter().enumerate() {
            world.start(at as u16 + 1, setup);
        }
        world
    }

    /// Starts a replica, in place of what ran at its address.
    pub(crate) fn start(&mut self, number: u16, setup: &Setup) {
        let config = ServerConfig {
            network: b"net",
            service: b"check",
            ticket_secrets: &setup.secrets,
            entropy: [setup.seed; 32],
            datagram_bytes: if setup.streams { 1 << 20 } else { 1200 },
            streams: setup.streams,
            ticket_life_s: TICKET_LIFE_S,
            replay: setup.replay,
            not_before_ms: setup.not_before_ms,
            router_secret: &ROUTER_SECRET,
        };
        let replica = Replica {
            machine: Machine::new(&config.encode()).expect("a server"),
            wake_us: u64::MAX,
            executed: Vec::new(),
            cancelled: 0,
            answer_bytes: None,
            is_silent: false,
            open: Vec::new(),
        };
        self.replicas.insert(address(number), replica);
    }

    pub(crate) fn replica(&mut self, number: u16) -> &mut Replica {
        self.replicas.get_mut(&address(number)).expect("a replica")
    }

    /// How often payloads were carried out, by all replicas.
    pub(crate) fn executions(&self, payload: &[u8]) -> usize {
        let executed = self.replicas.values().flat_map(|replica| &replica.executed);
        executed.filter(|one| *one == payload).count()
    }

    pub(crate) fn call(&mut self, call: u32, replica: u16, options: u8, payload: &[u8]) {
        self.tell_client(&[Input::Call {
            call,
            service: SERVICE,
            target: address(replica),
            options,
            timeout_ms: 30_000,
            payload,
        }]);
    }

    /// Steps the client, after telling it the time.
    pub(crate) fn tell_client(&mut self, inputs: &[Input<'_>]) {
        let batch = batch(self.now_us, inputs);
        let outputs = self.client.step(&batch).to_vec();
        let mut wants_ticket = false;
        for item in BatchReader::new(&outputs).expect("whole items") {
            match Output::decode(item).expect("an output") {
                Output::Send { target, bytes } => self.send(address(0), target, bytes),
                Output::Wake { unix_us } => self.client_wake_us = unix_us,
                Output::Done { call, payload, .. } => self.end(call, Outcome::Done(payload.to_vec())),
                Output::Failed { call, code } => {
                    self.end(call, Outcome::Failed(Code::from_u16(code).expect("a code")));
                }
                Output::TicketWanted { service } => {
                    assert_eq!(service, SERVICE);
                    wants_ticket = true;
                }
                Output::Refused { code, .. } => self.refused.push(Code::from_u16(code).expect("a code")),
                other => panic!("a client said {other:?}"),
            }
        }
        if wants_ticket {
            self.tickets_wanted += 1;
            self.bring_ticket();
        }
    }

    fn end(&mut self, call: u32, outcome: Outcome) {
        let before = self.outcomes.insert(call, outcome);
        assert_eq!(before, None, "call {call} has two outcomes");
    }

    fn bring_ticket(&mut self) {
        let grant = self.issuer.map(|issuer| self.issue(issuer)).unwrap_or_default();
        self.tell_client(&[Input::UseTicket {
            service: SERVICE,
            grant: &grant,
        }]);
    }

    /// Has a replica issue a ticket to the client.
    pub(crate) fn issue(&mut self, issuer: Address) -> Vec<u8> {
        let input = Input::IssueTicket {
            tag: 1,
            caller: CALLER,
            endpoint: address(0),
        };
        let batch = batch(self.now_us, &[input]);
        let replica = self.replicas.get_mut(&issuer).expect("the issuer");
        let outputs = replica.machine.step(&batch).to_vec();
        let mut items = BatchReader::new(&outputs).expect("whole items");
        items
            .find_map(|item| match Output::decode(item).expect("an output") {
                Output::Issued { grant, .. } => Some(grant.to_vec()),
                _ => None,
            })
            .expect("a ticket")
    }

    fn send(&mut self, from: Address, to: Address, bytes: &[u8]) {
        let datagram = Datagram {
            from,
            to,
            bytes: bytes.to_vec(),
        };
        self.captured.push(datagram.clone());
        self.network.push_back(datagram);
    }

    /// Gives a datagram to whom it is for.
    pub(crate) fn deliver(&mut self, datagram: &Datagram) {
        let input = Input::Datagram {
            source: datagram.from,
            bytes: &datagram.bytes,
        };
        if datagram.to == address(0) {
            self.tell_client(&[input]);
        } else {
            self.tell_replica(datagram.to, &[input]);
        }
    }

    /// Gives a replica the ticket keys that are good after one rotation or more.
    pub(crate) fn rotate_ticket_keys(&mut self, at: Address, rotations: u8) {
        let secrets = [&secrets(rotations)[..], &secret(rotations - 1)].concat();
        self.tell_replica(at, &[Input::SetTicketKeys { secrets: &secrets }]);
    }

    /// Gives a replica ticket keys that do not follow from those that it has.
    pub(crate) fn replace_ticket_keys(&mut self, at: Address) {
        self.tell_replica(
            at,
            &[Input::SetTicketKeys {
                secrets: &secrets(50),
            }],
        );
    }

    /// Steps a replica until it has nothing more to say.
    pub(crate) fn tell_replica(&mut self, at: Address, inputs: &[Input<'_>]) {
        let Some(replica) = self.replicas.get_mut(&at) else {
            return;
        };
        let mut next = batch(self.now_us, inputs);
        let mut sent = Vec::new();
        loop {
            let outputs = replica.machine.step(&next).to_vec();
            let mut answers = Vec::new();
            for item in BatchReader::new(&outputs).expect("whole items") {
                match Output::decode(item).expect("an output") {
                    Output::Send { target, bytes } => sent.push((target, bytes.to_vec())),
                    Output::Wake { unix_us } => replica.wake_us = unix_us,
                    Output::Serve {
                        call,
                        caller,
                        payload,
                        ..
                    } => {
                        assert_eq!(caller, CALLER);
                        replica.executed.push(payload.to_vec());
                        match replica.is_silent {
                            true => replica.open.push(call),
                            false => answers.push((call, replica.answer_to(payload))),
                        }
                    }
                    Output::Cancelled { .. } => replica.cancelled += 1,
                    other => panic!("a server said {other:?}"),
                }
            }
            if answers.is_empty() {
                break;
            }
            let inputs: Vec<Input<'_>> = answers
                .iter()
                .map(|(call, payload)| Input::Answer { call: *call, payload })
                .collect();
            next = batch(self.now_us, &inputs);
        }
        for (target, bytes) in sent {
            self.send(at, target, &bytes);
        }
    }

    /// Delivers everything, and lets time pass, until nothing is under way or `until` is reached.
    pub(crate) fn run_until(&mut self, until_us: u64, mut network: impl FnMut(&mut Self, Datagram)) {
        loop {
            while let Some(datagram) = self.network.pop_front() {
                network(self, datagram);
            }
            let wake_us = self
                .replicas
                .values()
                .map(|replica| replica.wake_us)
                .min()
                .unwrap_or(u64::MAX);
            let wake_us = wake_us.min(self.client_wake_us);
            if wake_us > until_us {
                self.now_us = self.now_us.max(until_us);
                return;
            }
            self.now_us = self.now_us.max(wake_us) + 1;
            self.tell_client(&[]);
            for at in self.replicas.keys().copied().collect::<Vec<_>>() {
                self.tell_replica(at, &[]);
            }
        }
    }

    /// Delivers everything in order at once, for so many seconds.
    pub(crate) fn run(&mut self, seconds: u64) {
        self.run_until(self.now_us + seconds * 1_000_000, |world, datagram| {
            world.deliver(&datagram)
        });
    }

    /// All payloads, to compare with how often they were carried out.
    pub(crate) fn executed(&self) -> BTreeSet<Vec<u8>> {
        self.replicas
            .values()
            .flat_map(|replica| replica.executed.iter().cloned())
            .collect()
    }
}

impl Replica {
    fn answer_to(&self, payload: &[u8]) -> Vec<u8> {
        match self.answer_bytes {
            Some(len) => answer(len),
            None => payload.to_vec(),
        }
    }
}

/// An answer of a length.
pub(crate) fn answer(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31) as u8).collect()
}

pub(crate) fn batch(now_us: u64, inputs: &[Input<'_>]) -> Vec<u8> {
    let mut batch = BatchWriter::new();
    inputs.iter().for_each(|input| input.encode(&mut batch));
    [&now_us.to_le_bytes(), batch.as_bytes()].concat()
}

/// A generator of which all runs with one seed are the same.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
