//! Messages of name servers: whatever one sends, it says nothing of another query, and confirms only what it has signed.

use selfsame_admission::dns::{MAX_VALUE_BYTES, Name, Outcome, Query, Transport, TsigKey};

use super::Target;
use super::decode::target;
use crate::hex;
use crate::mutate::Shape;

/// What the messages of `guest/admission/tests/vectors` were asked for and answered.
const ID: u16 = 0x1234;
const NAME: &str = "aibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaiba.ring.example";
const FOUND: &str = "12348500000100030000000134616962616561716361696261656171636169626165617163616962616561716361696261656171636169626165617163616962610472696e67076578616d706c650000100001c00c001000010000012c000c0b763d73706631202d616c6cc00c001000010000012c000f0e73656c6673616d65313d6232786bc00c001000010000012c000f0e73656c6673616d65313d626d563300002904d0000000000000";
const ABSENT: &str = "12348503000100000001000134626165617163616962616561716361696261656171636169626165617163616962616561716361696261656171636169626165610472696e67076578616d706c650000100001c04100060001000000780021026e73c0410561646d696ec0410000000100000e1000000258000151800000007800002904d0000000000000";
const UPDATE_ID: u16 = 0x4321;
const UPDATED_S: u64 = 1_795_882_956;
const UPDATE_MAC: &str = "17c3628575846a18570f71d2cc09f7d55f5d5db60f11e4c2d3d89d2efc96c8e6";
const UPDATED: &str = "4321a80000010000000000010472696e67076578616d706c6500000600010561646d696e036b65790000fa00ff00000000003d0b686d61632d7368613235360000006b0affcc012c0020911c857149b510ed776879e232a439e96a67d06c5fb8fe0dc2013a1f33fd4512432100000000";

pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![target("dns", 150, Shape::Bytes, seeds, run)]
}

fn seeds() -> Vec<Vec<u8>> {
    vec![unhex(FOUND), unhex(ABSENT), unhex(UPDATED)]
}

fn run(message: &[u8]) {
    let query = Query {
        id: ID,
        name: Name::parse(NAME).expect("a name"),
    };
    for transport in [Transport::Datagram, Transport::Stream] {
        let Ok(Outcome::Found { values, .. }) = query.read_response(message, transport) else {
            continue;
        };
        let head = &unhex(FOUND)[..12 + NAME.len() + 2 + 4];
        let asked = message.get(12..head.len()).expect("a question");
        assert!(
            asked.eq_ignore_ascii_case(&head[12..]),
            "an answer to another question"
        );
        let is_bounded = |value: &Vec<u8>| (1..=MAX_VALUE_BYTES).contains(&value.len());
        assert!(values.len() <= 8 && values.iter().all(is_bounded));
    }
    let secret: Vec<u8> = (0..32).collect();
    let key = TsigKey {
        name: Name::parse("admin.key").expect("a name"),
        secret: &secret,
    };
    let mac = unhex(UPDATE_MAC).try_into().expect("a MAC");
    if key.check_updated(UPDATE_ID, &mac, UPDATED_S, message).is_ok() {
        assert!(
            message.eq_ignore_ascii_case(&unhex(UPDATED)),
            "a confirmation that nobody has signed"
        );
    }
}

fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text).expect("hexadecimal digits")
}
