use super::*;

const NOW: u64 = 1_800_000_000_000;

fn decode_in(network: &NetworkId, bytes: &[u8], now_ms: u64) -> Result<Association, Code> {
    let id_of = |key: &PublicKey| Some(PeerId::of(key, network));
    Association::decode_verified(&mut Gate::new(*network, None), &id_of, bytes, now_ms)
}

fn network() -> NetworkId {
    NetworkId::open("n")
}

fn publisher() -> Identity {
    Identity::recall(&[1; 32], network(), &[])
}

fn validity() -> Validity {
    Validity {
        sequence_ms: NOW,
        not_before_ms: NOW,
        expiry_ms: NOW + 1000,
    }
}

fn leaf(name: &str, r: u8) -> Leaf {
    Leaf {
        salt: [9; 16],
        owner: None,
        name: name.into(),
        r,
        withdrawn: false,
        version: "1".into(),
        weight: 100,
        grant: Vec::new(),
    }
}

fn owned(grantee: PeerId, expiry_ms: u64) -> Leaf {
    let owner = Identity::of_owner(&[2; 32], network());
    let terms = Terms {
        name: "check".into(),
        peer: grantee,
        issued_ms: 0,
        expiry_ms,
        revoked: Vec::new(),
    };
    let grant = Grant::sign(&owner, terms).expect("a grant");
    Leaf {
        owner: Some(owner.public()),
        grant: grant.encoded().to_vec(),
        ..leaf("check", 0)
    }
}

fn decode(association: &Association, now: u64) -> Result<Association, Code> {
    decode_in(&network(), association.encoded(), now)
}

#[test]
fn every_leaf_of_trees_of_all_shapes_is_proven() {
    for count in 1..20 {
        let leaves: Vec<Leaf> = (0..count).map(|n| leaf(&alloc::format!("s{n}"), 0)).collect();
        let published = Association::publish(&publisher(), &leaves, validity()).expect("within limits");
        for association in published {
            assert_eq!(decode(&association, NOW), Ok(association));
        }
    }
    assert_eq!(
        Association::publish(&publisher(), &[], validity()),
        Ok(Vec::new())
    );
}

#[test]
fn the_largest_tree_keeps_the_size_limit() {
    let leaves: Vec<Leaf> = (0..MAX_LEAVES)
        .map(|_| owned(publisher().id(), NOW + 1))
        .collect();
    let published = Association::publish(&publisher(), &leaves, validity()).expect("within limits");
    assert!(
        published
            .iter()
            .all(|one| one.encoded().len() <= MAX_ASSOCIATION_BYTES)
    );
    assert!(decode(&published[MAX_LEAVES - 1], NOW).is_ok());
}

#[test]
fn a_changed_byte_is_refused() {
    let leaves = [leaf("a", 0), leaf("b", 0), owned(publisher().id(), NOW + 5)];
    let mut gate = Gate::new(network(), None);
    for association in Association::publish(&publisher(), &leaves, validity()).expect("within limits") {
        let mut known = |bytes: &[u8]| {
            Association::decode_verified(&mut gate, &|key| Some(PeerId::of(key, &network())), bytes, NOW)
        };
        assert!(known(association.encoded()).is_ok());
        for index in 0..association.encoded().len() {
            let mut bytes = association.encoded().to_vec();
            bytes[index] ^= 1;
            let read = decode_in(&network(), &bytes, NOW);
            assert!(read.is_err() && known(&bytes) == read, "byte {index}");
        }
    }
}

#[test]
fn an_owned_name_needs_the_grant_of_this_publisher() {
    let publish = |leaf| {
        Association::publish(&publisher(), &[leaf], validity())
            .expect("within limits")
            .remove(0)
    };
    assert!(decode(&publish(owned(publisher().id(), NOW + 1)), NOW).is_ok());
    let to_another = publish(owned(PeerId([7; 32]), NOW + 1));
    assert_eq!(decode(&to_another, NOW), Err(Code::NotGranted));
    let expired = publish(owned(publisher().id(), NOW));
    assert_eq!(decode(&expired, NOW), Err(Code::NotGranted));
    let none = publish(Leaf {
        grant: Vec::new(),
        ..owned(publisher().id(), NOW + 1)
    });
    assert_eq!(decode(&none, NOW), Err(Code::NotGranted));
    let withdrawal = publish(Leaf {
        withdrawn: true,
        grant: Vec::new(),
        ..owned(publisher().id(), NOW)
    });
    assert!(decode(&withdrawal, NOW).is_ok());
}

#[test]
fn an_association_counts_in_its_network_and_time() {
    let published = Association::publish(&publisher(), &[leaf("a", 0)], validity()).expect("within limits");
    let association = &published[0];
    assert!(decode(association, NOW + 999).is_ok());
    assert_eq!(decode(association, NOW + 1000), Err(Code::StaleRecord));
    assert_eq!(
        decode(association, NOW - CLOCK_SKEW_MS - 1),
        Err(Code::StaleRecord)
    );
    let other = NetworkId::open("m");
    assert_eq!(
        decode_in(&other, association.encoded(), NOW),
        Err(Code::WrongNetwork)
    );
}

#[test]
fn objects_of_owners_names_and_siblings_differ() {
    let owner = PublicKey([1; 32]);
    let id = ObjectId::of(&network(), None, "check", 0);
    assert_ne!(id, ObjectId::of(&network(), None, "check", 1));
    assert_ne!(id, ObjectId::of(&network(), Some(&owner), "check", 0));
    assert_ne!(id, ObjectId::of(&NetworkId::open("m"), None, "check", 0));
}
