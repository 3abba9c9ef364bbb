//! What routers say to replicas and clients, and replicas to routers.

use selfsame_codec::BatchReader;
use selfsame_codec::rpc::{Input, Output, RouterConfig};
use selfsame_rpc::Machine;

use super::conversations::{Reading, begin};
use super::json::{Json, hex, number, text};
use super::keys::{labelled, router_key};
use super::world::{Datagram, IDEMPOTENT, ROUTER_SECRET, START_US, Setup, World, address, batch};

const ROUTER: u16 = 100;
const ROUND_ROBIN: u8 = 1;
const ENDPOINTS_BYTES: usize = 36;

pub(super) fn vectors() -> Json {
    let (grant, forwarded) = forwarded();
    Json::Object(vec![
        ("router_key", hex(&router_key())),
        ("grant", hex(&grant)),
        ("forwarded", Json::List(forwarded)),
        ("redirect", redirect()),
        ("drop", drop()),
    ])
}

/// Steps a router that knows so many servers with a datagram of the client's.
fn route(servers: u16, redirects: bool, request: &[u8]) -> Datagram {
    let config = RouterConfig {
        secret: ROUTER_SECRET,
        entropy: [4; 32],
        selection: ROUND_ROBIN,
        bound: 1,
        redirects,
    };
    let mut router = Machine::new(&config.encode()).expect("a router");
    let endpoints: Vec<u8> = (1..=servers).flat_map(address).collect();
    let inputs = [
        Input::SetServers {
            endpoints: &endpoints,
        },
        Input::Datagram {
            source: address(0),
            bytes: request,
        },
    ];
    let outputs = router.step(&batch(START_US, &inputs)).to_vec();
    let mut items = BatchReader::new(&outputs).expect("whole items");
    let sent = items.find_map(|item| match Output::decode(item).expect("an output") {
        Output::Send { target, bytes } => Some(Datagram {
            from: address(ROUTER),
            to: target,
            bytes: bytes.to_vec(),
        }),
        _ => None,
    });
    sent.expect("what the router says")
}

fn request(world: &mut World) -> Datagram {
    world.call(1, ROUTER, IDEMPOTENT, b"ping");
    world.network.pop_front().expect("a request")
}

fn forwarded() -> (Vec<u8>, Vec<Json>) {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let (grant, mut reading): (_, Reading) = begin(&mut world, 1);
    let request = request(&mut world);
    let mut list = vec![reading.describe(&request)];
    let forward = route(1, false, &request.bytes);
    list.push(describe_forward(&forward.bytes, &request.bytes));
    world.deliver(&forward);
    let said: Vec<Datagram> = world.network.drain(..).collect();
    for datagram in &said {
        match datagram.to == address(ROUTER) {
            true => list.push(describe_feedback(&datagram.bytes)),
            false => list.push(reading.describe(datagram)),
        }
    }
    assert_eq!(list.len(), 4, "an answer and a feedback");
    (grant, list)
}

fn describe_forward(bytes: &[u8], request: &[u8]) -> Json {
    let (endpoints, rest) = bytes[1..].split_at(ENDPOINTS_BYTES);
    let (client, server) = endpoints.split_at(ENDPOINTS_BYTES / 2);
    let tag = request.last_chunk::<16>().expect("a tag");
    let mac = labelled(
        &router_key(),
        "selfsame/1 rpc forward",
        &[endpoints, tag].concat(),
    );
    assert_eq!((&rest[..16], &rest[16..]), (&mac[..16], request));
    Json::Object(vec![
        ("kind", text("forward")),
        ("datagram", hex(bytes)),
        ("client", hex(client)),
        ("server", hex(server)),
        ("request", hex(request)),
    ])
}

fn describe_feedback(bytes: &[u8]) -> Json {
    let (said, mac) = bytes[1..].split_at(18);
    assert_eq!(
        mac,
        &labelled(&router_key(), "selfsame/1 rpc feedback", said)[..16]
    );
    Json::Object(vec![
        ("kind", text("feedback")),
        ("datagram", hex(bytes)),
        ("tag", hex(&said[..16])),
        ("running", number(u16::from_le_bytes([said[16], said[17]]))),
    ])
}

fn redirect() -> Json {
    let mut world = World::new(&[Setup::idempotent(1)]);
    begin(&mut world, 1);
    let request = request(&mut world);
    let said = route(1, true, &request.bytes);
    let tag = request.bytes.last_chunk::<16>().expect("a tag");
    let expected = [&[0x66, 0, 0, 0, 0][..], tag, &address(1)];
    assert_eq!(said.bytes, expected.concat());
    Json::Object(vec![
        ("datagram", hex(&said.bytes)),
        ("call", number(0_u32)),
        ("tag", hex(tag)),
        ("server", hex(&address(1))),
    ])
}

fn drop() -> Json {
    let mut world = World::new(&[Setup::idempotent(1)]);
    begin(&mut world, 1);
    let request = request(&mut world);
    let said = route(0, false, &request.bytes);
    let (head, code) = said.bytes.split_at(21);
    let tag = request.bytes.last_chunk::<16>().expect("a tag");
    assert_eq!(head, [&[0x67, 0, 0, 0, 0][..], tag].concat());
    Json::Object(vec![
        ("datagram", hex(&said.bytes)),
        ("call", number(0_u32)),
        ("tag", hex(tag)),
        ("code", number(u16::from_le_bytes([code[0], code[1]]))),
    ])
}
