//! A server that names a record which its writer never made as the only newest one.

use selfsame_capsule::keys::Signature;
use selfsame_capsule::message::{Envelope, Fresh, Operation};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::proof::{Anchor, encode_proof};
use selfsame_capsule::writer::Written;
use selfsame_codec::{Code, Field as _, Reader};

use super::START_MS;
use super::client::server_key;

/// What the server says
#[derive(Clone, Debug)]
pub(crate) struct Lie {
    /// The record that nobody made.
    pub(crate) fabricated: Written,
    /// A record of an accomplice that points to it.
    pub(crate) pointing: Written,
    /// The accomplice's signature of that.
    pub(crate) signature: Signature,
    /// Whether it also says that the record is the newest that the writer who asks has signed.
    pub(crate) is_newest: bool,
}

impl Lie {
    /// The response to a request that only asks; `None` leaves the honest one.
    pub(crate) fn answer(&self, charter: &Charter, message: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader::new(message);
        reader.field::<Envelope>().ok()?;
        let mut response = vec![1];
        0_u16.write(&mut response);
        0_u32.write(&mut response);
        let mut asks_for_news = false;
        while !reader.is_empty() {
            asks_for_news |= self.result(charter, &Operation::read(&mut reader).ok()?, &mut response)?;
        }
        // Nothing is acknowledged.
        response.push(0);
        asks_for_news.then_some(response)
    }

    /// Appends the result of one operation; whether it asks for the newest records or their proof.
    fn result(&self, charter: &Charter, operation: &Operation<'_>, out: &mut Vec<u8>) -> Option<bool> {
        match operation {
            Operation::Introduce(_) => {
                0_u16.write(out);
                Some(false)
            }
            Operation::Epochs { .. } => {
                0_u16.write(out);
                0_u32.write(out);
                0_u16.write(out);
                Some(false)
            }
            Operation::QueryFresh(query) => {
                0_u16.write(out);
                let name = self.fabricated.name;
                let newest = query.writer.filter(|_| self.is_newest).map(|_| name);
                let heads = vec![name];
                Fresh::sign(&server_key(0), &charter.name(), query, newest, heads, START_MS).write(out);
                Some(true)
            }
            Operation::Prove { record } if *record == self.fabricated.name => {
                0_u16.write(out);
                self.proof().as_slice().write(out);
                Some(true)
            }
            Operation::Prove { .. } => {
                Code::Unproven.as_u16().write(out);
                0_u32.write(out);
                Some(false)
            }
            _ => None,
        }
    }

    fn proof(&self) -> Vec<u8> {
        let mut proof = Vec::new();
        let headers = [self.pointing.header.as_slice(), self.fabricated.header.as_slice()];
        encode_proof(&Anchor::Signed(self.signature), headers.into_iter(), &mut proof);
        proof
    }
}
