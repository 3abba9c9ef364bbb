//! A client of a capsule that writes, reads and verifies: requests of many operations, each checked before it is believed.

use core::cell::RefCell;

use bench_pair::Outcome;
use selfsame_capsule::acknowledgement::{Acknowledgement, Stored};
use selfsame_capsule::authority::Authority;
use selfsame_capsule::cache::{DEFAULT_SLOTS_LOG2, Names, Verified};
use selfsame_capsule::epoch::epoch_key;
use selfsame_capsule::hash::{HashKind, HashedHeader, RecordName};
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Operation, SessionId};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::proof::{Prover, Writers};
use selfsame_capsule::record::Record;
use selfsame_capsule::seal::{EpochKey, Place, open_each};
use selfsame_capsule::verifier::Verifier;
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer};
use selfsame_codec::{Code, Field, Malformed, Reader};

use crate::server::Link;
use crate::workload::Random;

/// A session that no server knows: what it proves, it proves from a signature.
const NO_SESSION: SessionId = [0; 16];
const SESSION: SessionId = [7; 16];
/// Slots for the names of signed records, as a power of two, as in the client of the product.
const SIGNED_SLOTS_LOG2: u8 = 14;

/// Who writes the capsule, and whose signatures were verified before: the client of the product remembers them too
struct Remembering {
    authority: Authority,
    signed: RefCell<Names>,
}

impl Writers for Remembering {
    fn check(&self, header: &HeaderView<'_>, name: &RecordName, signature: &Signature) -> Result<(), Code> {
        let mut signed = self.signed.borrow_mut();
        if !signed.contains(&name.0) {
            self.authority.check(header, name, signature)?;
            signed.insert(&name.0);
        }
        Ok(())
    }
}

/// The client of a capsule's owner
pub(crate) struct Client {
    charter: Charter,
    writer: Writer,
    seal: EpochKey,
    authority: Remembering,
    verified: Verified,
    prover: Prover,
    serial: u32,
    random: Random,
    opened: Vec<u8>,
}

/// A request that is being put together
pub(crate) struct Request {
    message: Vec<u8>,
    stored: Stored,
    changes: usize,
}

/// A response that is being read, and what it must acknowledge
pub(crate) struct Response {
    bytes: Vec<u8>,
    at: usize,
    stored: Stored,
}

/// How many headers proofs had
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    /// Altogether.
    pub(crate) sum: u64,
    /// Most of one.
    pub(crate) most: u64,
}

fn malformed(_: Malformed) -> String {
    "the server's response does not decode".into()
}

fn refused(refusal: impl core::fmt::Display) -> String {
    refusal.to_string()
}

impl Client {
    /// Creates the capsule of a number at a server.
    ///
    /// # Errors
    /// What the server refuses, here and in all that follows.
    pub(crate) fn create(number: u32, link: &mut dyn Link) -> Outcome<Self> {
        let mut seed = [1; 32];
        seed[..4].copy_from_slice(&number.to_le_bytes());
        let owner = KeyPair::from_seed(&seed);
        let metadata = Metadata {
            hash: HashKind::Blake3,
            readers: Readers::Granted,
            created_ms: 0,
            salt: [0; 16],
            owner: owner.public(),
            writers: Vec::new(),
            description: "a benchmark".into(),
        };
        let charter = Charter::sign(metadata, &owner).map_err(refused)?;
        let seal = epoch_key(&seed, &charter.name(), 0);
        let pen = Pen {
            number: 0,
            key: owner,
            epoch: 0,
            seal: Some(seal.clone()),
        };
        let mut client = Self {
            writer: Writer::new(charter.clone(), pen, Progress::default()),
            seal,
            authority: Remembering {
                authority: Authority::new(charter.metadata()),
                signed: RefCell::new(Names::new(SIGNED_SLOTS_LOG2)),
            },
            verified: Verified::new(DEFAULT_SLOTS_LOG2),
            prover: Prover::default(),
            serial: 0,
            random: Random::new(u64::from(number)),
            opened: Vec::new(),
            charter,
        };
        let mut request = client.request();
        let metadata = client.charter.encoded();
        Operation::Create { metadata }.write(&mut request.message);
        request.stored.capsule();
        request.changes += 1;
        let response = client.send(request, link)?;
        client.end(response)?;
        Ok(client)
    }

    /// Begins a session anew, nothing verified, with a cache of 2^`slots_log2` slots.
    pub(crate) fn forget(&mut self, slots_log2: u8, link: &mut dyn Link) -> Outcome<()> {
        self.serial = 0;
        self.verified = Verified::new(slots_log2);
        let mut request = self.request();
        Operation::Open { slots_log2 }.write(&mut request.message);
        request.changes += 1;
        let response = self.send(request, link)?;
        self.end(response)
    }

    /// A request of the session.
    pub(crate) fn request(&self) -> Request {
        self.begin(SESSION)
    }

    /// A request whose proofs all begin at a signature.
    pub(crate) fn request_without_session(&self) -> Request {
        self.begin(NO_SESSION)
    }

    fn begin(&self, session: SessionId) -> Request {
        let envelope = Envelope {
            capsule: self.charter.name(),
            session,
            verified: self.serial,
        };
        let mut message = Vec::new();
        envelope.write(&mut message);
        Request {
            message,
            stored: Stored::default(),
            changes: 0,
        }
    }

    /// Writes a record.
    pub(crate) fn write(&mut self, request: &mut Request, content: &[u8]) -> Outcome<RecordName> {
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&self.random.bits().to_le_bytes());
        salt[8..].copy_from_slice(&self.random.bits().to_le_bytes());
        let written = self.writer.write(content, &Backpointers::Shortcuts, &salt);
        let written = written.map_err(refused)?;
        let header = HeaderView::decode(&written.header).map_err(refused)?;
        let body = &written.body;
        let record = Record { header, body };
        Operation::Write { record }.write(&mut request.message);
        request.stored.record(&written.name);
        request.changes += 1;
        Ok(written.name)
    }

    /// Signs the record that was written last, if there is one.
    pub(crate) fn sign(&self, request: &mut Request) {
        let Some(record) = self.writer.progress().parent else {
            return;
        };
        let signature = self.writer.sign(&record);
        Operation::Sign { record, signature }.write(&mut request.message);
        request.stored.signature(&record);
        request.changes += 1;
    }

    /// Sends a request, and checks that what it writes was stored.
    pub(crate) fn send(&mut self, request: Request, link: &mut dyn Link) -> Outcome<Response> {
        link.send((0, request.message.into()))?;
        let (_, bytes) = link.receive()?.ok_or("the server did not answer")?;
        let mut reader = Reader::new(&bytes);
        let (_version, code): (u8, u16) = (
            reader.field().map_err(malformed)?,
            reader.field().map_err(malformed)?,
        );
        if code != 0 {
            return Err(format!("the server refuses: {code}"));
        }
        self.serial = reader.field().map_err(malformed)?;
        for _ in 0..request.changes {
            check_code(&mut reader)?;
        }
        let at = bytes.len() - reader.rest().len();
        Ok(Response {
            bytes,
            at,
            stored: request.stored,
        })
    }

    /// Checks the acknowledgement with which a response ends.
    pub(crate) fn end(&self, response: Response) -> Outcome<()> {
        let mut reader = Reader::new(&response.bytes[response.at..]);
        let is_acknowledged = reader.field::<bool>().map_err(malformed)?;
        if is_acknowledged {
            let word: Acknowledgement = reader.field().map_err(malformed)?;
            if !word.verify(&mut Verifier::default(), &self.charter.name(), &response.stored) {
                return Err("the server's acknowledgement is not of what was written".into());
            }
        }
        if reader.is_empty() && is_acknowledged != response.stored.is_empty() {
            Ok(())
        } else {
            Err("the response does not end as it should".into())
        }
    }

    /// Reads a record: its body is what its header says, its header what its name says, and it opens.
    pub(crate) fn read(&mut self, response: &mut Response, name: &RecordName) -> Outcome<&[u8]> {
        let mut reader = Reader::new(&response.bytes[response.at..]);
        check_code(&mut reader)?;
        let record = Record::read(&mut reader).map_err(refused)?;
        response.at = response.bytes.len() - reader.rest().len();
        if record.check(self.charter.hasher(), true).map_err(refused)? != *name {
            return Err("the server gave another record".into());
        }
        let place = Place {
            capsule: self.charter.name(),
            epoch: record.header.epoch(),
            writer: record.header.writer(),
            sequence: record.header.sequence(),
        };
        self.opened.clear();
        let mut opened = open_each(&self.seal, &[(place, record.body)], &mut self.opened);
        let place = opened.pop().ok_or("it does not open")?.map_err(refused)?;
        Ok(&self.opened[place])
    }

    /// Verifies a proof, and notes how many headers it has.
    pub(crate) fn prove(
        &mut self,
        response: &mut Response,
        name: &RecordName,
        lengths: &mut Lengths,
    ) -> Outcome<()> {
        let mut reader = Reader::new(&response.bytes[response.at..]);
        check_code(&mut reader)?;
        let proof: &[u8] = reader.field().map_err(malformed)?;
        response.at = response.bytes.len() - reader.rest().len();
        let headers = u64::from(u16::from_le_bytes([proof[1], proof[2]]));
        lengths.sum += headers;
        lengths.most = lengths.most.max(headers);
        let hasher = self.charter.hasher();
        self.prover
            .verify(hasher, &self.authority, &mut self.verified, name, proof)
            .map(|_| ())
            .map_err(refused)
    }

    /// Verifies a proof with nothing verified before.
    pub(crate) fn prove_alone(
        &mut self,
        response: &mut Response,
        name: &RecordName,
        lengths: &mut Lengths,
        nothing: &mut Verified,
    ) -> Outcome<()> {
        nothing.clear();
        core::mem::swap(&mut self.verified, nothing);
        let proven = self.prove(response, name, lengths);
        core::mem::swap(&mut self.verified, nothing);
        proven
    }

    /// Hashes a header as often as there are records, for comparison.
    pub(crate) fn hash(&self, header: HashedHeader<'_>) -> RecordName {
        self.charter.hasher().record_name(header)
    }
}

impl Request {
    /// Asks for a record.
    pub(crate) fn read(&mut self, record: &RecordName) {
        Operation::Read { record: *record }.write(&mut self.message);
    }

    /// Asks for a proof.
    pub(crate) fn prove(&mut self, record: &RecordName) {
        Operation::Prove { record: *record }.write(&mut self.message);
    }
}

fn check_code(reader: &mut Reader<'_>) -> Outcome<()> {
    match reader.field::<u16>().map_err(malformed)? {
        0 => Ok(()),
        code => Err(format!("the server refuses an operation: {code}")),
    }
}
