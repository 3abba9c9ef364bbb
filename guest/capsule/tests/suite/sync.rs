//! Replicas come to hold the same, whatever each of them lacks.

use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::world::{World, between_replicas, chain, give, peer};
use crate::common::{Log, charter, owner, writer};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Operation, Part};
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::replica::SyncOutcome;
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::Code;

/// Two replicas that converge from what each was given of a log whose records are all signed, from either side.
fn converges(log: &Log, here: &[usize], there: &[usize]) {
    for (one, other) in [(0, 1), (1, 0)] {
        let mut world = World::created(2, &log.charter);
        for (index, own) in [(0, here), (1, there)] {
            let records: Vec<&Written> = own.iter().map(|record| &log.records[*record]).collect();
            let signed: Vec<(&Writer, &Written)> = own
                .iter()
                .map(|record| (&log.writer, &log.records[*record]))
                .collect();
            give(&mut world, index, &log.charter, &records, &signed);
        }
        world.converge(one, other, &log.charter, "a log");
        let all: std::collections::BTreeSet<&usize> = here.iter().chain(there).collect();
        let stored = world.servers[0]
            .store
            .keys()
            .filter(|key| key[32] == b'R')
            .count();
        assert_eq!(stored, all.len());
    }
}

#[test]
fn replicas_that_hold_the_same_know_it_after_one_tiny_round_trip() {
    let log = chain(200);
    let mut world = World::created(2, &log.charter);
    let records: Vec<&Written> = log.records.iter().collect();
    for index in 0..2 {
        give(
            &mut world,
            index,
            &log.charter,
            &records,
            &[(&log.writer, &log.records[199])],
        );
    }
    let synced = world.converge(0, 1, &log.charter, "equal replicas");
    assert_eq!((synced.pulled, synced.pushed), (0, 0));
    assert!(
        world.cost.round_trips == 1 && world.cost.bytes <= 200,
        "{:?}",
        world.cost
    );
}

#[test]
fn a_component_of_one_record() {
    let log = chain(6);
    converges(&log, &[0, 1, 5], &[0, 1, 3, 5]);
    converges(&log, &[], &[3]);
    converges(&log, &[1], &[3]);
}

#[test]
fn a_hole_behind_a_prefix_of_one_record() {
    converges(&chain(6), &[0, 3, 4, 5], &[0, 1, 2, 3, 4, 5]);
    converges(&chain(3), &[0, 2], &[0, 1, 2]);
}

#[test]
fn a_responder_that_itself_lacks_records() {
    converges(&chain(8), &[0, 1, 4, 5, 7], &[0, 2, 3, 6, 7]);
    converges(&chain(8), &[0, 2, 4, 6], &[1, 3, 5, 7]);
}

/// R <- x against R <- y1 <- y2 <- y3: both branches, and evidence of the fork, end up on both.
#[test]
fn a_fork_of_one_record_against_three() {
    let charter = charter();
    let mut one = writer(&charter, 0, owner(), None);
    let write_next = |by: &mut Writer, content: &[u8]| {
        by.write(content, &Backpointers::Chain, &[0; 16])
            .expect("it is small")
    };
    let root = write_next(&mut one, b"R");
    let mut other = writer(&charter, 0, owner(), None);
    write_next(&mut other, b"R");
    let x = write_next(&mut one, b"x");
    let y: Vec<Written> = (1..=3_u8).map(|index| write_next(&mut other, &[index])).collect();
    for first in [0, 1] {
        let mut world = World::created(2, &charter);
        give(&mut world, 0, &charter, &[&root, &x], &[(&one, &x)]);
        give(
            &mut world,
            1,
            &charter,
            &[&root, &y[0], &y[1], &y[2]],
            &[(&other, &y[2])],
        );
        world.converge(first, 1 - first, &charter, "a fork");
        let heads = world.servers[0]
            .store
            .keys()
            .filter(|key| key[32] == b'H')
            .count();
        assert_eq!(heads, 2);
    }
}

/// The example of the paper's Figure 2: a merge of two branches, of which each replica has one and not the other, with a hole
/// and a newer head besides.
#[test]
fn the_papers_figure_2() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let mut records: Vec<Written> = Vec::new();
    for pointers in [&[][..], &[0], &[1], &[1], &[2, 3], &[4], &[0], &[6]] {
        let names = pointers.iter().map(|index| records[*index].name).collect();
        if let Some(first) = pointers.first() {
            by.follow(records[*first].name);
        }
        let content = [records.len() as u8];
        records.push(
            by.write(&content, &Backpointers::Own(names), &[0; 16])
                .expect("it is small"),
        );
    }
    let of = |all: &[usize]| all.iter().map(|index| &records[*index]).collect::<Vec<_>>();
    for first in [0, 1] {
        let mut world = World::created(2, &charter);
        give(
            &mut world,
            0,
            &charter,
            &of(&[0, 2, 4, 5, 6]),
            &[(&by, &records[5])],
        );
        give(
            &mut world,
            1,
            &charter,
            &of(&[0, 1, 3, 6, 7]),
            &[(&by, &records[7])],
        );
        world.converge(first, 1 - first, &charter, "figure 2");
        assert_eq!(world.proven(1, &charter).len(), 8);
    }
}

/// Records that nothing that is signed leads to yet stay where their writer has stored them, and are proven by both once the
/// signature comes to one.
#[test]
fn records_whose_proof_is_not_there_yet() {
    let log = chain(5);
    let mut world = World::created(2, &log.charter);
    let records: Vec<&Written> = log.records.iter().collect();
    give(&mut world, 0, &log.charter, &records[..3], &[]);
    give(&mut world, 1, &log.charter, &records[2..], &[]);
    world.converge(0, 1, &log.charter, "without a signature");
    assert_eq!(world.proven(0, &log.charter).len(), 0);
    give(
        &mut world,
        1,
        &log.charter,
        &[],
        &[(&log.writer, &log.records[4])],
    );
    world.converge(0, 1, &log.charter, "with one");
    assert_eq!(world.proven(0, &log.charter).len(), 5);
}

/// Two epoch records of one epoch, whose signatures come in the wrong order: they come into force in the owner's.
#[test]
fn epochs_come_into_force_in_their_order() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let mut begin = |pointers| {
        let change = selfsame_capsule::epoch::EpochChange::default();
        by.begin_epoch(change.encode(), 0, None, pointers)
            .expect("it is small")
    };
    let first = begin(Vec::new());
    let second = begin(vec![first.name]);
    let mut world = World::created(2, &charter);
    let signs = |record: &Written| sign(record.name, owner_signs(record));
    let early = world.ask(0, &charter, &[write(&first), write(&second), signs(&second)]);
    assert_eq!(early[2], Err(Code::BadEpoch));
    let early = world.ask(1, &charter, &[write(&second), signs(&second)]);
    assert_eq!(early[1], Err(Code::BadEpoch));
    assert!(
        world
            .ask(0, &charter, &[signs(&first), signs(&second)])
            .iter()
            .all(Result::is_ok)
    );
    world.converge(1, 0, &charter, "two epochs");
}

/// A record, and a first epoch record that points to it as often as it is told.
fn first_epoch(by: &mut Writer, times: usize) -> [Written; 2] {
    let below = by
        .write(b"below", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let change = selfsame_capsule::epoch::EpochChange::default().encode();
    let first = by
        .begin_epoch(change, 0, None, vec![below.name; times])
        .expect("it is small");
    [below, first]
}

/// The other replica has not the record that a first epoch record follows, which proves nothing until that is in force.
#[test]
fn a_first_epoch_brings_the_record_it_follows() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let [below, first] = first_epoch(&mut by, 1);
    let change = selfsame_capsule::epoch::EpochChange::default().encode();
    let second = by
        .begin_epoch(change, 0, None, vec![first.name])
        .expect("it is small");
    let records = [&below, &first, &second];
    for is_below_signed in [false, true] {
        for other in [1, 0] {
            let mut world = World::created(2, &charter);
            let from = usize::from(!is_below_signed);
            let signed: Vec<(&Writer, &Written)> =
                records[from..].iter().map(|record| (&by, *record)).collect();
            give(&mut world, 0, &charter, &records, &signed);
            world.converge(1 - other, other, &charter, "a first epoch");
            assert_eq!(world.proven(1, &charter).len(), 3);
        }
    }
}

/// More than a replica keeps of what nothing proves yet: each signed record comes once, with its signature.
#[test]
fn signed_records_larger_than_all_strays_come_once() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let content = vec![7; 1 << 19];
    let records: Vec<Written> = (0..40)
        .map(|_| {
            by.write(&content, &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    let mut world = World::created(2, &charter);
    for records in records.chunks(10) {
        let signed: Vec<(&Writer, &Written)> = records.iter().map(|record| (&by, record)).collect();
        let records: Vec<&Written> = records.iter().collect();
        give(&mut world, 0, &charter, &records, &signed);
    }
    let mut bytes = 0;
    let synced = world.sync_with(1, 0, charter.name(), |_, response| {
        bytes += response.len();
        response
    });
    assert_eq!((synced.outcome, synced.pulled), (SyncOutcome::Agreed, 80));
    world.assert_same(0, 1, &charter, "large records");
    let all = records.len() * content.len();
    assert!(bytes < all + all / 4, "{bytes} bytes for {all}");
}

/// A record that is pointed to twice by the one that proves it comes into the set once.
#[test]
fn a_record_pointed_to_twice_is_counted_once() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let [below, twice] = first_epoch(&mut by, 2);
    let mut world = World::created(2, &charter);
    give(&mut world, 0, &charter, &[&below, &twice], &[]);
    world.converge(0, 1, &charter, "nothing is proven");
    give(&mut world, 0, &charter, &[], &[(&by, &twice)]);
    let synced = world.converge(1, 0, &charter, "all is proven");
    assert_eq!(synced.pulled, 3);
}

fn owner_signs(record: &Written) -> Signature {
    selfsame_capsule::authority::sign_record(&owner(), &record.name)
}

/// A replica with nothing gets everything, also the metadata, whoever begins; meanwhile it serves.
#[test]
fn a_replica_that_joins_catches_up() {
    let log = chain(600);
    let records: Vec<&Written> = log.records.iter().collect();
    for first in [0, 1] {
        let mut world = World::new(2);
        let metadata = log.charter.encoded().to_vec();
        world.ask(0, &log.charter, &[Operation::Create { metadata: &metadata }]);
        give(
            &mut world,
            0,
            &log.charter,
            &records,
            &[(&log.writer, &log.records[599])],
        );
        let synced = world.sync(first, 1 - first, log.charter.name());
        assert_eq!(synced.outcome, SyncOutcome::Agreed);
        assert_eq!(synced.pulled + synced.pushed, 601);
        world.assert_same(0, 1, &log.charter, "a replica that joined");
    }
    let mut world = World::new(2);
    let synced = world.sync(0, 1, log.charter.name());
    assert!(matches!(synced.outcome, SyncOutcome::Refused(refusal) if refusal.code == Code::NoCapsule));
}

/// Large bodies come in several messages, none larger than may be.
#[test]
fn large_bodies_come_in_parts() {
    let charter = charter();
    let mut by = writer(&charter, 0, owner(), None);
    let content = vec![7; 1 << 19];
    let records: Vec<Written> = (0..40)
        .map(|_| {
            by.write(&content, &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    let mut world = World::created(2, &charter);
    for chunk in records.chunks(10) {
        give(&mut world, 0, &charter, &chunk.iter().collect::<Vec<_>>(), &[]);
    }
    give(&mut world, 0, &charter, &[], &[(&by, &records[39])]);
    world.converge(1, 0, &charter, "large bodies");
    assert_eq!(world.proven(1, &charter).len(), 40);
}

/// What arrived since both agreed is all that is compared the next time, and as a replica that lost something is not what it
/// was, everything is.
#[test]
fn a_watermark_advances_only_when_both_agree() {
    let log = chain(3000);
    let records: Vec<&Written> = log.records.iter().collect();
    let mut world = World::created(2, &log.charter);
    for index in 0..2 {
        let signed = [(&log.writer, &log.records[2899])];
        give(&mut world, index, &log.charter, &records[..2900], &signed);
    }
    world.converge(0, 1, &log.charter, "at first");
    let watermark = |world: &mut World| {
        let mut since = Vec::new();
        world.sync_watched(0, 1, log.charter.name(), |request| {
            if request[53] == 11 {
                since.push(u64::from_le_bytes(
                    request[70..78].try_into().expect("eight bytes"),
                ));
            }
        });
        since
    };
    let more = |world: &mut World, records: &[&Written]| {
        let last = records[records.len() - 1];
        give(world, 1, &log.charter, records, &[(&log.writer, last)]);
    };
    more(&mut world, &records[2900..2950]);
    assert_eq!(
        watermark(&mut world),
        [2901, 2901, 0],
        "what arrived since, and then that all is the same"
    );
    world.assert_same(0, 1, &log.charter, "what arrived since");
    // An answer that says that there is nothing is not believed to be agreement.
    more(&mut world, &records[2950..2960]);
    let lied = world.sync_with(0, 1, log.charter.name(), |operation, mut response| {
        if operation == 11 && response.len() > 100 {
            // No symbols, but another fingerprint.
            response.truncate(9 + 8 + 32);
            response.extend_from_slice(&[0; 4]);
            response.push(0);
        }
        response
    });
    assert!(matches!(lied.outcome, SyncOutcome::Refused(refusal) if refusal.code == Code::BadMessage));
    assert_eq!(watermark(&mut world)[0], 2952, "the watermark of before");
    // The other replica loses its store.
    world.servers[1] = Server::new(Map::new());
    let synced = world.converge(0, 1, &log.charter, "a replica that has lost all");
    assert_eq!(synced.pushed, 2963);
}

#[test]
fn what_a_writer_stores_is_pushed_to_the_other_replicas_and_no_further() {
    let log = chain(30);
    let mut world = World::created(3, &log.charter);
    for index in 0..3 {
        let others = (0..3).filter(|other| *other != index).map(peer).collect();
        world.servers[index]
            .replica
            .set_replicas(log.charter.name(), others);
    }
    let records: Vec<&Written> = log.records.iter().collect();
    for records in records.chunks(7) {
        give(&mut world, 1, &log.charter, records, &[]);
    }
    give(
        &mut world,
        2,
        &log.charter,
        &[],
        &[(&log.writer, &log.records[29])],
    );
    world.assert_same(0, 1, &log.charter, "pushed");
    world.assert_same(2, 1, &log.charter, "pushed");
    assert_eq!(world.pushes, 2 * 6, "each request once to each other replica");
    // A peer that does not answer keeps nobody up, and gets it later.
    world.servers[1]
        .replica
        .set_replicas(log.charter.name(), vec![peer(9)]);
    let more = Log::new(charter(), 31, &Backpointers::Chain);
    let mut client = Client::of(&log.charter);
    let last = &more.records[30];
    let operations = [write(last), sign(last.name, more.writer.sign(&last.name))];
    assert!(client.ask(&mut world.servers[1], &operations)[0].is_ok());
    let (tag, _, _) = world.servers[1].asks.pop().expect("it is pushed");
    world.servers[1].replica.answered(0, tag, None);
    world.servers[1].work();
    world.converge(0, 1, &log.charter, "what was not pushed");
}

/// A writer who is revoked at one replica only: both come to count the same signatures.
#[test]
fn a_revocation_that_only_one_has_heard_of() {
    let alice = || KeyPair::from_seed(&[2; 32]);
    let charter = crate::common::charter_of(HashKind::Blake3, Readers::Everybody, vec![alice().public()]);
    let mut hers = writer(&charter, 1, alice(), None);
    let mut owners = writer(&charter, 0, owner(), None);
    let records: Vec<Written> = (0..4)
        .map(|index| {
            hers.write(&[index], &Backpointers::Chain, &[0; 16])
                .expect("it is small")
        })
        .collect();
    let change = selfsame_capsule::epoch::EpochChange {
        revoked: vec![selfsame_capsule::epoch::Revoked {
            number: 1,
            heads: vec![records[1].name],
        }],
        ..Default::default()
    };
    let epoch = owners
        .begin_epoch(change.encode(), 1, None, vec![records[1].name])
        .expect("it is small");
    for first in [0, 1] {
        let mut world = World::created(2, &charter);
        give(
            &mut world,
            0,
            &charter,
            &[&records[0], &records[1], &epoch],
            &[(&owners, &epoch)],
        );
        let all: Vec<&Written> = records.iter().collect();
        give(
            &mut world,
            1,
            &charter,
            &all,
            &[(&hers, &records[3]), (&hers, &records[1])],
        );
        world.converge(first, 1 - first, &charter, "a revocation");
        assert_eq!(world.proven(1, &charter).len(), 3);
    }
}

/// More differs than one sketch can tell: it is compared in parts, each bounded.
#[test]
fn a_difference_larger_than_a_sketch_is_compared_in_parts() {
    let log = chain(34_000);
    let mut world = World::created(2, &log.charter);
    let records: Vec<&Written> = log.records.iter().collect();
    let (ours, theirs) = records.split_at(16_000);
    give(&mut world, 0, &log.charter, ours, &[]);
    give(
        &mut world,
        1,
        &log.charter,
        theirs,
        &[(&log.writer, &log.records[33_999])],
    );
    let synced = world.sync(0, 1, log.charter.name());
    assert_eq!(synced.outcome, SyncOutcome::Agreed);
    assert!(synced.pushed >= 16_000 && synced.pulled >= 18_001, "{synced:?}");
    assert_eq!(world.stored(0), world.stored(1));
}

/// While a large capsule is walked through for another replica, others are served: nobody waits for the whole walk.
#[test]
fn a_long_walk_lets_others_go_first() {
    let log = chain(4000);
    let mut world = World::of(&log);
    let server = &mut world.servers[0];
    let compare = Operation::Compare {
        salt: [1; 16],
        part: Part::WHOLE,
        symbols: 64,
        unless: [0; 32],
    };
    let capsule = log.charter.name();
    let describe = between_replicas(capsule, &[Operation::Describe]);
    server
        .replica
        .request(0, 100, [0; 32], between_replicas(capsule, &[compare]));
    server.replica.request(0, 101, [0; 32], describe);
    server.work();
    assert_eq!(server.answered[1..], [101, 100]);
}
