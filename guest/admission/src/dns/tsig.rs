//! Messages signed with a secret that both ends know (RFC 8945), with HMAC-SHA-256.

use alloc::vec::Vec;
use core::fmt;

use selfsame_codec::{Code, Malformed, Reader};
use selfsame_sodium::hash::hmac_sha256;
use selfsame_sodium::memory::equal;

use super::message::{CLASS_ANY, Message, Record, TYPE_TSIG, put_record, put_u16};
use super::name::Name;
use super::response::{NO_ERROR, bad, refusal, response_code};

/// Name of the algorithm on the wire (RFC 8945, section 6).
const ALGORITHM: &[u8] = b"\x0bhmac-sha256\0";
/// Seconds by which clocks may differ (RFC 8945, section 10).
const FUDGE_S: u16 = 300;
/// Length of a MAC; ours and those we take are not truncated.
const MAC_BYTES: usize = 32;
/// Where the count of additional records is in a header.
const ADDITIONAL_COUNT_AT: usize = 10;

/// Errors of a TSIG record (RFC 8945, section 3).
const BAD_SIGNATURE: u16 = 16;
const BAD_KEY: u16 = 17;
const BAD_TIME: u16 = 18;

/// A key that a name server knows too
pub struct TsigKey<'a> {
    /// Its name at the server.
    pub name: Name,
    /// Its bytes. Secret.
    pub secret: &'a [u8],
}

/// A message with its TSIG record
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The message.
    pub message: Vec<u8>,
    /// What the response is bound to.
    pub mac: [u8; MAC_BYTES],
}

/// What a TSIG record says.
struct Tsig<'a> {
    signed_at: [u8; 6],
    fudge_s: u16,
    mac: &'a [u8],
    original_id: [u8; 2],
    error: u16,
    other: &'a [u8],
}

impl TsigKey<'_> {
    /// Signs a request of which no more than the TSIG record is missing.
    pub(crate) fn sign(&self, mut message: Vec<u8>, now_s: u64) -> Signed {
        let [_, _, signed_at @ ..] = now_s.to_be_bytes();
        let mut tsig = Tsig {
            signed_at,
            fudge_s: FUDGE_S,
            mac: &[],
            original_id: [message[0], message[1]],
            error: NO_ERROR,
            other: &[],
        };
        let mac = hmac_sha256(self.secret, &[&message, &self.variables(&tsig)]);
        tsig.mac = &mac;
        put_record(&self.name, TYPE_TSIG, CLASS_ANY, 0, &tsig.data(), &mut message);
        message[ADDITIONAL_COUNT_AT + 1] += 1;
        Signed { message, mac }
    }

    /// Checks the response to a signed request.
    ///
    /// # Errors
    /// [`Code::DnsBadKey`], [`Code::DnsBadSignature`] or [`Code::DnsBadTime`] when the server says so or this end finds it, and
    /// what its response code says.
    pub(crate) fn check_response(
        &self,
        message: &Message<'_>,
        bytes: &[u8],
        request_mac: &[u8; MAC_BYTES],
        now_s: u64,
    ) -> Result<(), Code> {
        let code = response_code(message);
        let Some(record) = message.additionals.last().filter(|last| last.kind == TYPE_TSIG) else {
            // Only a refusal may come unsigned: nothing is believed of it but that there was one.
            return Err(if code == NO_ERROR {
                Code::DnsBadSignature
            } else {
                refusal(code)
            });
        };
        let tsig = Tsig::parse(message.data(record)).map_err(bad)?;
        match tsig.error {
            // Nothing that both know signs these (RFC 8945, section 5.3.2).
            BAD_KEY => return Err(Code::DnsBadKey),
            BAD_SIGNATURE => return Err(Code::DnsBadSignature),
            _ => {}
        }
        let expected = self.response_mac(record, &tsig, bytes, request_mac);
        // The MAC covers both as the standard fixes them.
        let is_plain = record.class == CLASS_ANY && record.ttl_s == 0;
        if !is_plain || record.owner != self.name || !equal(&expected, tsig.mac) {
            return Err(Code::DnsBadSignature);
        }
        if tsig.error == BAD_TIME || !tsig.is_timely(now_s) {
            return Err(Code::DnsBadTime);
        }
        if code != NO_ERROR {
            return Err(refusal(code));
        }
        if tsig.error == NO_ERROR {
            Ok(())
        } else {
            Err(Code::DnsRejected)
        }
    }

    fn response_mac(
        &self,
        record: &Record,
        tsig: &Tsig<'_>,
        bytes: &[u8],
        request_mac: &[u8; MAC_BYTES],
    ) -> [u8; MAC_BYTES] {
        // The message as it was before the record was added.
        let mut message = bytes[..record.start].to_vec();
        message[..2].copy_from_slice(&tsig.original_id);
        let count = u16::from_be_bytes([message[ADDITIONAL_COUNT_AT], message[ADDITIONAL_COUNT_AT + 1]]) - 1;
        message[ADDITIONAL_COUNT_AT..ADDITIONAL_COUNT_AT + 2].copy_from_slice(&count.to_be_bytes());
        let request_mac_len = (MAC_BYTES as u16).to_be_bytes();
        let variables = self.variables(tsig);
        hmac_sha256(
            self.secret,
            &[&request_mac_len, request_mac, &message, &variables],
        )
    }

    /// Returns what is signed besides the message (RFC 8945, section 4.3.3).
    fn variables(&self, tsig: &Tsig<'_>) -> Vec<u8> {
        let mut out = self.name.wire().to_ascii_lowercase();
        put_u16(CLASS_ANY, &mut out);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(ALGORITHM);
        out.extend_from_slice(&tsig.signed_at);
        put_u16(tsig.fudge_s, &mut out);
        put_u16(tsig.error, &mut out);
        put_u16(tsig.other.len() as u16, &mut out);
        out.extend_from_slice(tsig.other);
        out
    }
}

/// Says nothing of the secret
impl fmt::Debug for TsigKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TsigKey")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Tsig<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        if !reader.take(ALGORITHM.len())?.eq_ignore_ascii_case(ALGORITHM) {
            return Err(Malformed);
        }
        let signed_at = reader.array()?;
        let fudge_s = u16::from_be_bytes(reader.array()?);
        let mac = take_counted(&mut reader)?;
        let original_id = reader.array()?;
        let error = u16::from_be_bytes(reader.array()?);
        let other = take_counted(&mut reader)?;
        reader.finish()?;
        Ok(Self {
            signed_at,
            fudge_s,
            mac,
            original_id,
            error,
            other,
        })
    }

    fn data(&self) -> Vec<u8> {
        let mut out = ALGORITHM.to_vec();
        out.extend_from_slice(&self.signed_at);
        put_u16(self.fudge_s, &mut out);
        put_u16(self.mac.len() as u16, &mut out);
        out.extend_from_slice(self.mac);
        out.extend_from_slice(&self.original_id);
        put_u16(self.error, &mut out);
        put_u16(self.other.len() as u16, &mut out);
        out.extend_from_slice(self.other);
        out
    }

    fn is_timely(&self, now_s: u64) -> bool {
        let [a, b, c, d, e, f] = self.signed_at;
        let signed_at_s = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        signed_at_s.abs_diff(now_s) <= u64::from(FUDGE_S)
    }
}

fn take_counted<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = u16::from_be_bytes(reader.array()?);
    reader.take(usize::from(len))
}
