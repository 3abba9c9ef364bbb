//! Prints the golden vectors that keep the two codecs of the boundary equal:
//! `cargo run -p selfsame-codec --example golden > runtime/test/golden.json`

use selfsame_codec::capsule::{self, ExporterConfig, ReplicaConfig, Values};
use selfsame_codec::cbor::Encoder;
use selfsame_codec::client::{self, ClientConfig};
use selfsame_codec::http::{RequestHead, ResponseHead};
use selfsame_codec::map::{MapCommand, MapReply};
use selfsame_codec::reply::{
    Membership, Node, Provider, Service, Status, Validity, encode_found_node, encode_providers,
};
use selfsame_codec::{
    Admission, BatchWriter, Code, Config, EntryWriter, EventKind, Field, Input, LogLevel, Operation,
    OperationWriter, Output, PathKind, Policy, Role,
};

/// Prints the vectors.
pub(crate) fn main() {
    print!("{}", golden());
}

/// The vectors as JSON: items with their fields as JSON values (bytes as hex, times as text) and every encoding as hex.
pub(crate) fn golden() -> String {
    let sections = [
        ("inputs", items(&inputs(), |input, batch| input.encode(batch))),
        ("outputs", items(&outputs(), |output, batch| output.encode(batch))),
        (
            "cbor",
            list(cbor().iter().map(|(value, bytes)| vector(value, bytes))),
        ),
        ("codes", list(Code::ALL.iter().map(|code| code_row(*code)))),
        ("operations", quoted(&hex(&operations()))),
        ("entries", quoted(&hex(&entries()))),
        ("config", quoted(&hex(&config().encode()))),
        ("closed_config", quoted(&hex(&closed_config().encode()))),
        ("request", quoted(&hex(&request().encode()))),
        ("response", quoted(&hex(&response().encode()))),
        ("providers", quoted(&hex(&providers()))),
        ("found_node", quoted(&hex(&found_node()))),
        ("status", quoted(&hex(&status().view().encode()))),
        (
            "capsule_inputs",
            items(&capsule_inputs(), |input, batch| input.encode(batch)),
        ),
        (
            "capsule_outputs",
            items(&capsule_outputs(), |output, batch| output.encode(batch)),
        ),
        (
            "commands",
            items(&commands(), |command, batch| command.encode(batch)),
        ),
        ("replies", items(&replies(), |reply, batch| reply.encode(batch))),
        (
            "map_commands",
            items(&map_commands(), |command, batch| command.encode(batch)),
        ),
        (
            "map_replies",
            items(&map_replies(), |reply, batch| reply.encode(batch)),
        ),
        ("client_config", quoted(&hex(&client_config().encode()))),
        ("replica_config", quoted(&hex(&replica_config().encode()))),
        (
            "exporter_config",
            quoted(&hex(&ExporterConfig { capsule: ID }.encode())),
        ),
        ("importer_config", quoted(&hex(&capsule::IMPORTER_CONFIG))),
        (
            "rpc_inputs",
            items(&rpc::inputs(), |input, batch| input.encode(batch)),
        ),
        (
            "rpc_outputs",
            items(&rpc::outputs(), |output, batch| output.encode(batch)),
        ),
        ("rpc_client_config", quoted(&hex(&rpc::CLIENT_CONFIG.encode()))),
        ("rpc_server_config", quoted(&hex(&rpc::server_config().encode()))),
        ("rpc_router_config", quoted(&hex(&rpc::ROUTER_CONFIG.encode()))),
        ("keys", quoted(&hex(&keys()))),
        ("values", quoted(&hex(&values()))),
    ];
    let members: Vec<String> = sections
        .into_iter()
        .chain(admission::sections())
        .map(|(name, value)| format!("  {}: {value}", quoted(name)))
        .collect();
    format!("{{\n{}\n}}\n", members.join(",\n"))
}

/// Items with their fields.
fn items<T>(items: &[(String, T)], encode: impl Fn(&T, &mut BatchWriter)) -> String {
    let vectors = items.iter();
    list(vectors.map(|(fields, item)| vector(fields, &encoded(|batch| encode(item, batch)))))
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.map(|item| format!("    {item}")).collect();
    format!("[\n{}\n  ]", items.join(",\n"))
}

fn vector(value: &str, bytes: &[u8]) -> String {
    format!("{{ \"value\": {value}, \"hex\": {} }}", quoted(&hex(bytes)))
}

fn code_row(code: Code) -> String {
    let class = format!("{:?}", code.class());
    format!(
        "[{}, {}, {}, {}]",
        code.as_u16(),
        quoted(code.name()),
        quoted(&class),
        quoted(code.text())
    )
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(encode: impl FnOnce(&mut BatchWriter)) -> Vec<u8> {
    let mut batch = BatchWriter::new();
    encode(&mut batch);
    batch.as_bytes().to_vec()
}

const ID: [u8; 32] = [0xab; 32];
const ID_HEX: &str = "abababababababababababababababababababababababababababababababab";

const ENDPOINT_HEX: &str = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";

/// Builds a vector of an item: its fields as JSON beside the item itself.
macro_rules! item {
    ($kind:ident :: $variant:ident, $json:expr, { $($field:ident : $value:expr),* $(,)? }) => {
        (
            format!("{{ \"type\": \"{}\"{} }}", stringify!($variant), $json.replace("ID", ID_HEX).replace("ENDPOINT", ENDPOINT_HEX)),
            $kind::$variant { $($field: $value),* },
        )
    };
}

mod admission;

mod rpc;

fn inputs() -> Vec<(String, Input<'static>)> {
    let mut inputs = path_inputs();
    inputs.extend(command_inputs());
    inputs
}

fn path_inputs() -> Vec<(String, Input<'static>)> {
    vec![
        item!(Input::Received, ", \"path\": 1, \"frame\": \"0102ff\"", { path: 1, frame: &[1, 2, 255] }),
        item!(Input::PathOpened, ", \"path\": 4294967295, \"dial\": 7, \"kind\": \"Ordered\", \"remote\": \"::1\"",
            { path: u32::MAX, dial: 7, kind: PathKind::Ordered, remote: "::1" }),
        item!(Input::PathOpened, ", \"path\": 2, \"dial\": 0, \"kind\": \"Exchange\", \"remote\": \"\"",
            { path: 2, dial: 0, kind: PathKind::Exchange, remote: "" }),
        item!(Input::PathOpened, ", \"path\": 3, \"dial\": 0, \"kind\": \"Hibernating\", \"remote\": \"\u{fc}\"",
            { path: 3, dial: 0, kind: PathKind::Hibernating, remote: "\u{fc}" }),
        item!(Input::PathOpened, ", \"path\": 5, \"dial\": 0, \"kind\": \"Direct\", \"remote\": \"\"", { path: 5, dial: 0, kind: PathKind::Direct, remote: "" }),
        item!(Input::PathClosed, ", \"path\": 258", { path: 258 }),
        item!(Input::PathResumed, ", \"path\": 4, \"remote\": \"10.0.0.1\", \"snapshot\": \"00\"",
            { path: 4, remote: "10.0.0.1", snapshot: &[0] }),
        item!(Input::DialFailed, ", \"dial\": 9", { dial: 9 }),
        item!(Input::Entropy, ", \"bytes\": \"ID\"", { bytes: ID }),
        item!(Input::StoreRead, ", \"tag\": 5, \"ok\": true, \"entries\": \"\"", { tag: 5, ok: true, entries: &[] }),
        item!(Input::StoreCommitted, ", \"tag\": 6, \"ok\": false", { tag: 6, ok: false }),
        item!(Input::LookedUp, ", \"peer\": \"ID\", \"code\": 1031", { peer: ID, code: 0x0407 }),
        item!(Input::StreamData, ", \"stream\": 1, \"data\": \"6869\"", { stream: 1, data: b"hi" }),
        item!(Input::StreamEnd, ", \"stream\": 1", { stream: 1 }),
        item!(Input::StreamReset, ", \"stream\": 1, \"code\": 2052", { stream: 1, code: 0x0804 }),
        item!(Input::StreamCredit, ", \"stream\": 1, \"bytes\": 65536", { stream: 1, bytes: 65_536 }),
    ]
}

fn command_inputs() -> Vec<(String, Input<'static>)> {
    vec![
        item!(Input::Join, ", \"tag\": 1", { tag: 1 }),
        item!(Input::Leave, ", \"tag\": 2", { tag: 2 }),
        item!(Input::Find, ", \"tag\": 3, \"owner\": \"ID\", \"name\": \"check\"",
            { tag: 3, owner: &ID, name: "check" }),
        item!(Input::Publish, ", \"tag\": 4, \"grant\": \"00ff\", \"name\": \"check\", \"replicas\": 1, \
            \"version\": \"1.2\", \"weight\": 513",
            { tag: 4, grant: &[0, 255], name: "check", replicas: 1, version: "1.2", weight: 513 }),
        item!(Input::Withdraw, ", \"tag\": 5, \"owner\": \"\", \"name\": \"check\"",
            { tag: 5, owner: &[], name: "check" }),
        item!(Input::Call, ", \"tag\": 6, \"owner\": \"\", \"name\": \"check\", \"key\": \"\", \"tried\": \"\", \
            \"policy\": \"PowerOfTwo\", \"timeout_ms\": 0, \"head\": \"80\"",
            { tag: 6, owner: &[], name: "check", key: &[], tried: &[], policy: Policy::PowerOfTwo, timeout_ms: 0,
              head: &[0x80] }),
        item!(Input::Call, ", \"tag\": 6, \"owner\": \"\", \"name\": \"check\", \"key\": \"61\", \"tried\": \"ID\", \
            \"policy\": \"Random\", \"timeout_ms\": 5000, \"head\": \"\"",
            { tag: 6, owner: &[], name: "check", key: b"a", tried: &ID, policy: Policy::Random, timeout_ms: 5_000,
              head: &[] }),
        item!(Input::CallPeer, ", \"tag\": 7, \"peer\": \"ID\", \"owner\": \"\", \"name\": \"check\", \
            \"timeout_ms\": 1000, \"head\": \"\"",
            { tag: 7, peer: ID, owner: &[], name: "check", timeout_ms: 1_000, head: &[] }),
        item!(Input::FindNode, ", \"tag\": 8, \"id\": \"ID\"", { tag: 8, id: ID }),
        item!(Input::Status, ", \"tag\": 9", { tag: 9 }),
        item!(Input::Connect, ", \"tag\": 10, \"peer\": \"ID\", \"address\": \"wss://a/\"",
            { tag: 10, peer: ID, address: "wss://a/" }),
        item!(Input::Cancel, ", \"tag\": 11", { tag: 11 }),
        item!(Input::Watch, ", \"tag\": 12, \"owner\": \"ID\", \"name\": \"check\"",
            { tag: 12, owner: &ID, name: "check" }),
        item!(Input::Route, ", \"tag\": 13, \"target\": \"ID\", \"is_peer\": true, \"timeout_ms\": 500, \"body\": \"0102\"",
            { tag: 13, target: ID, is_peer: true, timeout_ms: 500, body: &[1, 2] }),
        item!(Input::AnswerRouted, ", \"message\": 7, \"ok\": true, \"body\": \"03\"", { message: 7, ok: true, body: &[3] }),
    ]
}

fn outputs() -> Vec<(String, Output<'static>)> {
    let mut outputs = path_outputs();
    outputs.extend(application_outputs());
    for (name, event) in [
        ("Ready", EventKind::Ready),
        ("PeerConnected", EventKind::PeerConnected),
        ("PeerDisconnected", EventKind::PeerDisconnected),
        ("RingChanged", EventKind::RingChanged),
        ("Published", EventKind::Published),
    ] {
        let json = format!(", \"event\": {}, \"body\": \"61\"", quoted(name));
        outputs.push(item!(Output::Event, json, { event: event, body: b"a" }));
    }
    for (name, level) in [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ] {
        let json = format!(
            ", \"level\": {}, \"code\": 513, \"path\": 3, \"text\": \"dropped\"",
            quoted(name)
        );
        outputs.push(item!(Output::Log, json, { level: level, code: 0x0201, path: 3, text: "dropped" }));
    }
    outputs
}

fn path_outputs() -> Vec<(String, Output<'static>)> {
    vec![
        item!(Output::Transmit, ", \"path\": 1, \"frame\": \"00\"", { path: 1, frame: &[0] }),
        item!(Output::Dial, ", \"dial\": 2, \"address\": \"wss://a/.mesh\"", { dial: 2, address: "wss://a/.mesh" }),
        item!(Output::ClosePath, ", \"path\": 3", { path: 3 }),
        item!(Output::Snapshot, ", \"path\": 4, \"snapshot\": \"0a0b\"", { path: 4, snapshot: &[10, 11] }),
        item!(Output::NeedEntropy, "", {}),
        item!(Output::StoreGet, ", \"tag\": 5, \"key\": \"6b\"", { tag: 5, key: b"k" }),
        item!(Output::StoreScan, ", \"tag\": 6, \"start\": \"61\", \"end\": \"62\", \"limit\": 500",
            { tag: 6, start: b"a", end: b"b", limit: 500 }),
        item!(Output::StoreCommit, ", \"tag\": 7, \"durable\": true, \"operations\": \"02016b\"",
            { tag: 7, durable: true, operations: &[2, 1, b'k'] }),
        item!(Output::Busy, ", \"path\": 8, \"busy\": true", { path: 8, busy: true }),
        item!(Output::LookUp, ", \"peer\": \"ID\", \"key\": \"ID\", \"remote\": \"\"", { peer: ID, key: ID, remote: "" }),
        item!(Output::Wake, ", \"at_ms\": \"1790000000000\"", { at_ms: 1_790_000_000_000 }),
        item!(Output::Wake, ", \"at_ms\": \"never\"", { at_ms: u64::MAX }),
    ]
}

fn application_outputs() -> Vec<(String, Output<'static>)> {
    vec![
        item!(Output::StreamOpened,
            ", \"stream\": 1, \"tag\": 0, \"peer\": \"ID\", \"service\": \"check\", \"head\": \"01\"",
            { stream: 1, tag: 0, peer: ID, service: "check", head: &[1] }),
        item!(Output::StreamData, ", \"stream\": 1, \"data\": \"00\"", { stream: 1, data: &[0] }),
        item!(Output::StreamEnd, ", \"stream\": 1", { stream: 1 }),
        item!(Output::StreamReset, ", \"stream\": 1, \"code\": 1283", { stream: 1, code: 0x0503 }),
        item!(Output::StreamCredit, ", \"stream\": 1, \"bytes\": 262144", { stream: 1, bytes: 262_144 }),
        item!(Output::Reply, ", \"tag\": 1, \"body\": \"\"", { tag: 1, body: &[] }),
        item!(Output::Failed, ", \"tag\": 1, \"code\": 2049, \"detail\": \"nobody\"",
            { tag: 1, code: 0x0801, detail: "nobody" }),
        item!(Output::Providers, ", \"tag\": 1, \"body\": \"80\"", { tag: 1, body: &[0x80] }),
        item!(Output::Routed, ", \"message\": 7, \"peer\": \"ID\", \"target\": \"ID\", \"body\": \"0102\"",
            { message: 7, peer: ID, target: ID, body: &[1, 2] }),
        item!(Output::Refused, ", \"input\": 4294967295, \"code\": 257", { input: u32::MAX, code: 0x0101 }),
    ]
}

fn capsule_inputs() -> Vec<(String, capsule::Input<'static>)> {
    use capsule::Input;
    vec![
        item!(Input::Request, ", \"request\": 1, \"source\": \"ID\", \"message\": \"0102ff\"",
            { request: 1, source: ID, message: &[1, 2, 255] }),
        item!(Input::StoreValues, ", \"tag\": 2, \"ok\": true, \"values\": \"00\"", { tag: 2, ok: true, values: &[0] }),
        item!(Input::StoreKeys, ", \"tag\": 3, \"ok\": false, \"keys\": \"\"", { tag: 3, ok: false, keys: &[] }),
        item!(Input::StoreCommitted, ", \"tag\": 4, \"ok\": true", { tag: 4, ok: true }),
        item!(Input::Answered, ", \"tag\": 5, \"ok\": true, \"response\": \"01\"", { tag: 5, ok: true, response: &[1] }),
        item!(Input::Sync, ", \"peer\": \"ID\", \"capsule\": \"ID\", \"entropy\": \"ID\"",
            { peer: ID, capsule: ID, entropy: ID }),
        item!(Input::Replicas, ", \"capsule\": \"ID\", \"peers\": \"ID\"", { capsule: ID, peers: &ID }),
        item!(Input::Chunk, ", \"bytes\": \"01\"", { bytes: &[1] }),
        item!(Input::End, "", {}),
    ]
}

fn commands() -> Vec<(String, client::Command<'static>)> {
    use client::Command;
    vec![
        item!(Command::Create, ", \"command\": 1", { command: 1 }),
        item!(Command::Init, ", \"command\": 2, \"after\": \"ID\"", { command: 2, after: &ID }),
        item!(Command::Write, ", \"command\": 3, \"sign\": true, \"shortcuts\": false, \"pointers\": \"ID\", \
            \"contents\": \"010000006b\"",
            { command: 3, sign: true, shortcuts: false, pointers: &ID, contents: &[1, 0, 0, 0, b'k'] }),
        item!(Command::Commit, ", \"command\": 4, \"sign\": false, \"shortcuts\": true, \"pointers\": \"\", \
            \"contents\": \"\"",
            { command: 4, sign: false, shortcuts: true, pointers: &[], contents: &[] }),
        item!(Command::Sign, ", \"command\": 5", { command: 5 }),
        item!(Command::Govern, ", \"command\": 6, \"next\": true, \"added\": \"ID\", \"revoked\": \"01\", \
            \"readers\": \"02\"",
            { command: 6, next: true, added: &ID, revoked: &[1], readers: &[2] }),
        item!(Command::Read, ", \"command\": 7, \"names\": \"ID\"", { command: 7, names: &ID }),
        item!(Command::QueryFresh, ", \"command\": 9", { command: 9 }),
        item!(Command::ReadParts, ", \"command\": 10, \"name\": \"ID\", \"indexes\": \"01000000\"",
            { command: 10, name: ID, indexes: &[1, 0, 0, 0] }),
        item!(Command::CountParts, ", \"command\": 11, \"names\": \"ID\"", { command: 11, names: &ID }),
        item!(Command::Export, ", \"command\": 12, \"name\": \"ID\", \"whole\": true",
            { command: 12, name: ID, whole: true }),
        item!(Command::Describe, ", \"command\": 13", { command: 13 }),
        item!(Command::Accuse, ", \"command\": 14, \"one\": \"ID\", \"other\": \"ID\"",
            { command: 14, one: ID, other: ID }),
    ]
}

fn replies() -> Vec<(String, client::Reply<'static>)> {
    use client::Reply;
    vec![
        item!(Reply::Done, ", \"command\": 1", { command: 1 }),
        item!(Reply::Ready, ", \"command\": 2, \"writer\": 3, \"epoch\": 4, \"sequence\": 5, \"after\": \"ID\"",
            { command: 2, writer: 3, epoch: 4, sequence: 5, after: &ID }),
        item!(Reply::Written, ", \"command\": 3, \"names\": \"ID\"", { command: 3, names: &ID }),
        item!(Reply::Records, ", \"command\": 4, \"results\": \"00\"", { command: 4, results: &[0] }),
        item!(Reply::Fresh, ", \"command\": 6, \"heads\": \"01\", \"answers\": \"02\", \"refused\": \"03\", \
            \"forks\": \"04\"",
            { command: 6, heads: &[1], answers: &[2], refused: &[3], forks: &[4] }),
        item!(Reply::Parts, ", \"command\": 7, \"results\": \"02\"", { command: 7, results: &[2] }),
        item!(Reply::Counts, ", \"command\": 8, \"results\": \"03\"", { command: 8, results: &[3] }),
        item!(Reply::File, ", \"command\": 9, \"file\": \"ff\"", { command: 9, file: &[255] }),
        item!(Reply::Described, ", \"command\": 10, \"metadata\": \"01\", \"writers\": \"02\", \"epoch\": 3, \
            \"records\": 4",
            { command: 10, metadata: &[1], writers: &[2], epoch: 3, records: 4 }),
        item!(Reply::Fork, ", \"command\": 12, \"header\": \"01\", \"proof\": \"02\", \"other_header\": \"03\", \
            \"other_proof\": \"04\"",
            { command: 12, header: &[1], proof: &[2], other_header: &[3], other_proof: &[4] }),
        item!(Reply::Failed, ", \"command\": 11, \"code\": 257, \"at\": 7", { command: 11, code: 0x0101, at: 7 }),
    ]
}

fn map_commands() -> Vec<(String, MapCommand<'static>)> {
    vec![
        item!(MapCommand::MapWrite, ", \"command\": 1, \"sign\": true, \"operations\": \"02010000006b\"",
            { command: 1, sign: true, operations: &[2, 1, 0, 0, 0, b'k'] }),
        item!(MapCommand::MapGet, ", \"command\": 2, \"fresh\": true, \"key\": \"6b\"",
            { command: 2, fresh: true, key: b"k" }),
        item!(MapCommand::MapList, ", \"command\": 3, \"fresh\": false, \"values\": true, \"start\": \"61\", \
            \"end\": \"62\", \"limit\": 9",
            { command: 3, fresh: false, values: true, start: b"a", end: b"b", limit: 9 }),
        item!(MapCommand::MapHistory, ", \"command\": 4, \"key\": \"6b\", \"before\": \"ID\", \"limit\": 5",
            { command: 4, key: b"k", before: &ID, limit: 5 }),
        item!(MapCommand::MapChanges, ", \"command\": 5, \"begin\": false, \"since\": 7, \"start\": \"61\", \
            \"end\": \"\", \"every_ms\": 1000",
            { command: 5, begin: false, since: 7, start: b"a", end: &[], every_ms: 1000 }),
        item!(MapCommand::Cancel, ", \"command\": 6, \"waiting\": 5", { command: 6, waiting: 5 }),
    ]
}

fn map_replies() -> Vec<(String, MapReply<'static>)> {
    vec![
        item!(MapReply::Entries, ", \"command\": 1, \"more\": true, \"version\": 2, \"entries\": \"ff\"",
            { command: 1, more: true, version: 2, entries: &[255] }),
    ]
}

fn client_config() -> ClientConfig<'static> {
    ClientConfig {
        capsule: ID,
        metadata: &[1, 2],
        servers: &[3; 64],
        seed: &[4; 32],
        write_quorum: 2,
        read_quorum: 1,
        timing: [250, 5_000, 10_000, 30_000],
        entropy: [5; 32],
    }
}

fn capsule_outputs() -> Vec<(String, capsule::Output<'static>)> {
    use capsule::Output;
    vec![
        item!(Output::Respond, ", \"request\": 1, \"response\": \"01\"", { request: 1, response: &[1] }),
        item!(Output::StoreGet, ", \"tag\": 2, \"keys\": \"010000006b\"", { tag: 2, keys: &[1, 0, 0, 0, b'k'] }),
        item!(Output::StoreScan, ", \"tag\": 3, \"start\": \"61\", \"end\": \"62\", \"limit\": 500",
            { tag: 3, start: b"a", end: b"b", limit: 500 }),
        item!(Output::StoreCommit, ", \"tag\": 4, \"durable\": true, \"operations\": \"\"",
            { tag: 4, durable: true, operations: &[] }),
        item!(Output::Ask, ", \"tag\": 5, \"peer\": \"ID\", \"message\": \"01\"", { tag: 5, peer: ID, message: &[1] }),
        item!(Output::Synced, ", \"peer\": \"ID\", \"capsule\": \"ID\", \"outcome\": 2, \"code\": 257, \"at\": 3, \
            \"pulled\": 4, \"pushed\": 5",
            { peer: ID, capsule: ID, outcome: 2, code: 0x0101, at: 3, pulled: 4, pushed: 5 }),
        item!(Output::Wake, ", \"at_ms\": \"7\"", { at_ms: 7 }),
        item!(Output::Verified, ", \"capsule\": \"ID\", \"records\": 1, \"holes\": 2",
            { capsule: ID, records: 1, holes: 2 }),
        item!(Output::Damaged, ", \"code\": 257, \"at\": 3", { code: 0x0101, at: 3 }),
        item!(Output::Piece, ", \"bytes\": \"0102\"", { bytes: &[1, 2] }),
        item!(Output::Refused, ", \"input\": 4294967295, \"code\": 257", { input: u32::MAX, code: 0x0101 }),
    ]
}

fn replica_config() -> ReplicaConfig {
    ReplicaConfig {
        seed: [1; 32],
        cache: 16 << 20,
        mirrors: 8 << 20,
        owners: [[2; 32]; 2].to_vec(),
    }
}

fn keys() -> Vec<u8> {
    let mut keys = Vec::new();
    for key in [b"a".as_slice(), b"", b"bc"] {
        key.write(&mut keys);
    }
    keys
}

fn values() -> Vec<u8> {
    let mut values = Vec::new();
    for value in [Some(b"1".as_slice()), None, Some(b"")] {
        Values::write(value, &mut values);
    }
    values
}

fn cbor() -> Vec<(String, Vec<u8>)> {
    let numbers = [
        0,
        23,
        24,
        255,
        256,
        65_535,
        65_536,
        u64::from(u32::MAX),
        1 << 32,
        u64::MAX,
    ];
    numbers
        .into_iter()
        .map(|number| {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes).uint(number);
            (quoted(&number.to_string()), bytes)
        })
        .collect()
}

fn operations() -> Vec<u8> {
    let mut writer = OperationWriter::new();
    writer.push(Operation::Put {
        key: b"a",
        value: b"1",
    });
    writer.push(Operation::Delete { key: b"b" });
    writer.push(Operation::Put {
        key: b"c",
        value: b"",
    });
    writer.as_bytes().to_vec()
}

fn entries() -> Vec<u8> {
    let mut writer = EntryWriter::new();
    writer.push(b"a", b"1");
    writer.push(b"b", b"");
    writer.as_bytes().to_vec()
}

fn config() -> Config {
    Config {
        seed: [1; 32],
        entropy: [2; 32],
        known_key: vec![4; 64],
        network: "twiitr".into(),
        role: Role::Member,
        addresses: vec!["wss://a/.mesh".into()],
        bootstraps: vec![format!("wss://b/.mesh#{ID_HEX}"), "https://c/".into()],
        dials: vec!["wss".into(), "https".into()],
        allow_private: true,
        trust_on_first_use: false,
        idle_ms: 60_000,
        domain: "fra".into(),
        admission: Admission::Open,
        authority: Vec::new(),
        certificate: Vec::new(),
        take_over: false,
        confirms: false,
    }
}

fn closed_config() -> Config {
    Config {
        admission: Admission::Dns,
        authority: vec![5; 32],
        certificate: vec![6; 320],
        confirms: true,
        ..config()
    }
}

fn request() -> RequestHead {
    RequestHead {
        method: "POST".into(),
        path: "/x?y=%C3%BC".into(),
        headers: vec![
            ("accept".into(), "*/*".into()),
            ("cookie".into(), "a=\u{fc}".into()),
        ],
    }
}

fn response() -> ResponseHead {
    ResponseHead {
        status: 404,
        headers: vec![
            ("set-cookie".into(), "a".into()),
            ("set-cookie".into(), "b".into()),
        ],
    }
}

fn node(role: Role) -> Node {
    Node {
        id: ID,
        role,
        addresses: vec!["wss://a/.mesh".into()],
        domain: "fra".into(),
    }
}

fn found_node() -> Vec<u8> {
    encode_found_node(&node(Role::Member).view(), 3)
}

fn providers() -> Vec<u8> {
    let provider = |version: &str, node| Provider {
        peer: ID,
        version: version.into(),
        weight: 10_000,
        node,
        ejected: false,
        in_flight: 0,
        latency_ms: None,
    };
    let busy = Provider {
        ejected: true,
        in_flight: 7,
        latency_ms: Some(300),
        ..provider("2", Some(node(Role::Leaf)))
    };
    let providers = [provider("", None), busy];
    encode_providers(&providers.each_ref().map(Provider::view))
}

fn status() -> Status {
    Status {
        id: ID,
        network: "twiitr".into(),
        role: Role::Member,
        joined: true,
        addresses: vec!["wss://a/.mesh".into()],
        predecessor: Some(node(Role::Member)),
        successors: vec![node(Role::Member)],
        fingers: vec![],
        relays: vec![node(Role::Member)],
        peers: vec![ID],
        services: vec![Service {
            name: "check".into(),
            version: "1".into(),
            weight: 100,
        }],
        objects: 300,
        counters: vec![
            (Code::BadFrame.as_u16(), 70_000),
            (Code::TooManyStreams.as_u16(), 0),
        ],
        membership: Some(Membership {
            authority: [9; 32],
            certificate: validity(1_700_000_000_000, 1_700_086_400_000),
            serial: 1_700_000_000_001,
            revoked: 2,
            neighbours: vec![(ID, validity(0, 1_700_086_400_001))],
        }),
    }
}

fn validity(since_ms: u64, until_ms: u64) -> Validity {
    Validity { since_ms, until_ms }
}
