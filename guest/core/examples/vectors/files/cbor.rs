//! Deterministic CBOR: what is accepted and what is refused.

use selfsame_codec::Malformed;
use selfsame_codec::cbor::{Decoder, Encoder};

use super::json::{Json, hex, text};

pub(super) fn vectors() -> Json {
    Json::Object(vec![("accepted", accepted()), ("refused", refused())])
}

fn accepted() -> Json {
    let mut list = Vec::new();
    let mut add = |diagnostic: &str, write: &dyn Fn(&mut Encoder<'_>)| {
        let mut bytes = Vec::new();
        write(&mut Encoder::new(&mut bytes));
        assert_eq!(read(&bytes), Ok(()), "{diagnostic}");
        list.push(Json::Object(vec![
            ("diagnostic", text(diagnostic)),
            ("encoded", hex(&bytes)),
        ]));
    };
    for value in [
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
    ] {
        add(&value.to_string(), &|e| _ = e.uint(value));
    }
    add("h''", &|e| _ = e.bytes(&[]));
    add("h'0102'", &|e| _ = e.bytes(&[1, 2]));
    add("24 bytes of 07", &|e| _ = e.bytes(&[7; 24]));
    add("\"\"", &|e| _ = e.text(""));
    add("\"caf\u{e9}\"", &|e| _ = e.text("caf\u{e9}"));
    add("[]", &|e| _ = e.array(0));
    add("[1, [h'', \"a\"], true, false, null]", &|e| {
        e.array(5).uint(1).array(2).bytes(&[]).text("a");
        e.bool(true).bool(false).null();
    });
    add("{1: 2, \"a\": null}", &|e| {
        e.map(2).uint(1).uint(2).text("a").null();
    });
    Json::List(list)
}

fn refused() -> Json {
    let cases: &[(&str, &[u8])] = &[
        ("23 in two bytes", &[0x18, 23]),
        ("255 in three bytes", &[0x19, 0, 255]),
        ("65535 in five bytes", &[0x1a, 0, 0, 255, 255]),
        ("2^32 - 1 in nine bytes", &[0x1b, 0, 0, 0, 0, 255, 255, 255, 255]),
        ("a length in more bytes than necessary", &[0x58, 1, 0]),
        ("a byte string of indefinite length", &[0x5f, 0x41, 0, 0xff]),
        ("an array of indefinite length", &[0x9f, 0xff]),
        ("a map of indefinite length", &[0xbf, 0xff]),
        ("a negative integer", &[0x20]),
        ("a tag", &[0xc1, 0x00]),
        ("a float", &[0xf9, 0x3c, 0x00]),
        ("undefined", &[0xf7]),
        ("a simple value", &[0xf8, 0xff]),
        ("reserved additional information", &[0x1c]),
        ("a byte string that ends early", &[0x43, 1, 2]),
        (
            "a length beyond everything",
            &[0x5b, 255, 255, 255, 255, 255, 255, 255, 255],
        ),
        ("an array that ends early", &[0x82, 0]),
        ("text that is not UTF-8", &[0x62, 0xc3, 0x28]),
        ("bytes after the item", &[0x00, 0x00]),
        ("nothing", &[]),
    ];
    let refused = cases.iter().map(|(why, bytes)| {
        assert_eq!(read(bytes), Err(Malformed), "{why}");
        Json::Object(vec![("why", text(*why)), ("bytes", hex(bytes))])
    });
    Json::List(refused.collect())
}

/// Reads one item of any kind to the end of the bytes.
fn read(bytes: &[u8]) -> Result<(), Malformed> {
    let mut decoder = Decoder::new(bytes);
    read_item(&mut decoder)?;
    decoder.finish()
}

fn read_item(decoder: &mut Decoder<'_>) -> Result<(), Malformed> {
    match decoder.rest().first().ok_or(Malformed)? >> 5 {
        0 => decoder.uint().map(|_| ()),
        2 => decoder.bytes(1024).map(|_| ()),
        3 => decoder.text(1024).map(|_| ()),
        4 => (0..decoder.array(16)?).try_for_each(|_| read_item(decoder)),
        5 => (0..2 * decoder.map(16)?).try_for_each(|_| read_item(decoder)),
        _ if decoder.null() => Ok(()),
        _ => decoder.bool().map(|_| ()),
    }
}
