//! Keys and tickets: derived here as the specification says, and compared with what a replica issues.

use selfsame_codec::rpc::Input;
use selfsame_sodium::aead::{Key, open_in_place};
use selfsame_sodium::hash::{derive_key, keyed, keyed_wide, sha256};

use super::json::{Json, hex, number, text};
use super::world::{CALLER, ROUTER_SECRET, SECRET, START_US, Setup, TICKET_LIFE_S, World, address};

const NETWORK: &str = "net";
const SERVICE: &str = "check";
/// Public key of the authority of a closed network.
const AUTHORITY: [u8; 32] = [0xa5; 32];
/// Key id and nonce, which precede what is sealed of a ticket.
const TICKET_HEAD_BYTES: usize = 4 + 24;
const TICKET_BYTES: usize = 92;

pub(super) fn labelled(key: &[u8; 32], label: &str, rest: &[u8]) -> [u8; 32] {
    keyed(key, &[label.as_bytes(), rest].concat())
}

/// Opens what is sealed; that it opens shows that the keys are right.
pub(super) fn open(key: [u8; 32], nonce: &[u8; 12], associated: &[u8], sealed: &[u8]) -> Vec<u8> {
    let (data, tag) = sealed.split_last_chunk().expect("a tag");
    let mut data = data.to_vec();
    open_in_place(&Key::new(key), nonce, associated, &mut data, tag).expect("it opens");
    data
}

pub(super) fn router_key() -> [u8; 32] {
    derive_key("selfsame/1 rpc router key", &ROUTER_SECRET)
}

/// HMAC of RFC 2104 with SHA-256, whose block has 64 bytes.
fn hmac(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = sha256(&[&padded(0x36), data].concat());
    sha256(&[&padded(0x5c)[..], &inner].concat())
}

/// What a server in a closed network is told as its network.
fn closed_network() -> Vec<u8> {
    [b"@", &AUTHORITY[..]].concat()
}

fn key_of(secret: &[u8; 32], network: &[u8]) -> [u8; 32] {
    let names = [&[network.len() as u8], network, SERVICE.as_bytes()].concat();
    derive_key(
        "selfsame/1 rpc service ticket key",
        &[&secret[..], &names].concat(),
    )
}

pub(super) fn vectors() -> Json {
    let mut world = World::new(&[Setup::idempotent(1)]);
    let secrets = [SECRET, hmac(&SECRET, b"selfsame/1 rpc next ticket secret")];
    let keys = secrets.map(|secret| {
        let input = Input::SetTicketKeys { secrets: &secret };
        world.tell_replica(address(1), &[input]);
        let key = key_of(&secret, NETWORK.as_bytes());
        Json::Object(vec![
            ("secret", hex(&secret)),
            ("key", hex(&key)),
            (
                "key_id",
                hex(&labelled(&key, "selfsame/1 rpc ticket key id", &[])[..4]),
            ),
            (
                "address_key",
                hex(&labelled(&key, "selfsame/1 rpc address tag", &[])),
            ),
            ("ticket", ticket(&key, &world.issue(address(1)))),
        ])
    });
    let authority: String = AUTHORITY.iter().map(|byte| format!("{byte:02x}")).collect();
    let closed = closed_network();
    let closed_key = key_of(&SECRET, &closed);
    let closed_key_id = &labelled(&closed_key, "selfsame/1 rpc ticket key id", &[])[..4];
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("service", text(SERVICE)),
        ("current_and_next", Json::List(keys.into())),
        (
            "closed",
            Json::Object(vec![
                ("network", text(format!("{NETWORK}@{authority}"))),
                ("bytes", hex(&closed)),
                ("key", hex(&closed_key)),
                ("key_id", hex(closed_key_id)),
            ]),
        ),
        ("router_secret", hex(&ROUTER_SECRET)),
        ("router_key", hex(&router_key())),
    ])
}

fn ticket(key: &[u8; 32], grant: &[u8]) -> Json {
    let (ticket, rest) = grant.split_at(TICKET_BYTES);
    let nonce = &ticket[4..TICKET_HEAD_BYTES];
    let wide = keyed_wide(key, &[b"selfsame/1 rpc ticket", nonce].concat());
    let (sealing, psk) = (
        wide.first_chunk::<32>().expect("half"),
        wide.last_chunk::<32>().expect("half"),
    );
    assert_eq!(psk, &rest[..32], "the secret that a replica gives");
    let content = open(*sealing, &[0; 12], &ticket[..4], &ticket[TICKET_HEAD_BYTES..]);
    let address = &address(0)[..16];
    let tag = &labelled(key, "selfsame/1 rpc address tag", &[]);
    let issued_s = (START_US / 1_000_000) as u32;
    let expected = [
        &CALLER[..],
        &(issued_s + TICKET_LIFE_S).to_le_bytes(),
        &issued_s.to_le_bytes(),
        &keyed(tag, address)[..8],
    ];
    assert_eq!(content, expected.concat());
    Json::Object(vec![
        ("grant", hex(grant)),
        ("nonce", hex(nonce)),
        ("sealing_key", hex(sealing)),
        ("caller", hex(&CALLER)),
        ("issued_s", number(issued_s)),
        ("expires_s", number(issued_s + TICKET_LIFE_S)),
        ("address", hex(address)),
        ("content", hex(&content)),
        ("psk", hex(psk)),
        ("life_s", number(TICKET_LIFE_S)),
        ("session", hex(&nonce[..8])),
        (
            "request_key",
            hex(&labelled(psk, "selfsame/1 rpc request key", &[])),
        ),
    ])
}
