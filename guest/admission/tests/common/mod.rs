//! Messages for tests: those that others wrote, and raw ones.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;

/// A message of the files in `tests/vectors`, with what belongs to it.
pub(crate) struct Vector(Value);

impl Vector {
    pub(crate) fn text(&self, member: &str) -> &str {
        self.0[member].as_str().expect("a text")
    }

    pub(crate) fn bytes(&self, member: &str) -> Vec<u8> {
        unhex(self.text(member))
    }

    pub(crate) fn number(&self, member: &str) -> u64 {
        self.0[member].as_u64().expect("a number")
    }

    pub(crate) fn is(&self, member: &str, text: &str) -> bool {
        self.text(member) == text
    }
}

pub(crate) fn responses() -> Vec<Vector> {
    vectors(include_str!("../vectors/responses.json"))
}

pub(crate) fn updates() -> Vec<Vector> {
    vectors(include_str!("../vectors/updates.json"))
}

fn vectors(text: &str) -> Vec<Vector> {
    let vectors: Vec<Value> = serde_json::from_str(text).expect("a list");
    vectors.into_iter().map(Vector).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal"))
        .collect()
}

/// The value of the longest kind that the captured zone holds.
pub(crate) fn long_value() -> Vec<u8> {
    (0..=255).chain([0; 64]).collect()
}

/// A name on the wire.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

/// A record of the class IN.
pub(crate) fn record(owner: &[u8], kind: u16, ttl_s: u32, data: &[u8]) -> Vec<u8> {
    let mut out = owner.to_vec();
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&ttl_s.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
    out
}

/// The data of a TXT record with these texts.
pub(crate) fn strings(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A response of the id 0x1234 to a question for TXT records: flags, then records of each section.
pub(crate) fn response(question: &[u8], flags: u16, sections: [&[Vec<u8>]; 3]) -> Vec<u8> {
    let mut out = vec![0x12, 0x34];
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    for section in sections {
        out.extend_from_slice(&(section.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(question);
    out.extend_from_slice(&[0, 16, 0, 1]);
    sections
        .into_iter()
        .flatten()
        .for_each(|record| out.extend_from_slice(record));
    out
}
