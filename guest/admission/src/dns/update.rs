use alloc::vec::Vec;

use selfsame_codec::Code;

use super::message::{
    CLASS_ANY, CLASS_IN, Header, IS_RESPONSE, MAX_MESSAGE_BYTES, Message, OPCODE_MASK, OPCODE_UPDATE,
    TYPE_SOA, TYPE_TXT, put_question, put_record,
};
use super::name::Name;
use super::response::bad;
use super::tsig::{Signed, TsigKey};
use super::value;

/// Longest update without its TSIG record, which has two names and less than 100 bytes more.
const MAX_UPDATE_BYTES: usize = MAX_MESSAGE_BYTES - 1024;

/// What becomes of the TXT records of a name
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The name.
    pub name: Name,
    /// The value that replaces all that it has; empty to have none.
    pub value: &'a [u8],
}

/// An update of a zone (RFC 2136), which a server makes as a whole or not at all
#[derive(Clone, Debug)]
pub struct Update<'a> {
    /// A random number, by which the response is known.
    pub id: u16,
    /// The zone.
    pub zone: Name,
    /// Seconds for which resolvers keep the values.
    pub ttl_s: u32,
    /// What is changed in it.
    pub changes: Vec<Change<'a>>,
}

impl Update<'_> {
    /// The message, signed.
    ///
    /// # Errors
    /// [`Code::BadDomain`] when a name is not in the zone, [`Code::TooLarge`] when a value or the whole is.
    pub fn sign(&self, key: &TsigKey<'_>, now_s: u64) -> Result<Signed, Code> {
        let mut records = Vec::new();
        let mut count: u16 = 0;
        for Change { name, value } in &self.changes {
            if !name.is_within(&self.zone) {
                return Err(Code::BadDomain);
            }
            // Deletes all TXT records of the name (RFC 2136, section 2.5.2).
            put_record(name, TYPE_TXT, CLASS_ANY, 0, &[], &mut records);
            count += 1;
            if !value.is_empty() {
                let data = value::data(value)?;
                put_record(name, TYPE_TXT, CLASS_IN, self.ttl_s, &data, &mut records);
                count += 1;
            }
            if records.len() > MAX_UPDATE_BYTES {
                return Err(Code::TooLarge);
            }
        }
        let mut message = Vec::new();
        let header = Header {
            id: self.id,
            flags: OPCODE_UPDATE,
            counts: [1, 0, count, 0],
        };
        header.write(&mut message);
        put_question(&self.zone, TYPE_SOA, &mut message);
        message.extend_from_slice(&records);
        Ok(key.sign(message, now_s))
    }
}

impl TsigKey<'_> {
    /// Checks the response to the update with this id and MAC: whether the server has made it.
    ///
    /// # Errors
    /// [`Code::WrongDnsAnswer`] when it answers something else; `DnsBadKey`, `DnsBadSignature` and `DnsBadTime` when the server
    /// refuses the signature or its own does not hold; `BadDnsMessage`, `DnsFailed`, `DnsRefused` and `DnsRejected` as their texts
    /// say.
    pub fn check_updated(&self, id: u16, mac: &[u8; 32], now_s: u64, bytes: &[u8]) -> Result<(), Code> {
        if bytes.len() > MAX_MESSAGE_BYTES {
            return Err(Code::TooLarge);
        }
        let message = Message::parse(bytes).map_err(bad)?;
        let Header { id: echo, flags, .. } = message.header;
        if echo != id || flags & (IS_RESPONSE | OPCODE_MASK) != IS_RESPONSE | OPCODE_UPDATE {
            return Err(Code::WrongDnsAnswer);
        }
        self.check_response(&message, bytes, mac, now_s)
    }
}
