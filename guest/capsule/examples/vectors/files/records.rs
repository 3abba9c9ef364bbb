//! Headers, names and signatures of records, and proofs.

use super::single::WriteOne as _;
use selfsame_capsule::authority::Authority;
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::header::{Header, HeaderView, RecordKind};
use selfsame_capsule::keys::Signature;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::{Anchor, Prover, Writers as _, encode_proof};
use selfsame_capsule::writer::{Backpointers, Written};

use super::fixture::{
    OWNER, SALT, WRITER, capsule, chained, changed, cut, hexes, keys, list, longer, open_capsule, refused,
    refused_code, view, writer,
};
use super::json::{Json, hex, number, text};

const LABEL: &str = "selfsame/1 capsule record";

pub(super) fn vectors() -> Json {
    let charter = open_capsule();
    Json::Object(vec![
        ("metadata", hex(charter.encoded())),
        (
            "metadata_sha256",
            hex(capsule(HashKind::Sha256, Readers::Everybody).encoded()),
        ),
        ("owner_seed", hex(&OWNER)),
        ("writer_seed", hex(&WRITER)),
        ("records", records()),
        ("refused_headers", refused_headers()),
        ("refused_signatures", refused_signatures(&charter)),
        ("proofs", proofs(&charter)),
    ])
}

/// Headers of every kind and of all lengths that are special.
fn headers() -> Vec<(&'static str, Header)> {
    let header = |kind, backpointers: usize| Header {
        kind,
        writer: 1,
        epoch: 2,
        sequence: 3,
        body_len: 4,
        body: [5; 32],
        backpointers: (0..backpointers).map(|at| RecordName([at as u8; 32])).collect(),
    };
    let last = Header {
        writer: u16::MAX,
        epoch: u32::MAX,
        sequence: (1 << 53) - 1,
        body_len: 1 << 20,
        ..header(RecordKind::Plain, 32)
    };
    vec![
        ("the first record of a branch", header(RecordKind::Plain, 0)),
        ("sub-records", header(RecordKind::Tree, 1)),
        ("an epoch record", header(RecordKind::Epoch, 2)),
        ("32 backpointers and the largest fields", last),
    ]
}

fn encoded(header: &Header) -> Vec<u8> {
    let mut out = Vec::new();
    header.encode(&mut out);
    out
}

fn records() -> Json {
    let hashes = [HashKind::Blake3, HashKind::Sha256];
    let capsules = hashes.map(|hash| capsule(hash, Readers::Everybody));
    list(headers().iter().map(|(what, header)| {
        let encoded = encoded(header);
        let names = capsules.each_ref().map(|charter| name_of(charter, &encoded));
        Json::Object(vec![
            ("what", text(*what)),
            ("kind", number(header.kind as u64)),
            ("writer", number(header.writer)),
            ("epoch", number(header.epoch)),
            ("sequence", number(header.sequence)),
            ("body_length", number(header.body_len)),
            ("body_hash", hex(&header.body)),
            (
                "backpointers",
                hexes(header.backpointers.iter().map(|name| name.0)),
            ),
            ("header", hex(&encoded)),
            ("name", hex(&names[0].0)),
            ("name_sha256", hex(&names[1].0)),
            ("signature", hex(&keys(&WRITER).sign(LABEL, &names[0].0).0)),
        ])
    }))
}

fn name_of(charter: &Charter, header: &[u8]) -> RecordName {
    let view = HeaderView::decode(header).expect("a right header");
    view.name(charter.hasher())
}

fn refused_headers() -> Json {
    let (_, header) = headers().swap_remove(1);
    let right = encoded(&header);
    let set = |at: usize, value: u8| {
        let mut wrong = right.clone();
        wrong[at] = value;
        wrong
    };
    let cases = [
        ("it ends early", cut(&right).to_vec()),
        ("a byte follows", longer(&right)),
        ("kind 0", set(1, 0)),
        ("kind 4", set(1, 4)),
        ("one backpointer more than there are", set(0, 2)),
        ("33 backpointers", [&[33], &right[1..52], &[7; 33 * 32]].concat()),
        ("a body of 2^20 + 4 bytes", set(18, 16)),
        ("nothing", Vec::new()),
    ];
    list(cases.iter().map(|(what, header)| {
        Json::Object(vec![
            ("what", text(*what)),
            ("header", hex(header)),
            ("code", refused(what, HeaderView::decode(header))),
        ])
    }))
}

fn refused_signatures(charter: &Charter) -> Json {
    let written = chained(&mut writer(charter, 1, None), b"signed");
    let other = capsule(HashKind::Sha256, Readers::Everybody);
    let elsewhere = name_of(&other, &written.header);
    let by = |seed: &[u8; 32], label, name: &RecordName| keys(seed).sign(label, &name.0);
    let right = by(&WRITER, LABEL, &written.name);
    let (bad, nobody) = (changed(&right.0, 0), by(&[99; 32], LABEL, &written.name));
    let bad = Signature(bad.try_into().expect("64 bytes"));
    let stranger = Header {
        writer: 7,
        ..view(&written).to_header()
    };
    let header = written.header.as_slice();
    let unknown = encoded(&stranger);
    let other_label = by(&WRITER, "selfsame/1 capsule metadata", &written.name);
    let cases = [
        ("one byte is another", header, bad),
        ("another label", header, other_label),
        (
            "the name that it has in another capsule",
            header,
            by(&WRITER, LABEL, &elsewhere),
        ),
        (
            "the owner's, of a writer's record",
            header,
            by(&OWNER, LABEL, &written.name),
        ),
        ("a stranger's", header, nobody),
        ("a writer that does not exist", &unknown, right),
    ];
    let authority = Authority::new(charter.metadata());
    list(cases.into_iter().map(|(what, header, signature)| {
        let view = HeaderView::decode(header).expect("a right header");
        let checked = authority.check(&view, &view.name(charter.hasher()), &signature);
        Json::Object(vec![
            ("what", text(what)),
            ("header", hex(header)),
            ("signature", hex(&signature.0)),
            ("code", refused_code(what, checked)),
        ])
    }))
}

/// A record of writer 1's, two of the owner's behind it, and one of the owner's that points to a record which names writer 1.
struct Log {
    theirs: Written,
    first: Written,
    last: Written,
    signature: Signature,
}

impl Log {
    fn new(charter: &Charter) -> Self {
        let theirs = chained(&mut writer(charter, 1, None), b"theirs");
        let mut owner = writer(charter, 0, None);
        let pointing = Backpointers::Own(vec![theirs.name]);
        let first = owner.write(b"first", &pointing, &SALT).expect("it is small");
        let last = chained(&mut owner, b"last");
        let signature = owner.sign(&last.name);
        Self {
            theirs,
            first,
            last,
            signature,
        }
    }

    fn proof(&self, headers: &[&Written]) -> Vec<u8> {
        let mut out = Vec::new();
        let headers: Vec<&[u8]> = headers.iter().map(|record| record.header.as_slice()).collect();
        encode_proof(&Anchor::Signed(self.signature), headers.into_iter(), &mut out);
        out
    }
}

fn verify(charter: &Charter, record: &RecordName, proof: &[u8]) -> selfsame_capsule::Result<Authorship> {
    let authority = Authority::new(charter.metadata());
    let headers = selfsame_capsule::proof::headers_of(proof)?;
    let mut nothing = Verified::new(0);
    let proven = Prover::default().verify(charter.hasher(), &authority, &mut nothing, record, proof)?;
    Ok(proven.authorship(headers.last().expect("the record's own header")))
}

fn proofs(charter: &Charter) -> Json {
    let log = Log::new(charter);
    let whole = log.proof(&[&log.last, &log.first, &log.theirs]);
    let accepted = [
        ("the signed record itself", &log.last, log.proof(&[&log.last])),
        ("one step", &log.first, log.proof(&[&log.last, &log.first])),
        ("another writer vouches", &log.theirs, whole.clone()),
    ];
    let accepted = list(accepted.into_iter().map(|(what, record, proof)| {
        let (kind, signer) = match verify(charter, &record.name, &proof).expect(what) {
            Authorship::SignedBy(signer) => ("signed by", signer),
            Authorship::VouchedForBy(signer) => ("vouched for by", signer),
        };
        Json::Object(vec![
            ("what", text(what)),
            ("record", hex(&record.name.0)),
            ("proof", hex(&proof)),
            ("authorship", text(kind)),
            ("signer", number(signer)),
        ])
    }));
    Json::Object(vec![
        ("accepted", accepted),
        ("refused", refused_proofs(charter, &log, &whole)),
    ])
}

fn refused_proofs(charter: &Charter, log: &Log, whole: &[u8]) -> Json {
    let headers: Vec<&[u8]> = vec![&log.last.header, &log.first.header, &log.theirs.header];
    let mut cached = Vec::new();
    encode_proof(&Anchor::Verified, headers.into_iter(), &mut cached);
    let mut anchor = whole.to_vec();
    anchor[0] = 3;
    let unsigned = whole[..whole.len() - 64].to_vec();
    let signature = whole.len() - 1;
    let cases = [
        ("it ends early", cut(whole).to_vec()),
        ("a byte follows", longer(whole)),
        ("anchor 3", anchor),
        ("it has no signature", unsigned),
        ("one byte of the signature is another", changed(whole, signature)),
        // The first body hash lies behind anchor, count and the 20 bytes before it in its header.
        ("one byte of the first header is another", changed(whole, 3 + 20)),
        ("a header is left out", log.proof(&[&log.last, &log.theirs])),
        ("it leads elsewhere", log.proof(&[&log.last])),
        ("an anchor that was never verified", cached),
    ];
    list(cases.into_iter().map(|(what, proof)| {
        let mut nothing = Verified::new(0);
        let authority = Authority::new(charter.metadata());
        let outcome = Prover::default().verify(
            charter.hasher(),
            &authority,
            &mut nothing,
            &log.theirs.name,
            &proof,
        );
        Json::Object(vec![
            ("what", text(what)),
            ("record", hex(&log.theirs.name.0)),
            ("proof", hex(&proof)),
            ("code", refused(what, outcome)),
        ])
    }))
}
