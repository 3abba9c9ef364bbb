//! Datagrams of the RPC between a client, a server, a router and a stranger: whatever arrives, in whatever order, a request is carried out
//! at most once, and an address gets at most three times what came from it unless it is proven.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selfsame_codec::rpc::{ClientConfig, IDEMPOTENT, Input, Output, RouterConfig, ServerConfig};
use selfsame_codec::{BatchReader, BatchWriter};
use selfsame_rpc::Machine;

use super::Target;
use super::decode::target;
use crate::mutate::Shape;

const START_US: u64 = 1_800_000_000_000_000;
/// One kind of item lets so much time pass.
const STEP_US: u64 = 700_000;
const SECRET: [u8; 32] = [1; 32];
const SERVICE: u32 = 1;
/// First byte and length of what a router puts before a request.
const FORWARD: u8 = 0x64;
const FORWARD_BYTES: usize = 53;
/// Set in the second byte of what is no whole request.
const PART_OR_CONTROL: u8 = 0b11000;

/// Who sends and receives; the number is the port of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Client = 1,
    Server = 2,
    Router = 3,
    Stranger = 4,
}

/// From whom to whom an item of a kind is; any other kind lets time pass.
const WAYS: [(Party, Party); 8] = [
    (Party::Client, Party::Server),
    (Party::Server, Party::Client),
    (Party::Client, Party::Router),
    (Party::Router, Party::Client),
    (Party::Router, Party::Server),
    (Party::Server, Party::Router),
    (Party::Stranger, Party::Server),
    (Party::Stranger, Party::Client),
];

pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![target("rpc", 100, Shape::Items, seeds, run)]
}

impl Party {
    fn address(self) -> [u8; 18] {
        let mut address = [0; 18];
        address[10..12].copy_from_slice(&[0xff, 0xff]);
        address[15] = self as u8;
        address
    }

    fn at(address: &[u8; 18]) -> Option<Self> {
        let all = [Self::Client, Self::Server, Self::Router, Self::Stranger];
        all.into_iter().find(|party| party.address() == *address)
    }
}

/// The machines, and what they have done.
struct World {
    now_us: u64,
    client: Machine,
    server: Machine,
    router: Machine,
    sent: VecDeque<(Party, Party, Vec<u8>)>,
    executed: usize,
    /// Whole requests that the server has carried out, whether they came directly or not.
    requests: BTreeSet<Vec<u8>>,
    ended: BTreeMap<u32, usize>,
}

impl World {
    /// A world in which a client has begun one call of each kind.
    fn new() -> Self {
        let client = ClientConfig { datagram_bytes: 600 };
        let server = ServerConfig {
            network: b"net",
            service: b"check",
            ticket_secrets: &SECRET,
            entropy: [2; 32],
            datagram_bytes: 600,
            streams: false,
            ticket_life_s: 60,
            replay: 1,
            not_before_ms: 0,
            router_secret: &SECRET,
        };
        let router = RouterConfig {
            secret: SECRET,
            entropy: [3; 32],
            selection: 3,
            bound: 2,
            redirects: false,
        };
        let mut world = Self {
            now_us: START_US,
            client: Machine::new(&client.encode()).expect("a client"),
            server: Machine::new(&server.encode()).expect("a server"),
            router: Machine::new(&router.encode()).expect("a router"),
            sent: VecDeque::new(),
            executed: 0,
            requests: BTreeSet::new(),
            ended: BTreeMap::new(),
        };
        let endpoints = Party::Server.address();
        world.tell(
            Party::Router,
            &[Input::SetServers {
                endpoints: &endpoints,
            }],
        );
        let grant = world.ticket();
        let service = SERVICE;
        world.tell(
            Party::Client,
            &[Input::UseTicket {
                service,
                grant: &grant,
            }],
        );
        for (call, target, options, len) in [
            (1, Party::Server, IDEMPOTENT, 5),
            (2, Party::Server, 0, 6),
            (3, Party::Server, IDEMPOTENT, 2_000),
            (4, Party::Router, IDEMPOTENT, 7),
            (5, Party::Router, 0, 8),
        ] {
            let target = target.address();
            let payload: &[u8] = &vec![call as u8; len];
            let timeout_ms = 20_000;
            world.tell(
                Party::Client,
                &[Input::Call {
                    call,
                    service,
                    target,
                    options,
                    timeout_ms,
                    payload,
                }],
            );
        }
        world
    }

    fn ticket(&mut self) -> Vec<u8> {
        let endpoint = Party::Client.address();
        let input = Input::IssueTicket {
            tag: 1,
            caller: [7; 32],
            endpoint,
        };
        let outputs = self.step(Party::Server, &[input]);
        let mut items = BatchReader::new(&outputs).expect("whole items");
        let issued = items.find_map(|item| match Output::decode(item) {
            Ok(Output::Issued { grant, .. }) => Some(grant.to_vec()),
            _ => None,
        });
        issued.expect("a ticket")
    }

    fn step(&mut self, party: Party, inputs: &[Input<'_>]) -> Vec<u8> {
        let mut batch = BatchWriter::new();
        inputs.iter().for_each(|input| input.encode(&mut batch));
        let batch = [&self.now_us.to_le_bytes(), batch.as_bytes()].concat();
        let machine = match party {
            Party::Client => &mut self.client,
            Party::Server => &mut self.server,
            Party::Router => &mut self.router,
            Party::Stranger => return Vec::new(),
        };
        machine.step(&batch).to_vec()
    }

    /// Steps a machine, and a server until it has answered what it was asked.
    fn tell(&mut self, party: Party, inputs: &[Input<'_>]) {
        let outputs = self.step(party, inputs);
        let mut answers = Vec::new();
        for item in BatchReader::new(&outputs).expect("whole items") {
            match Output::decode(item).expect("an output") {
                Output::Send { target, bytes } => {
                    if let Some(target) = Party::at(&target) {
                        self.sent.push_back((party, target, bytes.to_vec()));
                    }
                }
                Output::Serve { call, payload, .. } => {
                    self.executed += 1;
                    answers.push((call, payload.repeat(3)));
                }
                Output::Done { call, .. } | Output::Failed { call, .. } => {
                    *self.ended.entry(call).or_default() += 1;
                }
                Output::Refused { code, .. } => panic!("a machine refused an input: {code}"),
                Output::Wake { .. } | Output::TicketWanted { .. } | Output::Cancelled { .. } => {}
                other => panic!("{party:?} said {other:?}"),
            }
        }
        for (call, payload) in answers {
            self.tell(
                party,
                &[Input::Answer {
                    call,
                    payload: &payload,
                }],
            );
        }
    }

    fn deliver(&mut self, from: Party, to: Party, bytes: &[u8]) {
        let executed = self.executed;
        let source = from.address();
        self.tell(to, &[Input::Datagram { source, bytes }]);
        // Inputs also hold requests that a client seals in another run.
        let request = if bytes.first() == Some(&FORWARD) {
            bytes.get(FORWARD_BYTES..)
        } else {
            Some(bytes)
        };
        let is_whole = |request: &&[u8]| request.get(1).is_some_and(|flags| flags & PART_OR_CONTROL == 0);
        if let Some(request) = request.filter(|_| to == Party::Server).filter(is_whole)
            && self.executed > executed
        {
            assert!(
                self.requests.insert(request.to_vec()),
                "a request is carried out again"
            );
        }
    }

    fn pass_time(&mut self) {
        self.now_us += STEP_US;
        for party in [Party::Client, Party::Server, Party::Router] {
            self.tell(party, &[]);
        }
    }
}

/// What is sent when all goes well, and when the first datagrams get lost.
fn seeds() -> Vec<Vec<u8>> {
    [0, 3].map(conversation).to_vec()
}

fn conversation(lost: usize) -> Vec<u8> {
    let mut world = World::new();
    let mut items = BatchWriter::new();
    world.sent.drain(..lost);
    for _ in 0..8 {
        while let Some((from, to, bytes)) = world.sent.pop_front() {
            let way = WAYS.iter().position(|way| *way == (from, to)).expect("a way");
            items.item(way as u8, |out| out.extend_from_slice(&bytes));
            world.deliver(from, to, &bytes);
        }
        items.item(WAYS.len() as u8, |_| {});
        world.pass_time();
    }
    items.as_bytes().to_vec()
}

fn run(input: &[u8]) {
    let Ok(items) = BatchReader::new(input) else {
        return;
    };
    let mut world = World::new();
    world.sent.clear();
    let mut from_stranger = 0;
    for item in items {
        match WAYS.get(usize::from(item.kind)) {
            Some(&(from, to)) => {
                if from == Party::Stranger {
                    from_stranger += item.payload.len();
                }
                world.deliver(from, to, item.payload);
            }
            None => world.pass_time(),
        }
    }
    let to_stranger = world.sent.iter().filter(|(_, to, _)| *to == Party::Stranger);
    let to_stranger: usize = to_stranger.map(|(.., bytes)| bytes.len()).sum();
    assert!(
        to_stranger <= 3 * from_stranger,
        "{to_stranger} bytes for {from_stranger}"
    );
    assert!(world.ended.values().all(|count| *count == 1), "{:?}", world.ended);
}
