//! What is signed: records, grants and associations. An input is tried as it came, and once more with its statement
//! signed anew by a key of ours, so that what lies behind the signature is reached as well.

use selfsame_codec::Role;
use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_core::admission::Gate;
use selfsame_core::association::{Association, Leaf, Validity};
use selfsame_core::grant::{Grant, MAX_REVOKED, check_name};
use selfsame_core::identity::{Identity, PeerId, PublicKey};
use selfsame_core::record::{MAX_ADDRESSES, MAX_DOMAIN_BYTES, NodeRecord, addresses_allowed};

use super::Target;
use super::lab::{START_MS, identity, network, owner, owner_grant, record};
use crate::mutate::Shape;

const RECORD_LABEL: &str = "selfsame/1 node record";
const GRANT_LABEL: &str = "selfsame/1 grant";

/// Signed statements of one kind
struct Signed {
    name: &'static str,
    label: &'static str,
    signer: Identity,
    seeds: fn() -> Vec<Vec<u8>>,
    /// Reads bytes and gives the encoding that the value kept, if they are accepted.
    read: fn(&[u8]) -> Option<Vec<u8>>,
}

/// The kinds of signed statements.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    let records = Signed {
        name: "record",
        label: RECORD_LABEL,
        signer: identity(1),
        seeds: || {
            vec![
                record(1, Role::Member).encoded().to_vec(),
                record(1, Role::Leaf).encoded().to_vec(),
            ]
        },
        read: |bytes| {
            let record =
                NodeRecord::decode_verified(&mut Gate::new(network(), None), bytes, START_MS).ok()?;
            assert_eq!(addresses_allowed(record.role(), record.addresses(), true), Ok(()));
            assert!(record.addresses().len() <= MAX_ADDRESSES && record.domain().len() <= MAX_DOMAIN_BYTES);
            Some(record.encoded().to_vec())
        },
    };
    let grants = Signed {
        name: "grant",
        label: GRANT_LABEL,
        signer: owner(),
        seeds: || vec![owner_grant().encoded().to_vec()],
        read: |bytes| {
            let grant = Grant::decode_verified(bytes, &network(), START_MS).ok()?;
            let terms = grant.terms();
            assert_eq!(check_name(&terms.name), Ok(()));
            assert!(grant.permits(&grant.owner(), &terms.name, &terms.peer));
            assert!(terms.expiry_ms > START_MS && terms.revoked.len() <= MAX_REVOKED);
            Some(grant.encoded().to_vec())
        },
    };
    for kind in [&records, &grants] {
        kind.check_label();
    }
    vec![Box::new(records), Box::new(grants), Box::new(Associations)]
}

impl Signed {
    /// The label is written down here a second time: a sound statement that is signed anew with it must verify.
    fn check_label(&self) {
        for seed in (self.seeds)() {
            let again = self.sign_anew(&seed).expect("a signed statement");
            assert_eq!((self.read)(&again), Some(again), "the label of {}", self.name);
        }
    }

    fn sign_anew(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(2).ok()?;
        let statement = decoder.bytes(bytes.len()).ok()?;
        let signature = self.signer.sign(self.label, statement);
        let mut out = Vec::new();
        Encoder::new(&mut out)
            .array(2)
            .bytes(statement)
            .bytes(&signature.0);
        Some(out)
    }
}

impl Target for Signed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn weight(&self) -> usize {
        30
    }

    fn shape(&self) -> Shape {
        Shape::Cbor
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn run(&mut self, input: &[u8]) {
        if let Some(encoded) = (self.read)(input) {
            assert_eq!(encoded, input);
        }
        if let Some(again) = self.sign_anew(input)
            && let Some(encoded) = (self.read)(&again)
        {
            assert_eq!(encoded, again);
        }
    }
}

/// Associations: as they came, and published by us with the leaf that an input describes
struct Associations;

impl Target for Associations {
    fn name(&self) -> &'static str {
        "association"
    }

    fn weight(&self) -> usize {
        30
    }

    fn shape(&self) -> Shape {
        Shape::Cbor
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let owned = Leaf {
            owner: Some(owner().public()),
            grant: owner_grant().encoded().to_vec(),
            ..unowned()
        };
        let leaves = [unowned(), owned, Leaf { r: 1, ..unowned() }];
        let published = Association::publish(&identity(1), &leaves, validity()).expect("sound leaves");
        let mut seeds: Vec<Vec<u8>> = published.iter().map(|found| found.encoded().to_vec()).collect();
        let mut description = Vec::new();
        Encoder::new(&mut description)
            .array(6)
            .uint(3)
            .text("check")
            .uint(1)
            .bool(false)
            .text("2")
            .uint(7);
        seeds.push(description);
        seeds
    }

    fn run(&mut self, input: &[u8]) {
        if let Ok(found) = Association::decode_verified(
            &mut Gate::new(network(), None),
            &|key| Some(PeerId::of(key, &network())),
            input,
            START_MS,
        ) {
            assert_eq!(found.encoded(), input);
            assert_eq!(found.object(), found.leaf().object(&network()));
            assert_eq!(check_name(&found.leaf().name), Ok(()));
            assert!(START_MS < found.validity().expiry_ms);
        }
        let Some((count, leaf)) = described(input) else {
            return;
        };
        let leaves = vec![leaf; count];
        // What we publish others must accept.
        for published in Association::publish(&identity(1), &leaves, validity()).unwrap_or_default() {
            let read = Association::decode_verified(
                &mut Gate::new(network(), None),
                &|key| Some(PeerId::of(key, &network())),
                published.encoded(),
                START_MS,
            );
            assert_eq!(read, Ok(published));
        }
    }
}

/// `[count, name, r, withdrawn, version, weight]`
fn described(input: &[u8]) -> Option<(usize, Leaf)> {
    let mut decoder = Decoder::new(input);
    decoder.array_of(6).ok()?;
    let count = usize::try_from(decoder.uint_max(5).ok()?).ok()?;
    let leaf = Leaf {
        name: decoder.text(input.len()).ok()?.into(),
        r: u8::try_from(decoder.uint().ok()?).ok()?,
        withdrawn: decoder.bool().ok()?,
        version: decoder.text(input.len()).ok()?.into(),
        weight: u16::try_from(decoder.uint().ok()?).ok()?,
        ..unowned()
    };
    decoder.finish().ok()?;
    Some((count, leaf))
}

fn unowned() -> Leaf {
    Leaf {
        salt: [9; 16],
        owner: None::<PublicKey>,
        name: "check".into(),
        r: 0,
        withdrawn: false,
        version: "1".into(),
        weight: 100,
        grant: Vec::new(),
    }
}

fn validity() -> Validity {
    Validity {
        sequence_ms: START_MS,
        not_before_ms: START_MS,
        expiry_ms: START_MS + 60_000,
    }
}
