//! Conversations of a client with a replica, each datagram with what it holds.

use std::collections::BTreeMap;

use selfsame_codec::Code;
use selfsame_codec::rpc::Input;

use super::json::{Json, hex, number, text};
use super::keys::{labelled, open};
use super::world::{
    Datagram, IDEMPOTENT, ONCE, ROUTER_SECRET, SERVICE, Setup, TICKET_LIFE_S, World, address,
};

const TICKET_BYTES: usize = 92;
/// Of a renewal: key id, sealed content, secret, life.
const RENEWAL_BYTES: usize = 104;
const ENDPOINT_BYTES: usize = 18;
/// More than a datagram of 1200 bytes holds.
const LONG_BYTES: usize = 2000;

/// Opens the datagrams of one client, whose tickets it knows.
#[derive(Default)]
pub(super) struct Reading {
    /// Secrets by session.
    psks: BTreeMap<[u8; 8], [u8; 32]>,
    /// The session and the epoch that were used last.
    session: [u8; 8],
    epoch: [u8; 8],
}

pub(super) fn vectors() -> Json {
    let conversations = [
        ("idempotent calls", calls()),
        ("a bound call", bound()),
        ("messages of many packets", many()),
        ("packets that get lost", lossy()),
        ("a new ticket", renewed()),
        ("a refusal", refused()),
        ("a call that is cancelled", cancelled()),
        ("a ticket of another key", strange_ticket()),
        ("a session that a restart has ended", restarted()),
    ];
    let list = conversations.map(|(what, (grant, datagrams))| {
        Json::Object(vec![
            ("what", text(what)),
            ("grant", hex(&grant)),
            ("datagrams", Json::List(datagrams)),
        ])
    });
    Json::Object(vec![
        ("conversations", Json::List(list.into())),
        ("dropped_by_a_client", Json::List(dropped())),
    ])
}

type Conversation = (Vec<u8>, Vec<Json>);

/// Gives the client a ticket, and what reads what is sealed under it.
pub(super) fn begin(world: &mut World, issuer: u16) -> (Vec<u8>, Reading) {
    let grant = world.issue(address(issuer));
    let input = Input::UseTicket {
        service: SERVICE,
        grant: &grant,
    };
    world.tell_client(&[input]);
    world.issuer = None;
    let mut reading = Reading::default();
    reading.learn(&grant[4..28], &grant[TICKET_BYTES..]);
    (grant, reading)
}

/// Delivers all that is under way in order, and describes it.
fn converse(world: &mut World, reading: &mut Reading, datagrams: &mut Vec<Json>) {
    while let Some(datagram) = world.network.pop_front() {
        datagrams.push(reading.describe(&datagram));
        world.deliver(&datagram);
    }
}

fn calls() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    for (call, payload) in [(1, &b"ping"[..]), (2, b"")] {
        world.call(call, 1, IDEMPOTENT, payload);
        converse(&mut world, &mut reading, &mut datagrams);
        world.now_us += 1_234_000;
    }
    (grant, datagrams)
}

fn bound() -> Conversation {
    let mut world = World::new(&[Setup::bound(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    world.call(1, 1, ONCE, b"pay");
    converse(&mut world, &mut reading, &mut datagrams);
    world.call(2, 1, ONCE, b"pay again");
    converse(&mut world, &mut reading, &mut datagrams);
    (grant, datagrams)
}

fn many() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    let payload: Vec<u8> = (0..LONG_BYTES).map(|at| at as u8).collect();
    for (call, options) in [(1, IDEMPOTENT), (2, ONCE)] {
        world.call(call, 1, options, &payload);
        converse(&mut world, &mut reading, &mut datagrams);
    }
    (grant, datagrams)
}

/// The second packet of request and answer gets lost, so that acknowledgements have bitmaps.
fn lossy() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    let payload: Vec<u8> = (0..3 * LONG_BYTES).map(|at| at as u8).collect();
    world.call(1, 1, IDEMPOTENT, &payload);
    let mut losses = vec![0x61, 0x62];
    world.run_until(world.now_us + 1_000_000, |world, datagram| {
        datagrams.push(reading.describe(&datagram));
        let packet_at = if datagram.bytes[0] == 0x61 { 18 } else { 14 };
        let is_second = datagram.bytes[1] == 0b1000 && datagram.bytes[packet_at..].starts_with(&[1, 0]);
        let kinds = losses.len();
        losses.retain(|kind| !is_second || *kind != datagram.bytes[0]);
        if losses.len() == kinds {
            world.deliver(&datagram);
        }
    });
    assert!(
        losses.is_empty() && world.outcomes.len() == 1,
        "both are repaired"
    );
    (grant, datagrams)
}

fn renewed() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    world.now_us += u64::from(TICKET_LIFE_S / 2) * 1_000_000;
    for call in 1..=2 {
        world.call(call, 1, IDEMPOTENT, b"ping");
        converse(&mut world, &mut reading, &mut datagrams);
    }
    (grant, datagrams)
}

fn refused() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    world.replica(1).is_silent = true;
    world.call(1, 1, IDEMPOTENT, b"ping");
    converse(&mut world, &mut reading, &mut datagrams);
    let call = world.replica(1).open[0];
    let code = Code::HandlerFailed.as_u16();
    world.tell_replica(address(1), &[Input::Refuse { call, code }]);
    converse(&mut world, &mut reading, &mut datagrams);
    (grant, datagrams)
}

fn cancelled() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    world.replica(1).is_silent = true;
    world.call(1, 1, IDEMPOTENT, b"ping");
    converse(&mut world, &mut reading, &mut datagrams);
    world.tell_client(&[Input::Cancel { call: 1 }]);
    converse(&mut world, &mut reading, &mut datagrams);
    assert_eq!(world.replica(1).cancelled, 1, "the replica takes it");
    (grant, datagrams)
}

fn strange_ticket() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1), Setup::idempotent(2)]);
    let input = Input::SetTicketKeys {
        secrets: &ROUTER_SECRET,
    };
    world.tell_replica(address(2), &[input]);
    let (grant, mut reading) = begin(&mut world, 2);
    let mut datagrams = Vec::new();
    world.call(1, 1, IDEMPOTENT, b"ping");
    converse(&mut world, &mut reading, &mut datagrams);
    (grant, datagrams)
}

fn restarted() -> Conversation {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading) = begin(&mut world, 1);
    let mut datagrams = Vec::new();
    for call in 1..=2 {
        world.call(call, 1, IDEMPOTENT, b"ping");
        converse(&mut world, &mut reading, &mut datagrams);
        world.start(1, &Setup::idempotent(2));
    }
    (grant, datagrams)
}

/// Datagrams to a client that are malformed or changed; it keeps waiting for the answer that is delivered at last.
fn dropped() -> Vec<Json> {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, _) = begin(&mut world, 1);
    world.call(1, 1, IDEMPOTENT, b"ping");
    let request = world.network.pop_front().expect("a request");
    world.deliver(&request);
    let answer = world.network.pop_front().expect("an answer");
    let changed = |at: usize, bit: u8| {
        let mut bytes = answer.bytes.clone();
        bytes[at] ^= bit;
        bytes
    };
    let last = answer.bytes.len() - 1;
    let tag = request.bytes.last_chunk::<16>().expect("a tag");
    let rejection = |reason: u8, more: &[u8]| [&[0x63, reason, 0, 0, 0, 0][..], tag, more].concat();
    let cases = [
        ("another kind", changed(0, 0x08)),
        ("a flag that is not defined", changed(1, 0x20)),
        ("another outcome", changed(1, 0x02)),
        ("another epoch", changed(2, 1)),
        ("another tag", changed(last, 1)),
        ("less than a tag", answer.bytes[..29].to_vec()),
        ("an answer without its head", answer.bytes[..9].to_vec()),
        ("nothing", Vec::new()),
        ("a rejection for a reason that is not defined", rejection(3, &[])),
        ("a rejection with bytes after it", rejection(1, &[0])),
        ("a rejection that ends early", rejection(1, &[])[..21].to_vec()),
    ];
    let list = cases.map(|(why, bytes)| {
        let Datagram { from, to, .. } = answer;
        world.deliver(&Datagram {
            from,
            to,
            bytes: bytes.clone(),
        });
        assert!(world.outcomes.is_empty() && world.network.is_empty(), "{why}");
        Json::Object(vec![
            ("why", text(why)),
            ("grant", hex(&grant)),
            ("datagram", hex(&bytes)),
        ])
    });
    world.deliver(&answer);
    assert_eq!(world.outcomes.len(), 1, "the answer itself is taken");
    list.into()
}

impl Reading {
    fn learn(&mut self, nonce: &[u8], rest: &[u8]) {
        let (session, psk) = (
            nonce.first_chunk().expect("a nonce"),
            rest.first_chunk().expect("a secret"),
        );
        self.psks.insert(*session, *psk);
    }

    /// Describes a request, a response or a rejection.
    pub(super) fn describe(&mut self, datagram: &Datagram) -> Json {
        let bytes = &datagram.bytes;
        match bytes[0] {
            0x60 | 0x61 => self.request(bytes),
            0x62 => self.response(bytes),
            0x63 => Json::Object(vec![
                ("kind", text("rejection")),
                ("datagram", hex(bytes)),
                ("reason", number(bytes[1])),
                ("call", number(u32_at(bytes, 2))),
                ("tag", hex(&bytes[6..])),
            ]),
            kind => panic!("{kind:#x} is for a router"),
        }
    }

    fn request(&mut self, bytes: &[u8]) -> Json {
        let (flags, has_ticket) = (bytes[1], bytes[0] == 0x60);
        let (session, rest) = match has_ticket {
            true => (&bytes[6..], &bytes[2 + TICKET_BYTES..]),
            false => (&bytes[2..], &bytes[10..]),
        };
        self.session = *session.first_chunk().expect("a session");
        let (counter, mut sealed) = rest.split_first_chunk::<8>().expect("a counter");
        let mut packet = None;
        if flags & 0b11000 != 0 {
            packet = Some(u16::from_le_bytes([sealed[0], sealed[1]]));
            sealed = &sealed[2..];
        }
        let base = if flags & 0b10000 == 0 { 0 } else { 1 << 16 };
        let nonce = nonce(counter, packet, base);
        let is_bound = flags & 0b100 != 0;
        let epoch: &[u8] = if is_bound { &self.epoch } else { &[] };
        let associated = [&bytes[..2], epoch].concat();
        let key = labelled(&self.psks[&self.session], "selfsame/1 rpc request key", &[]);
        let mut fields = vec![
            ("kind", text("request")),
            ("datagram", hex(bytes)),
            ("with_ticket", Json::Bool(has_ticket)),
            ("flags", number(flags)),
            ("counter", number(u64::from_le_bytes(*counter))),
            ("packet", packet.map_or(Json::Null, number)),
            ("epoch", if is_bound { hex(&self.epoch) } else { Json::Null }),
        ];
        fields.extend(sealing(key, &nonce, &associated, sealed).0);
        Json::Object(fields)
    }

    fn response(&mut self, bytes: &[u8]) -> Json {
        let (flags, outcome) = (bytes[1], bytes[1] & 3);
        self.epoch = *bytes[2..].first_chunk().expect("an epoch");
        let call = u32_at(bytes, 10);
        let counter = u64::from(call).to_le_bytes();
        let mut sealed = &bytes[14..];
        let mut packet = None;
        if flags & 0b1000 != 0 || matches!(outcome, 1 | 3) {
            packet = Some(u16::from_le_bytes([sealed[0], sealed[1]]));
            sealed = &sealed[2..];
        }
        let base = [0, 1 << 16, 3 << 16, 2 << 16][usize::from(outcome)];
        let psk = self.psks[&self.session];
        let key = labelled(&psk, "selfsame/1 rpc response key", &self.epoch);
        let names = ["answer", "acknowledgement", "refusal", "bind"];
        let mut fields = vec![
            ("kind", text("response")),
            ("datagram", hex(bytes)),
            ("outcome", text(names[usize::from(outcome)])),
            ("flags", number(flags)),
            ("epoch", hex(&self.epoch)),
            ("call", number(call)),
            ("packet", packet.map_or(Json::Null, number)),
        ];
        let (sealing, payload) = sealing(key, &nonce(&counter, packet, base), &bytes[..2], sealed);
        fields.extend(sealing);
        let ticket_at = if flags & 0b10000 == 0 { 0 } else { ENDPOINT_BYTES };
        if flags & 0b100 != 0 {
            let renewal = &payload[ticket_at..ticket_at + RENEWAL_BYTES];
            let nonce = labelled(
                &psk,
                "selfsame/1 rpc renewal nonce",
                &[self.epoch, counter].concat(),
            );
            let grant = [&renewal[..4], &nonce[..24], &renewal[4..]].concat();
            self.learn(&nonce, &grant[TICKET_BYTES..]);
            fields.extend([("renewal_nonce", hex(&nonce[..24])), ("new_grant", hex(&grant))]);
        }
        Json::Object(fields)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

fn nonce(counter: &[u8; 8], packet: Option<u16>, base: u32) -> [u8; 12] {
    let number = u32::from(packet.unwrap_or(0)) + base;
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(counter);
    nonce[8..].copy_from_slice(&number.to_le_bytes());
    nonce
}

type Fields = [(&'static str, Json); 4];

/// What something is sealed with, and the payload.
fn sealing(key: [u8; 32], nonce: &[u8; 12], associated: &[u8], sealed: &[u8]) -> (Fields, Vec<u8>) {
    let payload = open(key, nonce, associated, sealed);
    let fields = [
        ("key", hex(&key)),
        ("nonce", hex(nonce)),
        ("associated_data", hex(associated)),
        ("payload", hex(&payload)),
    ];
    (fields, payload)
}
