//! Decoders of bytes from outside. What one accepts it must write again byte for byte: there is one encoding of
//! anything.

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::http::{RequestHead, ResponseHead};
use selfsame_codec::reply::{self, Membership, Node, Provider, Service, Status, Validity};
use selfsame_codec::{
    BatchReader, BatchWriter, Config, Entries, EntryWriter, EventKind, Input, Item, Operation,
    OperationWriter, Operations, Output, PathKind, Role,
};
use selfsame_core::Node as CoreNode;
use selfsame_core::channel::{Data, Frame, FrameReader, FrameWriter, Open, Service as StreamService};
use selfsame_core::identity::{PeerId, PublicKey};
use selfsame_core::record::{addresses_allowed, relay_of};
use selfsame_core::ring::Parameters;

use super::Target;
use super::lab::config;
use crate::mutate::Shape;

/// A target without state
struct Decode {
    name: &'static str,
    weight: usize,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8]),
}

impl Target for Decode {
    fn name(&self) -> &'static str {
        self.name
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn run(&mut self, input: &[u8]) {
        (self.run)(input);
    }
}

/// A target that decodes and keeps nothing.
pub(super) fn target(
    name: &'static str,
    weight: usize,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8]),
) -> Box<dyn Target> {
    Box::new(Decode {
        name,
        weight,
        shape,
        seeds,
        run,
    })
}

/// The decoders.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![
        target("batch", 200, Shape::Items, batch_seeds, run_batch),
        target("cbor", 100, Shape::Cbor, cbor_seeds, run_cbor),
        target("reply", 80, Shape::Cbor, reply_seeds, run_reply),
        target("config", 50, Shape::Cbor, config_seeds, run_config),
        target("http-request", 50, Shape::Cbor, request_seeds, run_request),
        target("http-response", 50, Shape::Bytes, response_seeds, run_response),
        target("frames", 300, Shape::Bytes, frame_seeds, run_frames),
        target("address", 60, Shape::Bytes, address_seeds, run_address),
    ]
}

fn batch_seeds() -> Vec<Vec<u8>> {
    vec![input_seed(), output_seed()]
}

fn input_seed() -> Vec<u8> {
    let mut entries = EntryWriter::new();
    entries.push(b"ring/key", b"value");
    let mut inputs = BatchWriter::new();
    for input in [
        Input::Received {
            path: 1,
            frame: b"frame",
        },
        Input::PathOpened {
            path: 2,
            dial: 1,
            kind: PathKind::Exchange,
            remote: "127.0.0.1:1",
        },
        Input::PathResumed {
            path: 3,
            remote: "a",
            snapshot: &[1; 40],
        },
        Input::StoreRead {
            tag: 0,
            ok: true,
            entries: entries.as_bytes(),
        },
        Input::Publish {
            tag: 1,
            grant: b"g",
            name: "check",
            replicas: 1,
            version: "1",
            weight: 9,
        },
        Input::CallPeer {
            tag: 2,
            peer: [7; 32],
            owner: &[8; 32],
            name: "check",
            timeout_ms: 0,
            head: b"head",
        },
        Input::Entropy { bytes: [3; 32] },
    ] {
        input.encode(&mut inputs);
    }
    inputs.as_bytes().to_vec()
}

fn output_seed() -> Vec<u8> {
    let mut operations = OperationWriter::new();
    operations.push(Operation::Put {
        key: b"k",
        value: b"v",
    });
    operations.push(Operation::Delete { key: b"k" });
    let mut outputs = BatchWriter::new();
    for output in [
        Output::StoreCommit {
            tag: 1,
            durable: true,
            operations: operations.as_bytes(),
        },
        Output::Event {
            event: EventKind::PeerConnected,
            body: &[1; 32],
        },
        Output::StreamOpened {
            stream: 1,
            tag: 0,
            peer: [1; 32],
            service: "s",
            head: b"h",
        },
        Output::Wake { at_ms: u64::MAX },
    ] {
        output.encode(&mut outputs);
    }
    outputs.as_bytes().to_vec()
}

fn run_batch(bytes: &[u8]) {
    let Ok(items) = BatchReader::new(bytes) else {
        return;
    };
    let mut again = BatchWriter::new();
    for item in items {
        again.item(item.kind, |out| out.extend_from_slice(item.payload));
        if let Ok(input) = Input::decode(item) {
            assert_one_item(item, |batch| input.encode(batch));
            if let Input::StoreRead { entries, .. } = input {
                run_entries(entries);
            }
        }
        if let Ok(output) = Output::decode(item) {
            assert_one_item(item, |batch| output.encode(batch));
            if let Output::StoreCommit { operations, .. } = output {
                run_operations(operations);
            }
        }
    }
    assert_eq!(again.as_bytes(), bytes);
}

fn assert_one_item(item: Item<'_>, encode: impl FnOnce(&mut BatchWriter)) {
    let mut batch = BatchWriter::new();
    encode(&mut batch);
    let items: Vec<Item<'_>> = BatchReader::new(batch.as_bytes())
        .expect("what was written is a batch")
        .collect();
    assert_eq!(items, [item]);
}

fn run_entries(bytes: &[u8]) {
    let mut again = EntryWriter::new();
    for entry in Entries::new(bytes) {
        let Ok((key, value)) = entry else { return };
        again.push(key, value);
    }
    assert_eq!(again.as_bytes(), bytes);
}

fn run_operations(bytes: &[u8]) {
    let mut again = OperationWriter::new();
    for operation in Operations::new(bytes) {
        let Ok(operation) = operation else { return };
        again.push(operation);
    }
    assert_eq!(again.as_bytes(), bytes);
}

fn cbor_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder
        .array(7)
        .uint(0)
        .uint(u64::MAX)
        .bytes(&[1; 300])
        .text("text")
        .bool(true)
        .null();
    encoder.map(1).uint(24).array(0);
    vec![out]
}

/// Reads whatever comes, and writes it again.
fn run_cbor(bytes: &[u8]) {
    let mut decoder = Decoder::new(bytes);
    let mut out = Vec::new();
    while let Some(first) = decoder.rest().first() {
        let before = bytes.len() - decoder.rest().len();
        let mut encoder = Encoder::new(&mut out);
        let read = match first >> 5 {
            0 => decoder.uint().map(|value| _ = encoder.uint(value)),
            2 => decoder.bytes(usize::MAX).map(|value| _ = encoder.bytes(value)),
            3 => decoder.text(usize::MAX).map(|value| _ = encoder.text(value)),
            4 => decoder.array(usize::MAX).map(|len| _ = encoder.array(len)),
            5 => decoder.map(usize::MAX).map(|len| _ = encoder.map(len)),
            _ if decoder.null() => {
                encoder.null();
                Ok(())
            }
            _ => decoder.bool().map(|value| _ = encoder.bool(value)),
        };
        if read.is_err() {
            out.truncate(before);
            break;
        }
    }
    assert_eq!(out[..], bytes[..out.len()]);
}

fn reply_seeds() -> Vec<Vec<u8>> {
    let node = Node {
        id: [1; 32],
        role: Role::Member,
        addresses: vec!["wss://a.example/.mesh".into()],
        domain: "d".into(),
    };
    let status = Status {
        id: [1; 32],
        network: "twiitr".into(),
        role: Role::Leaf,
        joined: true,
        addresses: vec![],
        predecessor: Some(node.clone()),
        successors: vec![node.clone()],
        fingers: vec![],
        relays: vec![node.clone()],
        peers: vec![[2; 32]],
        services: vec![Service {
            name: "check".into(),
            version: "1".into(),
            weight: 100,
        }],
        objects: 3,
        counters: vec![(0x0201, 4)],
        membership: Some(Membership {
            authority: [4; 32],
            certificate: Validity {
                since_ms: 5,
                until_ms: 6,
            },
            serial: 7,
            revoked: 8,
            neighbours: vec![(
                [1; 32],
                Validity {
                    since_ms: 9,
                    until_ms: 10,
                },
            )],
        }),
    };
    let provider = Provider {
        peer: [3; 32],
        version: String::new(),
        weight: 1,
        node: Some(node.clone()),
        ejected: false,
        in_flight: 2,
        latency_ms: Some(40),
    };
    let absent = Provider {
        node: None,
        latency_ms: None,
        ..provider.clone()
    };
    vec![
        status.view().encode(),
        reply::encode_providers(&[provider.view(), absent.view()]),
        reply::encode_found_node(&node.view(), 3),
    ]
}

fn run_reply(bytes: &[u8]) {
    if let Ok(status) = Status::decode(bytes) {
        assert_eq!(status.view().encode(), bytes);
    }
    if let Ok(providers) = reply::decode_providers(bytes) {
        assert_eq!(
            reply::encode_providers(&providers.iter().map(Provider::view).collect::<Vec<_>>()),
            bytes
        );
    }
    if let Ok((node, hops)) = reply::decode_found_node(bytes) {
        assert_eq!(reply::encode_found_node(&node.view(), hops), bytes);
    }
}

fn config_seeds() -> Vec<Vec<u8>> {
    let mut leaf = config(2, Role::Leaf);
    leaf.bootstraps = vec![
        format!("wss://a.example/.mesh#{}", "ab".repeat(32)),
        "https://b.example/.mesh".into(),
    ];
    leaf.domain = "west".into();
    vec![config(1, Role::Member).encode(), leaf.encode()]
}

fn run_config(bytes: &[u8]) {
    let Ok(config) = Config::decode(bytes) else {
        assert!(CoreNode::new(bytes, &Parameters::DEFAULT).is_err());
        return;
    };
    assert_eq!(config.encode(), bytes);
    if let Ok(mut node) = CoreNode::new(bytes, &Parameters::DEFAULT) {
        node.step(&1_u64.to_le_bytes());
    }
}

fn request_seeds() -> Vec<Vec<u8>> {
    let head = RequestHead {
        method: "POST".into(),
        path: "/x?y".into(),
        headers: vec![("content-type".into(), "text/plain".into())],
    };
    vec![head.encode()]
}

fn run_request(bytes: &[u8]) {
    if let Ok(head) = RequestHead::decode(bytes) {
        assert_eq!(head.encode(), bytes);
    }
}

fn response_seeds() -> Vec<Vec<u8>> {
    let mut head = ResponseHead {
        status: 404,
        headers: vec![("a".into(), "b".into()), ("a".into(), "c".into())],
    }
    .encode();
    head.extend_from_slice(b"body");
    vec![head]
}

fn run_response(bytes: &[u8]) {
    if let Ok(Some((head, len))) = ResponseHead::decode(bytes) {
        assert_eq!(head.encode(), bytes[..len]);
    }
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(&mut out);
    let service = StreamService {
        owner: Some(PublicKey([4; 32])),
        name: "check",
    };
    for frame in [
        Frame::Request { id: 1, body: b"\x80" },
        Frame::Response { id: 1, body: b"\x80" },
        Frame::Open(Open {
            stream: 2,
            service,
            head: b"head",
        }),
        Frame::Data(Data {
            stream: 2,
            offset: 0,
            bytes: b"bytes",
        }),
        Frame::End { stream: 2, offset: 5 },
        Frame::Reset {
            stream: 2,
            class: selfsame_codec::Class::Service,
        },
        Frame::Credit {
            stream: 2,
            limit: 1 << 20,
        },
        Frame::Relay {
            peer: PeerId([5; 32]),
            frame: b"frame",
        },
        Frame::Ping { token: 1 },
        Frame::Pong { token: 1 },
        Frame::Close {
            class: selfsame_codec::Class::Limit,
        },
    ] {
        writer.frame(&frame);
    }
    vec![out]
}

fn run_frames(bytes: &[u8]) {
    let mut out = Vec::new();
    for frame in FrameReader::new(bytes) {
        let Ok(frame) = frame else { break };
        FrameWriter::new(&mut out).frame(&frame);
    }
    assert_eq!(out[..], bytes[..out.len()]);
}

fn address_seeds() -> Vec<Vec<u8>> {
    [
        "wss://a.example:443/.mesh?x",
        "ws://[2606:4700::1]:80/",
        "http://0x7f.1/",
        "webrtc://9.9.9.9:1/abcd",
        "ws://[::ffff:127.0.0.1]/",
        "relay:00",
    ]
    .map(|address| address.as_bytes().to_vec())
    .into()
}

fn run_address(bytes: &[u8]) {
    let Ok(address) = core::str::from_utf8(bytes) else {
        return;
    };
    let list = [String::from(address)];
    // What may be dialled by a stranger may be dialled by us.
    for role in [Role::Leaf, Role::Member] {
        if addresses_allowed(role, &list, false).is_ok() {
            assert_eq!(addresses_allowed(role, &list, true), Ok(()));
        }
    }
    if let Some(member) = relay_of(address) {
        assert_eq!(selfsame_core::record::relay_address(&member), address);
    }
}
