//! Labelled hashes, networks, keys, ids and signatures.

use selfsame_core::identity::{Identity, NetworkId, labelled_hash};

use super::json::{Json, hex, text};

pub(super) fn vectors() -> Json {
    let networks = ["twiitr", "a", "caf\u{e9}"];
    let seeds = [[0; 32], [7; 32], core::array::from_fn(|at| at as u8)];
    let pairs = || {
        networks
            .iter()
            .flat_map(|name| seeds.iter().map(move |seed| (*name, seed)))
    };
    Json::Object(vec![
        ("labelled_hashes", hashes()),
        (
            "networks",
            Json::List(networks.iter().map(|name| network(name)).collect()),
        ),
        (
            "peers",
            Json::List(pairs().map(|(name, seed)| peer(name, seed)).collect()),
        ),
        (
            "owners",
            Json::List(pairs().map(|(name, seed)| owner(name, seed)).collect()),
        ),
        ("signatures", signatures()),
    ])
}

fn hashes() -> Json {
    const LABEL: &str = "selfsame/1 peer id";
    const OTHER: &str = "selfsame/1 network id";
    let cases: [(&'static str, &[&[u8]]); 6] = [
        (LABEL, &[]),
        (LABEL, &[b""]),
        (LABEL, &[b"ab", b"c"]),
        (LABEL, &[b"a", b"bc"]),
        (LABEL, &[b"abc"]),
        (OTHER, &[b"abc"]),
    ];
    let hashes = cases.iter().map(|(label, parts)| {
        Json::Object(vec![
            ("label", text(*label)),
            ("parts", Json::List(parts.iter().map(|part| hex(part)).collect())),
            ("hash", hex(&labelled_hash(label, parts))),
        ])
    });
    Json::List(hashes.collect())
}

fn network(name: &str) -> Json {
    Json::Object(vec![("name", text(name)), ("net", hex(&NetworkId::open(name).0))])
}

fn peer(name: &str, seed: &[u8; 32]) -> Json {
    let net = NetworkId::open(name);
    let identity = Identity::recall(seed, net, &[]);
    let signing_seed = labelled_hash("selfsame/1 peer signing seed", &[seed, &net.0]);
    Json::Object(vec![
        ("network", text(name)),
        ("master_seed", hex(seed)),
        ("signing_seed", hex(&signing_seed)),
        ("public_key", hex(&identity.public().0)),
        ("id", hex(&identity.id().0)),
    ])
}

fn owner(name: &str, seed: &[u8; 32]) -> Json {
    let net = NetworkId::open(name);
    let signing_seed = labelled_hash("selfsame/1 owner signing seed", &[seed, &net.0]);
    Json::Object(vec![
        ("network", text(name)),
        ("owner_seed", hex(seed)),
        ("signing_seed", hex(&signing_seed)),
        ("public_key", hex(&Identity::of_owner(seed, net).public().0)),
    ])
}

fn signatures() -> Json {
    const LABEL: &str = "selfsame/1 node record";
    let identity = Identity::recall(&[7; 32], NetworkId::open("twiitr"), &[]);
    let sign = |statement: &[u8]| {
        Json::Object(vec![
            ("public_key", hex(&identity.public().0)),
            ("label", text(LABEL)),
            ("statement", hex(statement)),
            ("hash", hex(&labelled_hash(LABEL, &[statement]))),
            ("signature", hex(&identity.sign(LABEL, statement).0)),
        ])
    };
    Json::List(vec![sign(b""), sign(b"statement"), sign(&[0xff; 200])])
}
