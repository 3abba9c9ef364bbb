//! Messages of DNS (RFC 1035, section 4), read with bounds and written without compression.

use alloc::vec::Vec;

use selfsame_codec::{Malformed, Reader};

use super::name::{MAX_LABEL_BYTES, MAX_NAME_BYTES, Name};

/// Length of a header.
pub(crate) const HEADER_BYTES: usize = 12;
/// Longest message over TCP, whose length has 16 bits (RFC 1035, section 4.2.2).
pub(crate) const MAX_MESSAGE_BYTES: usize = 65_535;
/// Most records of a message: an answer for one name has a handful.
const MAX_RECORDS: usize = 256;
/// Most compression pointers in a name: each of them leads further back, and few messages hold names of more parts.
const MAX_POINTERS: usize = 32;

/// Types of records.
pub(crate) const TYPE_NS: u16 = 2;
pub(crate) const TYPE_CNAME: u16 = 5;
pub(crate) const TYPE_SOA: u16 = 6;
pub(crate) const TYPE_TXT: u16 = 16;
pub(crate) const TYPE_OPT: u16 = 41;
pub(crate) const TYPE_TSIG: u16 = 250;
/// Classes of records.
pub(crate) const CLASS_IN: u16 = 1;
pub(crate) const CLASS_ANY: u16 = 255;

/// Flags of a header (RFC 1035, section 4.1.1; RFC 4035, section 3.2.3).
pub(crate) const IS_RESPONSE: u16 = 0x8000;
pub(crate) const OPCODE_MASK: u16 = 0x7800;
pub(crate) const OPCODE_UPDATE: u16 = 5 << 11;
pub(crate) const IS_TRUNCATED: u16 = 0x0200;
pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
pub(crate) const IS_AUTHENTIC: u16 = 0x0020;
pub(crate) const RCODE_MASK: u16 = 0x000f;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u16,
    pub(crate) flags: u16,
    /// Questions, answers, authorities, additional records.
    pub(crate) counts: [u16; 4],
}

impl Header {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_u16(self.id, out);
        put_u16(self.flags, out);
        self.counts.iter().for_each(|count| put_u16(*count, out));
    }
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) kind: u16,
    pub(crate) class: u16,
}

/// A record of a message.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Where it begins in the message.
    pub(crate) start: usize,
    pub(crate) owner: Name,
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) ttl_s: u32,
    /// Where its data begins and ends in the message.
    data: (usize, usize),
}

/// A message whose layout is right.
#[derive(Clone, Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    pub(crate) header: Header,
    pub(crate) questions: Vec<Question>,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    pub(crate) additionals: Vec<Record>,
}

impl<'a> Message<'a> {
    /// Reads a message as a whole.
    ///
    /// # Errors
    /// [`Malformed`] when anything in it does not follow the format, when it has more records than any answer for one name, or
    /// when bytes are left.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor { bytes, at: 0 };
        let header = cursor.header()?;
        let [questions, answers, authorities, additionals] = header.counts;
        let records = usize::from(answers) + usize::from(authorities) + usize::from(additionals);
        if questions > 1 || records > MAX_RECORDS {
            return Err(Malformed);
        }
        let message = Self {
            bytes,
            header,
            questions: (0..questions)
                .map(|_| cursor.question())
                .collect::<Result<_, _>>()?,
            answers: cursor.records(answers)?,
            authorities: cursor.records(authorities)?,
            additionals: cursor.records(additionals)?,
        };
        if cursor.at == bytes.len() {
            Ok(message)
        } else {
            Err(Malformed)
        }
    }

    /// Returns the data of a record of this message.
    pub(crate) fn data(&self, record: &Record) -> &'a [u8] {
        let (start, end) = record.data;
        &self.bytes[start..end]
    }

    /// Returns the name that is all data of a record of this message.
    pub(crate) fn name_in(&self, record: &Record) -> Result<Name, Malformed> {
        let (start, end) = record.data;
        let (name, after) = read_name(self.bytes, start)?;
        if after == end { Ok(name) } else { Err(Malformed) }
    }

    /// Returns what follows two names in the data of a record of this message.
    pub(crate) fn after_two_names(&self, record: &Record) -> Result<Reader<'a>, Malformed> {
        let (start, end) = record.data;
        let (_, after_one) = read_name(self.bytes, start)?;
        let (_, after_two) = read_name(self.bytes, after_one)?;
        self.bytes.get(after_two..end).map(Reader::new).ok_or(Malformed)
    }
}

#[derive(Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn header(&mut self) -> Result<Header, Malformed> {
        Ok(Header {
            id: self.u16()?,
            flags: self.u16()?,
            counts: [self.u16()?, self.u16()?, self.u16()?, self.u16()?],
        })
    }

    fn question(&mut self) -> Result<Question, Malformed> {
        Ok(Question {
            name: self.name()?,
            kind: self.u16()?,
            class: self.u16()?,
        })
    }

    fn records(&mut self, count: u16) -> Result<Vec<Record>, Malformed> {
        (0..count).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Result<Record, Malformed> {
        let start = self.at;
        let owner = self.name()?;
        let kind = self.u16()?;
        let class = self.u16()?;
        let ttl_s = u32::from_be_bytes(self.array()?);
        let len = usize::from(self.u16()?);
        let data = (self.at, self.at + len);
        if data.1 > self.bytes.len() {
            return Err(Malformed);
        }
        self.at = data.1;
        Ok(Record {
            start,
            owner,
            kind,
            class,
            ttl_s,
            data,
        })
    }

    fn name(&mut self) -> Result<Name, Malformed> {
        let (name, after) = read_name(self.bytes, self.at)?;
        self.at = after;
        Ok(name)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = self.bytes.get(self.at..).ok_or(Malformed)?;
        let array = rest.first_chunk().ok_or(Malformed)?;
        self.at += N;
        Ok(*array)
    }
}

/// Reads a name that begins at `start`, and returns it with where it ends there.
///
/// A pointer leads to what stands before it and before what earlier pointers led to, so that there is no circle.
fn read_name(bytes: &[u8], start: usize) -> Result<(Name, usize), Malformed> {
    let mut wire = Vec::new();
    let mut end = None;
    let (mut at, mut first) = (start, start);
    let mut pointers = 0;
    loop {
        let len = *bytes.get(at).ok_or(Malformed)?;
        match usize::from(len) {
            0 => {
                wire.push(0);
                return Ok((Name::from_wire(wire), end.unwrap_or(at + 1)));
            }
            1..=MAX_LABEL_BYTES => {
                let next = at + 1 + usize::from(len);
                wire.extend_from_slice(bytes.get(at..next).ok_or(Malformed)?);
                // The root label follows.
                if wire.len() >= MAX_NAME_BYTES {
                    return Err(Malformed);
                }
                at = next;
            }
            0xc0.. => {
                let low = *bytes.get(at + 1).ok_or(Malformed)?;
                let target = usize::from(len & 0x3f) << 8 | usize::from(low);
                pointers += 1;
                if !(HEADER_BYTES..first).contains(&target) || pointers > MAX_POINTERS {
                    return Err(Malformed);
                }
                end.get_or_insert(at + 2);
                (at, first) = (target, target);
            }
            _ => return Err(Malformed),
        }
    }
}

/// Appends a question, or the zone of an update.
pub(crate) fn put_question(name: &Name, kind: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(name.wire());
    put_u16(kind, out);
    put_u16(CLASS_IN, out);
}

/// Appends a record.
pub(crate) fn put_record(name: &Name, kind: u16, class: u16, ttl_s: u32, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.wire());
    put_u16(kind, out);
    put_u16(class, out);
    out.extend_from_slice(&ttl_s.to_be_bytes());
    put_u16(data.len() as u16, out);
    out.extend_from_slice(data);
}

/// Appends an integer of 16 bits.
pub(crate) fn put_u16(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}
