//! Names: published, found, withdrawn, and kept while members come and go.

use std::collections::BTreeMap;

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Code, Role};
use selfsame_core::admission::Gate;
use selfsame_core::association::{Association, ObjectId};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, PeerId, PublicKey};
use selfsame_core::ring::{Provider, Service};

use super::network::{Network, Outcome, service};

fn find(net: &mut Network, node: usize, name: &str) -> Result<Vec<Provider>, Code> {
    match net.outcome(node, |ring, cx, command| {
        ring.find_up_to(cx, command, None, name, false)
    }) {
        Outcome::Found(providers) => Ok(providers),
        Outcome::Failed(code) => Err(code),
        other => panic!("an answer to a find, not {other:?}"),
    }
}

fn peers(providers: &[Provider]) -> Vec<PeerId> {
    let mut peers: Vec<PeerId> = providers.iter().map(|provider| provider.peer).collect();
    peers.sort_unstable();
    peers
}

fn publish(net: &mut Network, node: usize, service: Service) {
    let outcome = net.outcome(node, |ring, cx, command| ring.publish(cx, command, service));
    assert_eq!(outcome, Outcome::Done);
}

#[test]
fn what_is_published_is_found_from_everywhere() {
    for count in [1, 2, 3, 20] {
        let mut net = Network::ring_of(count as u64, count);
        publish(&mut net, 0, service("check", 1));
        assert_eq!(net.nodes[0].published, ["check"]);
        publish(&mut net, count - 1, service("check", 1));
        for node in 0..count {
            let found = find(&mut net, node, "check").expect("it is published");
            let mut expected = vec![net.id(0), net.id(count - 1)];
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(peers(&found), expected);
            let first = &found[0];
            assert_eq!(
                (first.version.as_str(), first.weight, first.owner),
                ("1", 100, None)
            );
            assert_eq!(first.record.as_ref().map(|record| record.id()), Some(first.peer));
        }
        assert_eq!(find(&mut net, 0, "other"), Err(Code::NoProvider));
        assert_eq!(find(&mut net, 0, "Not a name"), Err(Code::BadName));
    }
}

#[test]
fn a_withdrawn_name_is_not_found_and_can_be_published_again() {
    let mut net = Network::ring_of(100, 9);
    publish(&mut net, 3, service("check", 2));
    assert!(find(&mut net, 5, "check").is_ok());
    let outcome = net.outcome(3, |ring, cx, command| ring.withdraw(cx, command, None, "check"));
    assert_eq!(outcome, Outcome::Done);
    assert!(net.nodes[3].ring.services().is_empty());
    for node in 0..9 {
        assert_eq!(find(&mut net, node, "check"), Err(Code::NoProvider));
    }
    publish(&mut net, 3, service("check", 2));
    assert!(find(&mut net, 5, "check").is_ok());
    let unknown = net.outcome(3, |ring, cx, command| ring.withdraw(cx, command, None, "other"));
    assert_eq!(unknown, Outcome::Failed(Code::NoService));
}

/// Lets `peer` serve "check" for an hour.
fn grant(owner: &Identity, peer: PeerId, issued_ms: u64, revoked: &[PeerId]) -> Grant {
    let terms = Terms {
        name: "check".into(),
        peer,
        issued_ms,
        expiry_ms: issued_ms + 3_600_000,
        revoked: revoked.to_vec(),
    };
    Grant::sign(owner, terms).expect("a grant")
}

fn owned(grant: &Grant) -> Service {
    Service {
        owner: Some(grant.owner()),
        grant: grant.encoded().to_vec(),
        ..service("check", 0)
    }
}

fn find_owned(net: &mut Network, by: usize, owner: PublicKey) -> Result<Vec<PeerId>, Code> {
    match net.outcome(by, |ring, cx, command| {
        ring.find_up_to(cx, command, Some(owner), "check", false)
    }) {
        Outcome::Found(providers) => Ok(peers(&providers)),
        Outcome::Failed(code) => Err(code),
        other => panic!("a find does not end with {other:?}"),
    }
}

fn sorted<const N: usize>(mut peers: [PeerId; N]) -> Vec<PeerId> {
    peers.sort();
    peers.to_vec()
}

#[test]
fn a_revoked_peer_is_found_no_more_until_it_is_granted_anew() {
    let mut net = Network::ring_of(260, 9);
    let owner = Identity::of_owner(&[1; 32], Network::network_id());
    let (key, now_ms) = (owner.public(), net.now_ms);
    let (two, three) = (net.id(2), net.id(3));
    publish(&mut net, 2, owned(&grant(&owner, two, now_ms - 3, &[])));
    publish(&mut net, 3, owned(&grant(&owner, three, now_ms - 3, &[])));
    assert_eq!(find_owned(&mut net, 5, key), Ok(sorted([two, three])));

    publish(&mut net, 2, owned(&grant(&owner, two, now_ms - 2, &[three])));
    assert_eq!(find_owned(&mut net, 5, key), Ok(vec![two]));
    publish(&mut net, 3, owned(&grant(&owner, three, now_ms - 2, &[])));
    assert_eq!(find_owned(&mut net, 5, key), Ok(vec![two]), "not issued later");
    publish(&mut net, 3, owned(&grant(&owner, three, now_ms - 1, &[])));
    assert_eq!(
        find_owned(&mut net, 5, key),
        Ok(sorted([two, three])),
        "issued later"
    );
    publish(&mut net, 3, owned(&grant(&owner, three, now_ms - 1, &[two])));
    assert_eq!(find_owned(&mut net, 5, key), Ok(vec![three]));
}

#[test]
fn nobody_is_found_when_all_are_revoked_and_a_stranger_revokes_nobody() {
    let mut net = Network::ring_of(270, 6);
    let owner = Identity::of_owner(&[1; 32], Network::network_id());
    let stranger = Identity::of_owner(&[2; 32], Network::network_id());
    let (key, now_ms) = (owner.public(), net.now_ms);
    let (two, three) = (net.id(2), net.id(3));
    publish(&mut net, 2, owned(&grant(&owner, two, now_ms - 3, &[])));
    publish(&mut net, 3, owned(&grant(&stranger, three, now_ms, &[two])));
    assert_eq!(
        find_owned(&mut net, 5, key),
        Ok(vec![two]),
        "revoked for another owner's name"
    );
    publish(&mut net, 3, owned(&grant(&owner, three, now_ms - 2, &[two])));
    publish(&mut net, 2, owned(&grant(&owner, two, now_ms - 3, &[three])));
    assert_eq!(
        find_owned(&mut net, 5, key),
        Ok(vec![three]),
        "revoked before it was issued"
    );
    publish(&mut net, 2, owned(&grant(&owner, two, now_ms - 2, &[three])));
    assert_eq!(find_owned(&mut net, 5, key), Err(Code::NoProvider));
}

#[test]
fn an_owned_name_is_found_by_its_owner_only() {
    let mut net = Network::ring_of(200, 6);
    let owner = Identity::of_owner(&[1; 32], Network::network_id());
    let grant = grant(&owner, net.id(2), net.now_ms, &[]);
    publish(&mut net, 2, owned(&grant));
    let key = owner.public();
    let found = net.outcome(4, |ring, cx, command| {
        ring.find_up_to(cx, command, Some(key), "check", false)
    });
    let Outcome::Found(providers) = found else {
        panic!("it is published, not {found:?}")
    };
    assert_eq!((providers[0].peer, providers[0].owner), (net.id(2), Some(key)));
    assert_eq!(find(&mut net, 4, "check"), Err(Code::NoProvider));

    let stolen = net.outcome(3, |ring, cx, command| ring.publish(cx, command, owned(&grant)));
    assert_eq!(stolen, Outcome::Failed(Code::BadGrant));
    let unasked = Service {
        owner: None,
        ..owned(&grant)
    };
    let outcome = net.outcome(2, |ring, cx, command| ring.publish(cx, command, unasked));
    assert_eq!(outcome, Outcome::Failed(Code::BadGrant));
}

#[test]
fn a_name_published_before_the_join_waits_for_it() {
    let mut net = Network::ring_of(250, 4);
    let newcomer = net.add_members(1)[0];
    let command = net.command(newcomer, |ring, cx, command| {
        ring.publish(cx, command, service("check", 0))
    });
    net.run_for(5_000);
    assert!(net.nodes[newcomer].outcomes.is_empty());
    assert_eq!(net.join(newcomer, &[1]), Outcome::Done);
    net.run_until(10_000, "the name is published", |net| {
        net.nodes[newcomer].outcomes.contains_key(&command)
    });
    assert!(find(&mut net, 2, "check").is_ok());
}

#[test]
fn a_member_that_joins_gets_what_it_is_responsible_for() {
    for seed in 300..306 {
        let mut net = Network::ring_of(seed, 4);
        for n in 0..40 {
            publish(&mut net, n % 4, service(&format!("s{n}"), 0));
        }
        for _ in 0..8 {
            let newcomer = net.add_members(1)[0];
            assert_eq!(net.join(newcomer, &[0]), Outcome::Done);
            net.settle(30_000);
        }
        // Publishers check later; what is asked now must have been handed over.
        for n in 0..40 {
            let name = format!("s{n}");
            let object = ObjectId::of(&Network::network_id(), None, &name, 0);
            let responsible = net.responsible(&object.0);
            assert!(net.nodes[responsible].ring.objects_len() > 0, "seed {seed}");
            let asker = net.dice.below(12);
            assert!(find(&mut net, asker, &name).is_ok(), "{name} seed {seed}");
        }
    }
}

#[test]
fn names_survive_three_neighbours_that_crash_at_once() {
    for seed in 400..408 {
        let mut net = Network::ring_of(seed, 12);
        publish(&mut net, 0, service("check", 0));
        net.run_for(1_000);
        let object = ObjectId::of(&Network::network_id(), None, "check", 0);
        let members = net.members();
        let responsible = net.responsible(&object.0);
        let place = members
            .iter()
            .position(|node| *node == responsible)
            .expect("a member");
        for step in 0..3 {
            let victim = members[(place + step) % 12];
            if victim != 0 {
                net.crash(victim, false);
            }
        }
        // Before the ring has noticed, an answer may take long, but it comes once the ring has closed.
        net.settle(60_000);
        let asker = net.members()[0];
        assert!(find(&mut net, asker, "check").is_ok(), "seed {seed}");
    }
}

#[test]
fn a_sibling_object_answers_while_the_first_has_no_responsible_member() {
    let mut net = Network::ring_of(500, 20);
    publish(&mut net, 0, service("check", 2));
    let object = ObjectId::of(&Network::network_id(), None, "check", 0);
    let responsible = net.responsible(&object.0);
    net.crash(responsible, false);
    let asker = net
        .members()
        .into_iter()
        .find(|node| *node != 0)
        .expect("one is left");
    assert!(find(&mut net, asker, "check").is_ok());
}

#[test]
fn a_member_that_leaves_hands_its_objects_over_and_withdraws_its_names() {
    for seed in 600..605 {
        let mut net = Network::ring_of(seed, 5);
        for n in 0..20 {
            publish(&mut net, n % 4, service(&format!("s{n}"), 0));
        }
        publish(&mut net, 4, service("mine", 0));
        let outcome = net.outcome(4, |ring, cx, command| ring.leave(cx, command));
        assert_eq!(outcome, Outcome::Done);
        net.nodes[4].is_alive = false;
        net.settle(10_000);
        for n in 0..20 {
            assert!(
                find(&mut net, n % 4, &format!("s{n}")).is_ok(),
                "s{n} seed {seed}"
            );
        }
        assert_eq!(find(&mut net, 0, "mine"), Err(Code::NoProvider), "seed {seed}");
    }
}

#[test]
fn names_live_as_long_as_their_publisher_and_no_longer() {
    let mut net = Network::ring_of(700, 6);
    publish(&mut net, 2, service("check", 1));
    net.run_for(3 * 3_600_000);
    assert_eq!(
        peers(&find(&mut net, 4, "check").expect("it is kept")),
        [net.id(2)]
    );
    net.crash(2, true);
    net.run_for(3_600_000 + 60_000);
    assert_eq!(find(&mut net, 4, "check"), Err(Code::NoProvider));
    assert!(
        net.members()
            .iter()
            .all(|node| net.nodes[*node].ring.objects_len() == 0)
    );
}

#[test]
fn a_publication_is_renewed_three_times_an_hour_and_not_more_often() {
    let mut net = Network::ring_of(750, 1);
    let leaf = net.add(Role::Leaf);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    publish(&mut net, leaf, service("check", 0));
    net.run_for(2 * 60_000);
    let before = net.nodes[0].writes;
    net.run_for(17 * 60_000);
    assert_eq!(net.nodes[0].writes, before);
    net.run_for(41 * 60_000 + 30_000);
    assert_eq!(net.nodes[0].writes, before + 3);
}

#[test]
fn names_published_together_share_a_few_signatures() {
    const NAMES: u32 = 200;
    let mut net = Network::ring_of(820, 5);
    let mut commands = Vec::new();
    for number in 0..NAMES {
        let service = service(&format!("name-{number}"), 0);
        commands.push(net.command(0, |ring, cx, command| ring.publish(cx, command, service)));
        net.run_for(1);
    }
    net.run_for(60_000);
    for command in commands {
        assert_eq!(net.nodes[0].outcomes.get(&command), Some(&Outcome::Done));
    }
    let mut signed = BTreeMap::new();
    let published = net.nodes[0].store.iter();
    for (_, value) in published.filter(|(key, _)| key.starts_with(b"ring/published/")) {
        let mut decoder = Decoder::new(value);
        let association = decoder.array_of(2).and_then(|()| decoder.bytes(4096));
        let association = association.expect("an association and who holds it");
        let association = Association::decode_verified(
            &mut Gate::new(Network::network_id(), None),
            &|key| Some(PeerId::of(key, &Network::network_id())),
            association,
            net.now_ms,
        );
        let sequence_ms = association.expect("it is current").validity().sequence_ms;
        *signed.entry(sequence_ms).or_insert(0) += 1;
    }
    assert_eq!(signed.values().sum::<u32>(), NAMES);
    assert!(signed.len() <= 8, "names of each signature: {signed:?}");
}

#[test]
fn a_publisher_stores_again_what_its_holders_lost() {
    let mut net = Network::ring_of(800, 6);
    publish(&mut net, 0, service("check", 0));
    for node in 1..6 {
        net.crash(node, false);
    }
    for node in 1..6 {
        net.restart(node, false);
        net.start_join(node, &[0]);
    }
    net.settle(60_000);
    net.run_for(10_000);
    assert!(find(&mut net, 3, "check").is_ok());
}

#[test]
fn stored_associations_survive_a_restart() {
    let mut net = Network::ring_of(900, 1);
    let leaf = net.add(Role::Leaf);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    publish(&mut net, leaf, service("check", 3));
    assert_eq!(net.nodes[0].ring.objects_len(), 4);
    net.crash(0, false);
    net.restart(0, true);
    assert_eq!(net.nodes[0].ring.objects_len(), 4);
    assert_eq!(net.join(0, &[]), Outcome::Done);
    assert_eq!(
        peers(&find(&mut net, 0, "check").expect("it was stored")),
        [net.id(leaf)]
    );
}

#[test]
fn a_damaged_store_is_refused_and_an_old_one_cleaned() {
    let mut net = Network::ring_of(950, 3);
    publish(&mut net, 0, service("check", 3));
    net.run_for(120_000);
    let store = net.nodes[1].store.clone();
    assert!(
        store.len() >= 4,
        "routes, neighbours and objects: {}",
        store.len()
    );
    for (key, value) in &store {
        let mut damaged = value.clone();
        damaged[value.len() / 2] ^= 1;
        if key.ends_with(b"neighbours") {
            damaged.pop();
        }
        let other = net.add(Role::Member);
        let result = net.with(other, |ring, cx| ring.load(cx, key, &damaged));
        assert_eq!(
            result,
            Err(Code::StoreCorrupt),
            "{}",
            String::from_utf8_lossy(key)
        );
    }
    net.run_for(25 * 3_600_000);
    let other = net.add(Role::Member);
    net.nodes[other].store = store.clone();
    for (key, value) in &store {
        let result = net.with(other, |ring, cx| ring.load(cx, key, value));
        assert_eq!(result, Ok(()));
    }
    assert_eq!(net.nodes[other].store.len(), 1);
    assert_eq!(net.nodes[other].ring.objects_len(), 0);
}
