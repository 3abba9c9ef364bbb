//! Who writes and who reads: the owner's epoch records, grants and revocations.

use crate::common::single::WriteOne as _;
use core::ops::Range;

use crate::common::{OWNER_SEED, charter_of, owner, view, writer};
use selfsame_capsule::Refusal;
use selfsame_capsule::authority::{Authority, OWNER, sign_record};
use selfsame_capsule::epoch::{Added, EpochChange, Grant, MAX_ACCEPTED, ReaderKeys, Revoked, epoch_key};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::Writers;
use selfsame_capsule::seal::{EpochKey, Place, Unsealed, open_each, seal_each};
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::Code;

fn alice() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

fn bob() -> KeyPair {
    KeyPair::from_seed(&[3; 32])
}

struct Capsule {
    charter: Charter,
    authority: Authority,
    owner: Writer,
    last: Option<RecordName>,
}

impl Capsule {
    /// Alice is writer 1.
    fn new() -> Self {
        let charter = charter_of(HashKind::Blake3, Readers::Granted, vec![alice().public()]);
        let seal = epoch_key(&OWNER_SEED, &charter.name(), 0);
        Self {
            authority: Authority::new(charter.metadata()),
            owner: writer(&charter, OWNER, owner(), Some(seal)),
            charter,
            last: None,
        }
    }

    fn make(&mut self, epoch: u32, change: &EpochChange, also: &[RecordName]) -> Written {
        let pointers = self.last.iter().chain(also).copied().collect();
        let seal = epoch_key(&OWNER_SEED, &self.charter.name(), epoch);
        let written = self
            .owner
            .begin_epoch(change.encode(), epoch, Some(seal), pointers);
        written.expect("it is small")
    }

    fn apply(&mut self, written: &Written) -> Result<EpochChange, Code> {
        let signature = self.owner.sign(&written.name);
        let change = self
            .authority
            .apply(&written.name, &view(written), &written.body, &signature);
        if change.is_ok() {
            self.last = Some(written.name);
        }
        change.map_err(|refusal| refusal.code)
    }

    fn check(&self, written: &Written, key: &KeyPair) -> Result<(), Code> {
        self.authority
            .check(&view(written), &written.name, &sign_record(key, &written.name))
    }
}

fn adding(number: u16, key: &KeyPair) -> EpochChange {
    EpochChange {
        added: vec![Added {
            number,
            key: key.public(),
        }],
        ..EpochChange::default()
    }
}

fn revoking(number: u16, heads: &[RecordName]) -> EpochChange {
    EpochChange {
        revoked: vec![Revoked {
            number,
            heads: heads.to_vec(),
        }],
        ..EpochChange::default()
    }
}

fn record_of(capsule: &Capsule, number: u16, key: KeyPair) -> Written {
    writer(&capsule.charter, number, key, None)
        .write(b"content", &Backpointers::Chain, &[0; 16])
        .expect("it is small")
}

#[test]
fn writers_join_and_leave_as_the_owner_says() {
    let mut capsule = Capsule::new();
    let (of_alice, of_bob) = (record_of(&capsule, 1, alice()), record_of(&capsule, 2, bob()));
    assert_eq!(capsule.check(&of_alice, &alice()), Ok(()));
    assert_eq!(capsule.check(&of_alice, &bob()), Err(Code::BadSignature));
    assert_eq!(capsule.check(&of_bob, &bob()), Err(Code::NotAWriter));

    let joins = capsule.make(0, &adding(2, &bob()), &[]);
    assert!(capsule.apply(&joins).is_ok());
    assert_eq!(capsule.check(&of_bob, &bob()), Ok(()));
    assert_eq!(capsule.authority.number_of(&bob().public()), Some(2));

    let leaves = capsule.make(1, &revoking(1, &[of_alice.name]), &[of_alice.name]);
    assert!(capsule.apply(&leaves).is_ok());
    // Not even what she wrote before counts by her signature: what the owner accepts is proven by the owner's.
    assert_eq!(capsule.check(&of_alice, &alice()), Err(Code::RevokedWriter));
    assert_eq!(capsule.authority.number_of(&alice().public()), None);
    assert_eq!(capsule.authority.epoch(), 1);
    assert!(view(&leaves).points_to(&of_alice.name));
}

#[test]
fn an_epoch_record_that_does_not_fit_changes_nothing() {
    let mut capsule = Capsule::new();
    let first = capsule.make(0, &adding(2, &bob()), &[]);
    assert!(capsule.apply(&first).is_ok());
    let head = record_of(&capsule, 1, alice()).name;
    let wrong: [(u32, EpochChange, &[RecordName]); 7] = [
        // A number or key that somebody has.
        (1, adding(2, &KeyPair::from_seed(&[9; 32])), &[]),
        (1, adding(5, &alice()), &[]),
        // The owner, or nobody, revoked.
        (1, revoking(OWNER, &[]), &[]),
        (1, revoking(77, &[]), &[]),
        // Whoever is revoked would know the key that goes on.
        (0, revoking(1, &[]), &[]),
        // A head that the epoch record does not point to.
        (1, revoking(1, &[head]), &[]),
        // An epoch left out.
        (2, EpochChange::default(), &[]),
    ];
    for (index, (epoch, change, also)) in wrong.iter().enumerate() {
        let written = capsule.make(*epoch, change, also);
        assert_eq!(capsule.apply(&written), Err(Code::BadEpoch), "case {index}");
    }
    // One that does not follow the last one, and one that is applied again.
    capsule.last = None;
    let unlinked = capsule.make(1, &EpochChange::default(), &[]);
    assert_eq!(capsule.apply(&unlinked), Err(Code::BadEpoch));
    assert_eq!(capsule.apply(&first), Err(Code::BadEpoch));
    // Somebody else's.
    capsule.last = Some(first.name);
    let next = capsule.make(1, &EpochChange::default(), &[]);
    let forged = sign_record(&alice(), &next.name);
    let refused = capsule
        .authority
        .apply(&next.name, &view(&next), &next.body, &forged);
    assert_eq!(
        refused.expect_err("alice is not the owner").code,
        Code::BadSignature
    );
    assert_eq!(capsule.authority.epoch(), 0);
    assert!(capsule.apply(&next).is_ok());
}

#[test]
fn a_body_that_is_cut_or_too_long_is_refused_where_it_ends() {
    let change = EpochChange {
        added: adding(4, &bob()).added,
        revoked: revoking(1, &[RecordName([7; 32]); MAX_ACCEPTED]).revoked,
        grants: Vec::new(),
    };
    let body = change.encode();
    assert_eq!(EpochChange::decode(&body), Ok(change.clone()));
    for len in 0..body.len() {
        let refusal = EpochChange::decode(&body[..len]).expect_err("it is cut");
        assert_eq!(refusal.code, Code::BadEpoch);
        assert!(refusal.at as usize <= len);
    }
    assert!(EpochChange::decode(&[body.as_slice(), &[0]].concat()).is_err());
    let too_many = revoking(1, &[RecordName([7; 32]); MAX_ACCEPTED + 1]);
    assert!(EpochChange::decode(&too_many.encode()).is_err());
}

#[test]
fn a_grant_opens_for_its_reader_capsule_and_epoch() {
    let capsule = Capsule::new();
    let name = capsule.charter.name();
    let (reader, other) = (ReaderKeys::from_seed(&[5; 32]), ReaderKeys::from_seed(&[6; 32]));
    let key = epoch_key(&OWNER_SEED, &name, 3);
    let grant = Grant::seal(&name, 3, &key, reader.public(), &[8; 64]).expect("the key is one");
    assert_eq!(grant.reader, *reader.id());
    let opened = reader.open(&name, 3, &grant).expect("it is for this reader");
    assert_eq!(opened.as_bytes(), key.as_bytes());
    assert!(other.open(&name, 3, &grant).is_err());
    assert!(reader.open(&name, 4, &grant).is_err());
    assert!(
        reader
            .open(&RecordName([0; 32]).0.into_capsule(), 3, &grant)
            .is_err()
    );
    let change = EpochChange {
        grants: vec![grant],
        ..EpochChange::default()
    };
    assert_eq!(EpochChange::decode(&change.encode()), Ok(change));
    let refused = Grant::seal(&name, 3, &key, &[255; 1216], &[8; 64]);
    assert_eq!(refused.expect_err("it is no key").code, Code::BadReaderKey);
}

trait IntoCapsule {
    fn into_capsule(self) -> selfsame_capsule::hash::CapsuleName;
}

impl IntoCapsule for [u8; 32] {
    fn into_capsule(self) -> selfsame_capsule::hash::CapsuleName {
        selfsame_capsule::hash::CapsuleName(self)
    }
}

/// What bodies hold; of those that do not open, nothing is left where they were opened.
fn open_all(key: &EpochKey, records: &[(Place, &[u8])]) -> Vec<Result<Vec<u8>, Refusal>> {
    let mut opened = b"before".to_vec();
    let places = open_each(key, records, &mut opened);
    assert_eq!(&opened[..6], b"before");
    let is_nothing_left = opened[6..].iter().all(|byte| *byte == 0);
    assert!(is_nothing_left || places.iter().any(Result::is_ok));
    let content = |place: Result<Range<usize>, Refusal>| place.map(|place| opened[place].to_vec());
    places.into_iter().map(content).collect()
}

#[test]
fn a_body_opens_at_its_place_and_under_its_key_only() {
    let name = Capsule::new().charter.name();
    let key = epoch_key(&OWNER_SEED, &name, 0);
    let place = Place {
        capsule: name,
        epoch: 0,
        writer: 1,
        sequence: 4,
    };
    let record = (place, [7; 16], &b"content"[..]);
    let seal = |records: &[Unsealed<'_>]| {
        let mut bodies = Vec::new();
        seal_each(&key, records, &mut bodies);
        bodies
    };
    let body = seal(&[record]);
    assert_eq!(seal(&[record; 20]), body.repeat(20));
    let among_others = seal(&[(Place { sequence: 9, ..place }, [1; 16], &b"other"[..])]);
    // Alone and among others, of which another one is what it should be.
    let open = |key: &_, place: &Place, body: &[u8]| {
        let alone = open_all(key, &[(*place, body)]).remove(0);
        let mut among = vec![(*place, body); 20];
        among[3] = (
            Place {
                sequence: 9,
                ..*place
            },
            &among_others,
        );
        let all = open_all(key, &among);
        for (index, opened) in all.iter().enumerate().filter(|(index, _)| *index != 3) {
            assert_eq!(opened, &alone, "record {index}");
        }
        alone.map_err(|refusal| refusal.code)
    };
    assert_eq!(open(&key, &place, &body), Ok(b"content".to_vec()));
    let elsewhere = [
        Place { epoch: 1, ..place },
        Place { writer: 2, ..place },
        Place { sequence: 5, ..place },
        Place {
            capsule: [0; 32].into_capsule(),
            ..place
        },
    ];
    for place in &elsewhere {
        assert_eq!(open(&key, place, &body), Err(Code::BadSeal));
    }
    assert_eq!(
        open(&epoch_key(&OWNER_SEED, &name, 1), &place, &body),
        Err(Code::BadSeal)
    );
    for bit in 0..body.len() * 8 {
        let mut hostile = body.clone();
        hostile[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&key, &place, &hostile), Err(Code::BadSeal), "bit {bit}");
    }
    for len in 0..body.len() {
        assert_eq!(
            open(&key, &place, &body[..len]),
            Err(Code::BadSeal),
            "{len} bytes"
        );
    }
}
