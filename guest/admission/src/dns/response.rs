use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed};

use super::message::{
    CLASS_IN, IS_AUTHENTIC, IS_RESPONSE, IS_TRUNCATED, MAX_MESSAGE_BYTES, Message, OPCODE_MASK, Question,
    RCODE_MASK, Record, TYPE_CNAME, TYPE_NS, TYPE_OPT, TYPE_SOA, TYPE_TXT,
};
use super::name::Name;
use super::query::Query;
use super::value::{self, Value};

/// Longest response over UDP, far above what a query asks for.
const MAX_DATAGRAM_BYTES: usize = 4096;
/// Most aliases that lead from a name to its records.
const MAX_ALIASES: usize = 8;
/// Most values of a name: those of an old and a new certificate, with room.
const MAX_VALUES: usize = 8;

/// Bounds of the time for which values are good: long enough that a TTL of zero causes no flood of queries, and at most the
/// life of a certificate.
const MIN_TTL_S: u32 = 30;
const MAX_TTL_S: u32 = 24 * 60 * 60;
/// Bounds of the time for which a name has none: a peer whose record was just added waits at most so long.
const MIN_ABSENT_TTL_S: u32 = 10;
const MAX_ABSENT_TTL_S: u32 = 15 * 60;

/// Response codes (RFC 1035, section 4.1.1; RFC 2136, section 2.2).
pub(crate) const NO_ERROR: u16 = 0;
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;
const REFUSED: u16 = 5;

/// How a response came
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over UDP.
    Datagram,
    /// Over TCP or HTTPS.
    Stream,
}

/// What a response says of a name
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has values.
    Found {
        /// The values, of at most [`MAX_VALUE_BYTES`](super::MAX_VALUE_BYTES) each.
        values: Vec<Vec<u8>>,
        /// Seconds for which they are good.
        ttl_s: u32,
        /// Whether the resolver has verified them with DNSSEC.
        is_authentic: bool,
    },
    /// It has none.
    Absent {
        /// Seconds for which that is good.
        ttl_s: u32,
    },
    /// The response did not fit its datagram: ask over TCP.
    Truncated,
}

impl Query {
    /// Reads the response to this query.
    ///
    /// # Errors
    /// [`Code::WrongDnsAnswer`] when it answers another query, and `TooLarge`, `BadDnsMessage`, `BadDnsValue`, `DnsFailed`,
    /// `DnsRefused`, `DnsRejected` or `DnsNoAnswer` as their texts say.
    pub fn read_response(&self, bytes: &[u8], transport: Transport) -> Result<Outcome, Code> {
        let max = match transport {
            Transport::Datagram => MAX_DATAGRAM_BYTES,
            Transport::Stream => MAX_MESSAGE_BYTES,
        };
        if bytes.len() > max {
            return Err(Code::TooLarge);
        }
        if bytes.first_chunk() != Some(&self.id.to_be_bytes()) {
            return Err(Code::WrongDnsAnswer);
        }
        let message = Message::parse(bytes).map_err(bad)?;
        self.check_echo(&message)?;
        if message.header.flags & IS_TRUNCATED != 0 {
            return match transport {
                Transport::Datagram => Ok(Outcome::Truncated),
                Transport::Stream => Err(Code::BadDnsMessage),
            };
        }
        match response_code(&message) {
            NO_ERROR => self.answer(&message),
            NO_SUCH_NAME => {
                let (name, _) = follow_aliases(&message, &self.name)?;
                let ttl_s = absent_ttl_s(&message, &name).map_err(bad)?;
                Ok(Outcome::Absent {
                    ttl_s: ttl_s.unwrap_or(MIN_ABSENT_TTL_S),
                })
            }
            code => Err(refusal(code)),
        }
    }

    fn check_echo(&self, message: &Message<'_>) -> Result<(), Code> {
        let is_ours = message.header.flags & (IS_RESPONSE | OPCODE_MASK) == IS_RESPONSE;
        let echo = Question {
            name: self.name.clone(),
            kind: TYPE_TXT,
            class: CLASS_IN,
        };
        if is_ours && message.questions == [echo] {
            Ok(())
        } else {
            Err(Code::WrongDnsAnswer)
        }
    }

    fn answer(&self, message: &Message<'_>) -> Result<Outcome, Code> {
        let (name, aliases_ttl_s) = follow_aliases(message, &self.name)?;
        let records: Vec<&Record> = of_kind(&message.answers, TYPE_TXT)
            .filter(|record| record.owner == name)
            .collect();
        if records.is_empty() {
            return absence(message, &name, name != self.name);
        }
        let ttl_s = records
            .iter()
            .map(|record| ttl_s(record))
            .fold(aliases_ttl_s, u32::min);
        let (values, reason) = values(message, &records)?;
        match reason {
            _ if !values.is_empty() => Ok(Outcome::Found {
                values,
                ttl_s: ttl_s.clamp(MIN_TTL_S, MAX_TTL_S),
                is_authentic: message.header.flags & IS_AUTHENTIC != 0,
            }),
            Some(reason) => Err(reason),
            None => Ok(Outcome::Absent {
                ttl_s: ttl_s.clamp(MIN_ABSENT_TTL_S, MAX_ABSENT_TTL_S),
            }),
        }
    }
}

/// Returns the values among the records, and why one is none; a bad record beside a good one does not hide it.
fn values(message: &Message<'_>, records: &[&Record]) -> Result<(Vec<Vec<u8>>, Option<Code>), Code> {
    let mut values = Vec::new();
    let mut reason = None;
    for record in records {
        match value::read(message.data(record)).map_err(bad)? {
            Value::Ours(_) if values.len() == MAX_VALUES => return Err(Code::TooLarge),
            Value::Ours(value) => values.push(value),
            Value::Bad(code) => reason = Some(code),
            Value::Foreign => {}
        }
    }
    Ok((values, reason))
}

/// Returns the name that aliases lead to, and the shortest of their TTLs.
fn follow_aliases(message: &Message<'_>, asked: &Name) -> Result<(Name, u32), Code> {
    let mut name = asked.clone();
    let mut shortest_s = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let Some(alias) = of_kind(&message.answers, TYPE_CNAME).find(|record| record.owner == name) else {
            return Ok((name, shortest_s));
        };
        shortest_s = shortest_s.min(ttl_s(alias));
        name = message.name_in(alias).map_err(bad)?;
    }
    Err(Code::BadDnsMessage)
}

/// Tells that there is no record from a server that does not know (RFC 2308, section 2.2).
fn absence(message: &Message<'_>, name: &Name, has_aliases: bool) -> Result<Outcome, Code> {
    let is_referral = has_aliases || of_kind(&message.authorities, TYPE_NS).next().is_some();
    match absent_ttl_s(message, name).map_err(bad)? {
        Some(ttl_s) => Ok(Outcome::Absent { ttl_s }),
        None if is_referral => Err(Code::DnsNoAnswer),
        None => Ok(Outcome::Absent {
            ttl_s: MIN_ABSENT_TTL_S,
        }),
    }
}

/// Returns how long a name has no record by the SOA record of its zone, if there is one (RFC 2308, section 5).
fn absent_ttl_s(message: &Message<'_>, name: &Name) -> Result<Option<u32>, Malformed> {
    let Some(soa) = of_kind(&message.authorities, TYPE_SOA).find(|soa| name.is_within(&soa.owner)) else {
        return Ok(None);
    };
    let mut numbers = message.after_two_names(soa)?;
    // Serial, refresh, retry and expiry.
    numbers.take(16)?;
    let minimum_s = u32::from_be_bytes(numbers.array()?);
    numbers.finish()?;
    let ttl_s = ttl_s(soa).min(minimum_s);
    Ok(Some(ttl_s.clamp(MIN_ABSENT_TTL_S, MAX_ABSENT_TTL_S)))
}

fn of_kind(records: &[Record], kind: u16) -> impl Iterator<Item = &Record> {
    records
        .iter()
        .filter(move |record| record.kind == kind && record.class == CLASS_IN)
}

/// Returns the TTL of a record; one with the highest bit set is none (RFC 2181, section 8).
fn ttl_s(record: &Record) -> u32 {
    if record.ttl_s > i32::MAX as u32 {
        0
    } else {
        record.ttl_s
    }
}

/// Returns the response code with the bits that EDNS adds (RFC 6891, section 6.1.3).
pub(crate) fn response_code(message: &Message<'_>) -> u16 {
    let options = message.additionals.iter().find(|record| record.kind == TYPE_OPT);
    let high = options.map_or(0, |options| (options.ttl_s >> 24) as u16);
    high << 4 | message.header.flags & RCODE_MASK
}

/// Returns the error for a response code that is one.
pub(crate) fn refusal(response_code: u16) -> Code {
    match response_code {
        SERVER_FAILURE => Code::DnsFailed,
        REFUSED => Code::DnsRefused,
        _ => Code::DnsRejected,
    }
}

pub(crate) fn bad(_: Malformed) -> Code {
    Code::BadDnsMessage
}
