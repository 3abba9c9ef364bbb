//! Files of whole capsules, and files that prove one record.

use super::single::WriteOne as _;
use selfsame_capsule::Result;
use selfsame_capsule::epoch::{Added, EpochChange, epoch_key};
use selfsame_capsule::file::{Exporter, Plan, ProofFile, ProofVerifier, Summary, Verifier};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::Signature;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::{Anchor, encode_proof};
use selfsame_capsule::seal::EpochKey;
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer, Written};

use super::fixture::{
    OWNER, SALT, WRITER, capsule, chained, changed, cut, keys, list, longer, public, record, refused, view,
    writer,
};
use super::json::{Json, hex, number, text};

/// The seed of the writer whom the epoch record adds.
const JOINED: [u8; 32] = [17; 32];

pub(super) fn vectors() -> Json {
    let built = Built::new(capsule(HashKind::Blake3, Readers::Granted), &OWNER);
    Json::Object(vec![
        ("owner_seed", hex(&OWNER)),
        ("writer_seed", hex(&WRITER)),
        ("joined_seed", hex(&JOINED)),
        ("exports", list(exports(&built))),
        ("refused_exports", refused_exports(&built)),
        ("proof_files", proof_files(&built)),
    ])
}

/// A record, and its signature if it is a head or an epoch record.
type Kept = (Written, Option<Signature>);

/// A capsule of an epoch record, branches that are merged, two heads, and sub-records.
struct Built {
    charter: Charter,
    epochs: Vec<Kept>,
    records: Vec<Kept>,
}

impl Built {
    /// As `signer` signs it, who is the owner in what is right.
    fn new(charter: Charter, signer: &[u8; 32]) -> Self {
        let seal = charter.is_sealed().then(|| epoch_key(&OWNER, &charter.name(), 0));
        let mut owner = writer(&charter, 0, seal.clone());
        let change = EpochChange {
            added: vec![Added {
                number: 2,
                key: public(&JOINED),
            }],
            ..EpochChange::default()
        };
        let epoch = owner.begin_epoch(change.encode(), 0, seal.clone(), Vec::new());
        let epoch = epoch.expect("it is small");
        let parts: [&[u8]; 5] = [b"five", b"sub-records", b"in", b"one", b"record"];
        let tree = owner
            .commit(&parts, &Backpointers::Chain, &SALT)
            .expect("it is small");
        let (theirs, branch, branch_signature) = branches(&charter, seal, &tree);
        let merging = Backpointers::Own(vec![theirs.name]);
        let merge = owner.write(b"merge", &merging, &SALT).expect("it is small");
        let sign = |record: &Written| selfsame_capsule::authority::sign_record(&keys(signer), &record.name);
        let (epoch_signature, merge_signature) = (owner.sign(&epoch.name), sign(&merge));
        Self {
            charter,
            epochs: vec![(epoch.clone(), Some(epoch_signature))],
            records: vec![
                (epoch, Some(epoch_signature)),
                (tree, None),
                (theirs, None),
                (branch, Some(branch_signature)),
                (merge, Some(merge_signature)),
            ],
        }
    }

    fn epoch(&self) -> &Kept {
        &self.epochs[0]
    }

    fn merge(&self) -> &Kept {
        &self.records[4]
    }

    /// The capsule without the record that both heads lead to.
    fn with_a_hole(&self) -> Self {
        let mut records = self.records.clone();
        records.remove(1);
        Self {
            charter: self.charter.clone(),
            epochs: self.epochs.clone(),
            records,
        }
    }

    /// The file that the crate makes of it.
    fn export(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut exporter = Exporter::new(self.charter.clone(), self.epochs.len() as u32, &mut out);
        for (written, signature) in &self.epochs {
            // Epoch records stand before all others, as they are.
            out.extend(
                [
                    written.header.as_slice(),
                    &written.body,
                    &signature.expect("it is signed").0,
                ]
                .concat(),
            );
        }
        for (written, signature) in self.ordered() {
            let given = exporter.record(&record(written), signature.as_ref(), &mut out);
            given.expect("it is its turn");
        }
        exporter.finish(&mut out);
        out
    }

    fn ordered(&self) -> Vec<&Kept> {
        let mut plan = Plan::new();
        for (written, _) in &self.records {
            plan.add(written.name, &view(written)).expect("they are few");
        }
        let mut order = Vec::new();
        while let Some(name) = plan.next_record() {
            let kept = self.records.iter().find(|(written, _)| written.name == name);
            let kept = kept.expect("a record of the plan");
            plan.came(&view(&kept.0));
            order.push(kept);
        }
        order
    }
}

/// Two records of writer 2 behind the tree, of which the second is a head, and a head of writer 1 behind the first of them.
fn branches(charter: &Charter, seal: Option<EpochKey>, tree: &Written) -> (Written, Written, Signature) {
    let pen = Pen {
        number: 2,
        key: keys(&JOINED),
        epoch: 0,
        seal: seal.clone(),
    };
    let mut joined = Writer::new(charter.clone(), pen, Progress::default());
    joined.follow(tree.name);
    let theirs = chained(&mut joined, b"theirs");
    let mut first = writer(charter, 1, seal);
    first.follow(theirs.name);
    let branch = chained(&mut first, b"branch");
    let signature = first.sign(&branch.name);
    (theirs, branch, signature)
}

const END: u8 = 0;
const INNER: u8 = 1;
const HEAD: u8 = 2;
const EPOCH: u8 = 3;

/// An export as it is written down, so that wrong ones can be as well.
#[derive(Clone)]
struct File {
    magic: Vec<u8>,
    metadata: Vec<u8>,
    epochs: Vec<Kept>,
    entries: Vec<(u8, Kept)>,
    records: u64,
    holes: Vec<[u8; 32]>,
}

impl File {
    fn of(built: &Built) -> Self {
        let all: Vec<_> = built.ordered().into_iter().cloned().collect();
        let is_there = |name| all.iter().any(|(written, _)| written.name == name);
        let pointers: Vec<_> = all
            .iter()
            .flat_map(|(written, _)| view(written).to_header().backpointers)
            .collect();
        let mut holes: Vec<[u8; 32]> = pointers
            .iter()
            .filter(|name| !is_there(**name))
            .map(|name| name.0)
            .collect();
        holes.sort_unstable();
        holes.dedup();
        let kind = |kept: &Kept| {
            let is_epoch = built.epochs.iter().any(|(epoch, _)| epoch.name == kept.0.name);
            match (is_epoch, pointers.contains(&kept.0.name)) {
                (true, _) => EPOCH,
                (_, true) => INNER,
                (_, false) => HEAD,
            }
        };
        Self {
            magic: b"selfsame capsule 1\n".to_vec(),
            metadata: built.charter.encoded().to_vec(),
            epochs: built.epochs.clone(),
            records: all.len() as u64,
            entries: all.iter().map(|kept| (kind(kept), kept.clone())).collect(),
            holes,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.magic.clone();
        out.extend_from_slice(&(self.metadata.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.metadata);
        out.extend_from_slice(&(self.epochs.len() as u32).to_le_bytes());
        for (written, signature) in &self.epochs {
            out.extend_from_slice(&written.header);
            out.extend_from_slice(&written.body);
            out.extend_from_slice(&signature.expect("it is signed").0);
        }
        for (kind, (written, signature)) in &self.entries {
            out.push(*kind);
            out.extend_from_slice(&written.header);
            if *kind == HEAD {
                out.extend_from_slice(&signature.unwrap_or(Signature([0; 64])).0);
            }
            if *kind != EPOCH {
                out.extend_from_slice(&written.body);
            }
        }
        out.push(END);
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&(self.holes.len() as u32).to_le_bytes());
        self.holes.iter().for_each(|hole| out.extend_from_slice(hole));
        out
    }
}

fn verify(file: &[u8]) -> Result<Summary> {
    let mut verifier = Verifier::default();
    let read = verifier.push(file, &mut |_| {}).and_then(|()| verifier.finish());
    read.map_err(|damage| selfsame_capsule::Refusal::new(damage.code, damage.at as usize))
}

fn exports(built: &Built) -> Vec<Json> {
    let empty = Built {
        charter: capsule(HashKind::Blake3, Readers::Everybody),
        epochs: Vec::new(),
        records: Vec::new(),
    };
    let of_sha256 = Built::new(capsule(HashKind::Sha256, Readers::Everybody), &OWNER);
    let hole = built.with_a_hole();
    let cases = [
        ("a capsule without records", &empty),
        ("an epoch record, branches and sub-records", built),
        ("SHA-256, bodies that everybody reads", &of_sha256),
        ("a record that is pointed to is missing", &hole),
    ];
    cases.map(|(what, built)| exported(what, built)).into()
}

fn exported(what: &str, built: &Built) -> Json {
    let file = built.export();
    assert_eq!(
        file,
        File::of(built).encode(),
        "the layout of this file is the crate's"
    );
    let summary = verify(&file).expect(what);
    let kept = |(written, signature): &Kept| {
        Json::Object(vec![
            ("header", hex(&written.header)),
            ("body", hex(&written.body)),
            (
                "signature",
                signature.map_or(Json::Null, |signature| hex(&signature.0)),
            ),
        ])
    };
    Json::Object(vec![
        ("what", text(what)),
        ("metadata", hex(built.charter.encoded())),
        ("epochs", list(built.epochs.iter().map(kept))),
        ("records", list(built.records.iter().map(kept))),
        ("file", hex(&file)),
        ("count", number(summary.records)),
        ("holes", number(summary.holes)),
    ])
}

/// Where an entry of a kind stands.
fn place_of(file: &File, kind: u8) -> usize {
    let place = file.entries.iter().position(|(other, _)| *other == kind);
    place.expect("there is one")
}

/// What makes a file wrong.
type Change = (&'static str, fn(&mut File));

fn changes() -> Vec<Change> {
    vec![
        ("it begins otherwise", |file| file.magic[17] = b'2'),
        ("one byte of the metadata is another", |file| {
            file.metadata[20] ^= 1
        }),
        ("the epoch record's signature is another", |file| {
            file.epochs[0].1 = Some(Signature([0; 64]));
        }),
        ("the epoch record's body is another", |file| {
            *file.epochs[0].0.body.last_mut().expect("a body") ^= 1;
        }),
        ("an epoch record is not among the entries", |file| {
            file.entries.remove(place_of(file, EPOCH));
            file.records -= 1;
        }),
        ("an epoch record is among the entries alone", |file| {
            file.epochs.clear()
        }),
        ("two heads in the other order", |file| file.entries.swap(0, 1)),
        ("a record before one that points to it", |file| {
            let inner = place_of(file, INNER);
            let entry = file.entries.remove(inner);
            file.entries.insert(0, entry);
        }),
        ("a record twice", |file| {
            let entry = file.entries[0].clone();
            file.entries.insert(0, entry);
            file.records += 1;
        }),
        ("a head is left out and counted", |file| {
            _ = file.entries.remove(0)
        }),
        ("a head without a signature", |file| file.entries[0].0 = INNER),
        ("a signature of a record that another points to", |file| {
            let inner = place_of(file, INNER);
            file.entries[inner].0 = HEAD;
        }),
        ("one byte of a head's signature is another", |file| {
            if let Some(signature) = &mut file.entries[0].1.1 {
                signature.0[0] ^= 1;
            }
        }),
        ("one byte of a body is another", |file| {
            *file.entries[0].1.0.body.last_mut().expect("a body") ^= 1;
        }),
        ("another number of records", |file| file.records += 1),
        ("a hole that is none", |file| file.holes.push([0; 32])),
    ]
}

fn refused_exports(built: &Built) -> Json {
    let right = File::of(built);
    let hole = File::of(&built.with_a_hole());
    let mut cases: Vec<(&str, Vec<u8>)> = changes()
        .into_iter()
        .map(|(what, change)| {
            let mut file = right.clone();
            change(&mut file);
            (what, file.encode())
        })
        .collect();
    let other_hole = File {
        holes: vec![[7; 32]],
        ..hole.clone()
    };
    let no_hole = File {
        holes: Vec::new(),
        ..hole
    };
    let whole = right.encode();
    let other_signer = File::of(&Built::new(built.charter.clone(), &WRITER));
    let mut kind = whole.clone();
    let epochs: usize = right
        .epochs
        .iter()
        .map(|(it, _)| it.header.len() + it.body.len() + 64)
        .sum();
    kind[19 + 4 + right.metadata.len() + 4 + epochs] = 4;
    cases.extend([
        ("another writer signs a head", other_signer.encode()),
        ("another label", with_another_label(built, &right).encode()),
        ("another hole", other_hole.encode()),
        ("a hole is not named", no_hole.encode()),
        ("an entry of kind 4", kind),
        ("it ends early", cut(&whole).to_vec()),
        ("a byte follows", longer(&whole)),
        ("nothing", Vec::new()),
    ]);
    list(cases.into_iter().map(|(what, file)| {
        Json::Object(vec![
            ("what", text(what)),
            ("file", hex(&file)),
            ("code", refused(what, verify(&file))),
        ])
    }))
}

/// The file with a head that is signed under the label of metadata.
fn with_another_label(built: &Built, right: &File) -> File {
    let (merge, _) = built.merge();
    let signature = keys(&OWNER).sign("selfsame/1 capsule metadata", &merge.name.0);
    let mut file = right.clone();
    for (_, (written, given)) in &mut file.entries {
        if written.name == merge.name {
            *given = Some(signature);
        }
    }
    file
}

/// Proof files of the record that the merge leads to, which writer 2 made.
fn proof_files(built: &Built) -> Json {
    let (epoch, epoch_signature) = built.epoch();
    let (merge, signature) = built.merge();
    let theirs = &built.records[2].0;
    let mut proof = Vec::new();
    let headers = [merge.header.as_slice(), theirs.header.as_slice()];
    let anchor = Anchor::Signed(signature.expect("it is a head"));
    encode_proof(&anchor, headers.into_iter(), &mut proof);
    let epochs = [
        &epoch.header[..],
        &epoch.body,
        &epoch_signature.expect("it is signed").0,
    ]
    .concat();
    let file = |body| {
        ProofFile {
            metadata: built.charter.encoded(),
            epochs: &epochs,
            header: &theirs.header,
            proof: &proof,
            body,
        }
        .encode()
    };
    let whole = file(Some(theirs.body.as_slice()));
    let accepted = [("with its body", whole.clone()), ("without its body", file(None))];
    let accepted = accepted.map(|(what, file)| {
        let proven = ProofVerifier::default().verify(&file).expect(what);
        assert!(!proven.authorship.is_signed(), "the owner vouches for it");
        Json::Object(vec![
            ("what", text(what)),
            ("file", hex(&file)),
            ("capsule", hex(&proven.charter.name().0)),
            ("record", hex(&proven.name.0)),
            ("vouched_for_by", number(0_u8)),
            ("body", proven.body.map_or(Json::Null, |body| hex(&body))),
            ("path", list(proven.path.iter().map(|(name, _)| hex(&name.0)))),
        ])
    });
    Json::Object(vec![
        ("accepted", list(accepted)),
        (
            "refused",
            refused_proof_files(&whole, &file(None), theirs.body.len()),
        ),
    ])
}

fn refused_proof_files(whole: &[u8], without_body: &[u8], body: usize) -> Json {
    let mut says_a_body = without_body.to_vec();
    *says_a_body.last_mut().expect("a byte") = 1;
    let mut neither = without_body.to_vec();
    *neither.last_mut().expect("a byte") = 2;
    // Before the body there is one byte, and before that the proof ends with the signature.
    let signature = whole.len() - body - 2;
    let cases = [
        ("it begins otherwise", changed(whole, 15)),
        ("one byte of the body is another", changed(whole, whole.len() - 1)),
        ("one byte of the signature is another", changed(whole, signature)),
        ("it ends early", cut(whole).to_vec()),
        ("a byte follows", longer(whole)),
        ("it has no body and says so not", says_a_body),
        ("neither 0 nor 1 before the body", neither),
        ("nothing", Vec::new()),
    ];
    list(cases.into_iter().map(|(what, file)| {
        Json::Object(vec![
            ("what", text(what)),
            ("file", hex(&file)),
            ("code", refused(what, ProofVerifier::default().verify(&file))),
        ])
    }))
}
