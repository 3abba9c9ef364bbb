//! A file that proves one record.
//!
//! ```text
//! proof file = "selfsame proof 1\n" | length u32 | signed metadata | n u32 | header, body, signature 64 of each epoch record
//!     | header | length u32 | proof | 0, or 1 body
//! ```

use alloc::vec::Vec;
use core::cell::RefCell;

use selfsame_codec::{Code, Field, Reader};

use super::{PROOF, read_epoch};
use crate::authority::Authority;
use crate::authorship::Authorship;
use crate::cache::Verified;
use crate::hash::RecordName;
use crate::header::{Header, HeaderView, MAX_BODY_BYTES};
use crate::keys::Signature;
use crate::metadata::Charter;
use crate::proof::{MAX_PROOF_BYTES, Prover, Writers, headers_of};
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::verifier::Verifier;

/// Longest proof file: metadata, four megabytes of epoch records, a proof and a record.
pub const MAX_PROOF_FILE_BYTES: usize = (4 << 20) + (1 << 16) + MAX_PROOF_BYTES + MAX_BODY_BYTES;

/// What a proof file holds
#[derive(Clone, Copy, Debug)]
pub struct ProofFile<'a> {
    /// Signed metadata.
    pub metadata: &'a [u8],
    /// All epoch records that are known, `header, body, signature 64` one after the other.
    pub epochs: &'a [u8],
    /// The record's header.
    pub header: &'a [u8],
    /// A proof of it that begins with a signature.
    pub proof: &'a [u8],
    /// The record's body, if it is in the file.
    pub body: Option<&'a [u8]>,
}

/// What a proof file proves
#[derive(Clone, Debug)]
pub struct Proven {
    /// The capsule.
    pub charter: Charter,
    /// The record.
    pub name: RecordName,
    /// Its header.
    pub header: Header,
    /// Whether the writer that the header names has signed it, or another writer vouches for it.
    pub authorship: Authorship,
    /// Its body, if it is in the file: sealed where not everybody reads.
    pub body: Option<Vec<u8>>,
    /// The records that lead there, with their encoded headers: the first is signed, each points to the next one, and the last is
    /// the record itself or points to it.
    pub path: Vec<(RecordName, Vec<u8>)>,
}

impl ProofFile<'_> {
    /// The file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(PROOF);
        self.metadata.write(&mut out);
        let mut epochs = Reader::new(self.epochs);
        let mut count = 0_u32;
        while read_epoch(&mut epochs).is_ok() {
            count += 1;
        }
        count.write(&mut out);
        out.extend_from_slice(self.epochs);
        out.extend_from_slice(self.header);
        self.proof.write(&mut out);
        self.body.is_some().write(&mut out);
        out.extend_from_slice(self.body.unwrap_or_default());
        out
    }
}

/// Verifies proof files: those of a capsule after its first in less time, as who writes it is verified once
#[derive(Debug, Default)]
pub struct ProofVerifier {
    trusted: Option<Trusted>,
    signatures: RefCell<Verifier>,
}

/// Metadata and epoch records that were verified
#[derive(Debug)]
struct Trusted {
    encoded: Vec<u8>,
    charter: Charter,
    authority: Authority,
}

/// Who writes a capsule, and whose signatures were verified before
struct Remembering<'a> {
    authority: &'a Authority,
    signatures: &'a RefCell<Verifier>,
}

impl Writers for Remembering<'_> {
    fn check(
        &self,
        header: &HeaderView<'_>,
        name: &RecordName,
        signature: &Signature,
    ) -> core::result::Result<(), Code> {
        let mut signatures = self.signatures.borrow_mut();
        self.authority
            .check_with(&mut signatures, header, name, signature)
    }
}

impl ProofVerifier {
    /// Verifies a file, to its last byte.
    ///
    /// What it cannot tell is whether the writer was revoked after the file was made.
    ///
    /// # Errors
    /// [`Code::BadFile`] for what is no proof file, and what [`Charter::decode`], [`Authority::apply`], [`Prover::verify`] and
    /// [`Record::check`] say, each with the offset in the file.
    pub fn verify(&mut self, file: &[u8]) -> Result<Proven> {
        if file.len() > MAX_PROOF_FILE_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_PROOF_FILE_BYTES));
        }
        let mut cursor = Cursor {
            whole: file.len(),
            reader: Reader::new(file),
        };
        if cursor.take(PROOF.len())? != PROOF {
            return Err(Refusal::new(Code::BadFile, 0));
        }
        let Trusted {
            charter, authority, ..
        } = trust(&mut self.trusted, &mut cursor)?;
        let at = cursor.at();
        let header = HeaderView::read(&mut cursor.reader).map_err(|refusal| refusal.further(at))?;
        let proof: &[u8] = cursor.field()?;
        let name = header.name(charter.hasher());
        let at = cursor.at() - proof.len();
        let writers = Remembering {
            authority,
            signatures: &self.signatures,
        };
        let attribution = Prover::default()
            .verify(charter.hasher(), &writers, &mut Verified::new(0), &name, proof)
            .map_err(|refusal| refusal.further(at))?;
        let body = cursor.body(charter, header)?;
        let path = headers_of(proof)?
            .iter()
            .map(|header| (header.name(charter.hasher()), header.encoded().to_vec()))
            .collect();
        Ok(Proven {
            header: header.to_header(),
            authorship: attribution.authorship(&header),
            charter: charter.clone(),
            name,
            body,
            path,
        })
    }
}

/// Reads who writes the capsule, and verifies it unless the file before said the same.
fn trust<'a>(before: &'a mut Option<Trusted>, cursor: &mut Cursor<'_>) -> Result<&'a Trusted> {
    let begin = cursor.reader.rest();
    let is_known = |trusted: &Trusted| begin.starts_with(&trusted.encoded);
    let trusted = match before.take_if(|trusted| is_known(trusted)) {
        Some(trusted) => {
            cursor.reader = Reader::new(&begin[trusted.encoded.len()..]);
            trusted
        }
        None => {
            let metadata: &[u8] = cursor.field()?;
            let at = cursor.at() - metadata.len();
            let charter = Charter::decode(metadata).map_err(|refusal| refusal.further(at))?;
            let authority = cursor.epochs(&charter)?;
            Trusted {
                encoded: begin[..begin.len() - cursor.reader.rest().len()].to_vec(),
                charter,
                authority,
            }
        }
    };
    Ok(before.insert(trusted))
}

/// Reads and knows where it is
struct Cursor<'a> {
    whole: usize,
    reader: Reader<'a>,
}

impl<'a> Cursor<'a> {
    fn at(&self) -> usize {
        self.whole - self.reader.rest().len()
    }

    fn short(&self) -> Refusal {
        Refusal::new(Code::BadFile, self.at())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        self.reader.take(len).map_err(|_| self.short())
    }

    fn field<T: Field<'a>>(&mut self) -> Result<T> {
        let at = self.at();
        self.reader.field().map_err(|_| Refusal::new(Code::BadFile, at))
    }

    fn epochs(&mut self, charter: &Charter) -> Result<Authority> {
        let mut authority = Authority::new(charter.metadata());
        let count: u32 = self.field()?;
        for _ in 0..count {
            let at = self.at();
            let applied = read_epoch(&mut self.reader).and_then(|(record, signature)| {
                let name = record.check(charter.hasher(), charter.is_sealed())?;
                authority.apply(&name, &record.header, record.body, &signature)
            });
            applied.map_err(|refusal| refusal.further(at))?;
        }
        Ok(authority)
    }

    fn body(&mut self, charter: &Charter, header: HeaderView<'a>) -> Result<Option<Vec<u8>>> {
        if !self.field::<bool>()? {
            return self.end().map(|()| None);
        }
        let at = self.at();
        let body = self.take(header.body_len() as usize)?;
        Record { header, body }
            .check(charter.hasher(), charter.is_sealed())
            .map_err(|refusal| refusal.further(at))?;
        self.end().map(|()| Some(body.to_vec()))
    }

    fn end(&self) -> Result<()> {
        if self.reader.is_empty() {
            Ok(())
        } else {
            Err(self.short())
        }
    }
}
