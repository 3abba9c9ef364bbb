use super::super::guard::message::{
    Groups, decode_contradictions, decode_groups, encode_contradictions, encode_groups,
};
use super::*;

#[test]
fn requests_come_back() {
    let entry = EntryBytes {
        association: b"association",
        record: b"record",
    };
    let requests = [
        Request::Ping {
            hint: [&b"r"[..]].into(),
        },
        Request::Revoked { serial: 7 },
        Request::FindNode {
            target: Place([1; 32]),
        },
        Request::Find {
            object: ObjectId([2; 32]),
            held: true,
        },
        Request::Store { entry },
        Request::Mirror {
            entries: [entry, entry].into(),
        },
        Request::Join { record: b"r" },
        Request::Update {
            record: b"r",
            wants_objects: true,
            predecessors: [&b"p"[..]].into(),
        },
        Request::Leave {
            record: b"r",
            predecessor: None,
            successors: [&b"s"[..]].into(),
            entries: [entry].into(),
        },
        Request::Attach { record: b"r" },
        Request::Detach,
        Request::Vouch {
            target: Place([7; 32]),
            claimed: PeerId([8; 32]),
        },
        Request::Groups {
            told: [ToldLease {
                leader: PeerId([9; 32]),
                epoch: 7,
                digest: [1; 32],
            }]
            .into(),
            wants_members: true,
        },
        Request::Contradictions {
            known: [ToldConviction {
                public: crate::identity::PublicKey([3; 32]),
                before_ms: 9,
            }]
            .into(),
        },
    ];
    for request in requests {
        let mut bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Ok(request));
        bytes.push(0);
        assert_eq!(Request::decode(&bytes), Err(Malformed));
        assert!((0..bytes.len() - 1).all(|len| Request::decode(&bytes[..len]).is_err()));
    }
}

#[test]
fn responses_come_back() {
    let hop = Hop {
        responsible: Some(b"r"),
        closer: [&b"c"[..]].into(),
        ..Hop::default()
    };
    assert_eq!(Hop::decode(&hop.encode()), Ok(hop.clone()));
    let leased = Hop {
        lease: Some(b"lease"),
        ..hop
    };
    assert_eq!(Hop::decode(&leased.encode()), Ok(leased));
    let groups = Groups {
        is_within: true,
        lease: Some(b"lease"),
        differing: [&b"other"[..]; 4].into(),
        members: [&b"r"[..]; 15].into(),
    };
    assert_eq!(decode_groups(&encode_groups(&groups)), Ok(groups.clone()));
    let too_many = Groups {
        differing: [&b"other"[..]; 5].into(),
        ..groups.clone()
    };
    assert_eq!(decode_groups(&encode_groups(&too_many)), Err(Refusal::Malformed));
    let too_many = Groups {
        members: [&b"r"[..]; 16].into(),
        ..groups
    };
    assert_eq!(decode_groups(&encode_groups(&too_many)), Err(Refusal::Malformed));
    assert_eq!(
        decode_contradictions(&encode_contradictions(&[&b"c"[..]; 16])),
        Ok([&b"c"[..]; 16].into())
    );
    assert!(decode_contradictions(&encode_contradictions(&[&b"c"[..]; 17])).is_err());
    let updated = Updated {
        predecessor: Some(b"p"),
        ..Updated::default()
    };
    assert_eq!(Updated::decode(&updated.encode()), Ok(updated));
    assert_eq!(decode_ack(&encode_ack()), Ok(()));
    assert_eq!(decode_joined(&encode_joined(&[b"n"])), Ok([&b"n"[..]].into()));
    assert_eq!(
        decode_ack(&encode_error(Code::NotResponsible)),
        Err(Refusal::Refused(Class::Misbehaved))
    );
    assert_eq!(decode_ack(&encode_stale(b"newer")), Err(Refusal::Stale(b"newer")));
    assert_eq!(decode_ack(&encode_wrong_clock(7)), Err(Refusal::WrongClock));
}

#[test]
fn oversized_lists_are_refused() {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.array(2).uint(0).array(MAX_NODES + 1);
    for _ in 0..=MAX_NODES {
        encoder.bytes(b"r");
    }
    assert_eq!(Request::decode(&bytes), Err(Malformed));
    assert_eq!(Request::decode(&[0; MAX_MESSAGE_BYTES + 1]), Err(Malformed));
}
