//! Bytes that turn in the store of a replica: nothing of them is served, and another replica brings what they were.

use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::world::World;
use crate::common::{charter_of, owner, view, writer};
use selfsame_capsule::authority::Authority;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::epoch::{Added, EpochChange, Revoked};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::Prover;
use selfsame_capsule::replica::SyncOutcome;
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::{Code, Reader};

/// Bytes of a value of which one is turned, about.
const TURNS: usize = 24;
/// Bytes of a checksum, each of which is turned.
const SUM: usize = 8;
/// Two chunks and a little.
const LONG: usize = 2 * 60 * 1024 + 9;

fn alice() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

fn bob() -> KeyPair {
    KeyPair::from_seed(&[3; 32])
}

/// A capsule with something of everything: bodies in chunks, a branch, epoch records, a writer that joined and one that was
/// revoked, and a record that is missing everywhere.
struct Busy {
    charter: Charter,
    authority: Authority,
    records: Vec<Written>,
    /// Of which records, and by whom.
    signatures: Vec<(RecordName, Signature)>,
    missing: Written,
}

impl Busy {
    fn new() -> Self {
        let charter = charter_of(HashKind::Blake3, Readers::Everybody, vec![alice().public()]);
        let mut busy = Self {
            authority: Authority::new(charter.metadata()),
            charter,
            records: Vec::new(),
            signatures: Vec::new(),
            missing: Written {
                name: RecordName([0; 32]),
                header: Vec::new(),
                body: Vec::new(),
            },
        };
        let mut by_owner = writer(&busy.charter, 0, owner(), None);
        let mut by_alice = writer(&busy.charter, 1, alice(), None);
        let mut by_bob = writer(&busy.charter, 2, bob(), None);
        busy.log(&mut by_owner, &[3, LONG, 2000, 5000, 0]);
        busy.missing = busy.records.remove(0);
        busy.sign(&by_owner);
        let of_alice = busy.log(&mut by_alice, &[7, 300]);
        busy.sign(&by_alice);
        let joins = EpochChange {
            added: vec![Added {
                number: 2,
                key: bob().public(),
            }],
            ..EpochChange::default()
        };
        let joined = busy.begin_epoch(&mut by_owner, &joins, 0, Vec::new());
        busy.log(&mut by_bob, &[100, LONG / 2]);
        busy.sign(&by_bob);
        let leaves = EpochChange {
            revoked: vec![Revoked {
                number: 1,
                heads: vec![of_alice],
            }],
            ..EpochChange::default()
        };
        busy.begin_epoch(&mut by_owner, &leaves, 1, vec![joined, of_alice]);
        busy.log(&mut by_owner, &[50, 60]);
        busy.sign(&by_owner);
        busy
    }

    /// Writes records; the last one's name.
    fn log(&mut self, writer: &mut Writer, lens: &[usize]) -> RecordName {
        for len in lens {
            let content = vec![self.records.len() as u8; *len];
            let written = writer.write(&content, &Backpointers::Chain, &[0; 16]);
            self.records.push(written.expect("it is small"));
        }
        self.records[self.records.len() - 1].name
    }

    fn sign(&mut self, writer: &Writer) {
        let name = self.records[self.records.len() - 1].name;
        self.signatures.push((name, writer.sign(&name)));
    }

    fn begin_epoch(
        &mut self,
        owner: &mut Writer,
        change: &EpochChange,
        epoch: u32,
        pointers: Vec<RecordName>,
    ) -> RecordName {
        let written = owner.begin_epoch(change.encode(), epoch, None, pointers);
        let written = written.expect("it is small");
        let (name, signature) = (written.name, owner.sign(&written.name));
        self.authority
            .apply(&name, &view(&written), &written.body, &signature)
            .expect("it follows");
        self.records.push(written);
        self.signatures.push((name, signature));
        name
    }

    /// Two replicas that hold it all, and agree.
    fn world(&self) -> World {
        let mut world = World::created(2, &self.charter);
        for index in 0..2 {
            let records = self.records.iter().map(write);
            let signatures = self
                .signatures
                .iter()
                .map(|(name, signature)| sign(*name, *signature));
            let operations: Vec<Operation<'_>> = records.chain(signatures).collect();
            assert!(
                world
                    .ask(index, &self.charter, &operations)
                    .iter()
                    .all(Result::is_ok)
            );
        }
        world.converge(0, 1, &self.charter, "what is whole");
        world
    }

    /// Asks for everything: what is refused, none of which is a record that is false. How many records were read, and how many
    /// proven.
    fn serves(&self, server: &mut Server, what: &str) -> (usize, usize) {
        let (mut read, mut proven) = (0, 0);
        for record in &self.records {
            let name = record.name;
            let operations = [
                Operation::Read { record: name },
                Operation::Prove { record: name },
            ];
            let given = Client::of(&self.charter).ask(server, &operations);
            if let Ok(bytes) = &given[0] {
                assert!(
                    *bytes == [record.header.as_slice(), &record.body].concat(),
                    "{what}"
                );
                read += 1;
            }
            if let Ok(proof) = &given[1] {
                proven += usize::from(self.verifies(&name, proof, what));
            }
        }
        (read, proven)
    }

    /// The first replica has everything again once it is compared with the other.
    fn comes_again(&self, world: &mut World, what: &str) {
        let synced = world.sync(0, 1, self.charter.name());
        assert_eq!(synced.outcome, SyncOutcome::Agreed, "{what}: {synced:?}");
        let all = self.records.len();
        assert_eq!(self.serves(&mut world.servers[0], what), (all, all), "{what}");
        world.assert_same(0, 1, &self.charter, what);
    }

    fn verifies(&self, name: &RecordName, given: &[u8], what: &str) -> bool {
        let proof: &[u8] = Reader::new(given).field().expect("a proof");
        let (hasher, mut verified) = (self.charter.hasher(), Verified::new(0));
        let verified = Prover::default().verify(hasher, &self.authority, &mut verified, name, proof);
        match verified.map_err(|refusal| refusal.code) {
            Ok(_) => true,
            // Whoever has lost an epoch record does not know who was revoked in it.
            Err(Code::RevokedWriter) => false,
            Err(code) => panic!("{what}: {code}"),
        }
    }
}

/// Which byte of which value is turned.
fn turns(store: &Map) -> Vec<(Vec<u8>, usize)> {
    let values = store.iter().filter(|(_, value)| !value.is_empty());
    let turns = values.flat_map(|(key, value)| {
        let within = value.len() - SUM;
        let places = (0..within)
            .step_by(within.div_ceil(TURNS))
            .chain(within..value.len());
        places.map(|place| (key.clone(), place))
    });
    turns.collect()
}

fn turned(store: &Map, key: &[u8], place: usize) -> Map {
    let mut store = store.clone();
    let value = store.get_mut(key).expect("it is there");
    let mut bytes = value.to_vec();
    bytes[place] ^= 1 << (place % 8);
    *value = bytes.into();
    store
}

fn described(key: &[u8], place: usize) -> String {
    format!("byte {place} of {} {:02x?}", char::from(key[32]), &key[33..])
}

#[test]
fn a_turned_byte_anywhere_is_not_served_and_is_brought_again() {
    let busy = Busy::new();
    let whole = busy.world();
    let store = whole.servers[0].store.clone();
    for (key, place) in turns(&store) {
        let what = described(&key, place);
        let mut world = World::new(2);
        world.servers[0] = Server::new(turned(&store, &key, place));
        world.servers[1] = Server::new(whole.servers[1].store.clone());
        busy.serves(&mut world.servers[0], &what);
        let mut synced = world.sync(0, 1, busy.charter.name());
        for _ in 0..2 {
            if synced.outcome != SyncOutcome::Agreed {
                synced = world.sync(0, 1, busy.charter.name());
            }
        }
        assert_eq!(synced.outcome, SyncOutcome::Agreed, "{what}: {synced:?}");
        let all = busy.records.len();
        assert_eq!(busy.serves(&mut world.servers[0], &what), (all, all), "{what}");
        world.assert_same(0, 1, &busy.charter, &what);
        assert!(
            world.servers[0].store.keys().all(|key| key[32] != b'D'),
            "{what}: it is mended"
        );
        // So it is for whoever opens it after a stop.
        let mut opened = Server::new(world.servers[0].store.clone());
        assert_eq!(busy.serves(&mut opened, &what), (all, all), "{what}");
    }
}

/// Turns a byte of each value of these kinds, somewhere within its second half.
fn all_turned(store: &Map, kinds: &[u8]) -> Map {
    let keys = store
        .iter()
        .filter(|(key, value)| kinds.contains(&key[32]) && !value.is_empty());
    keys.fold(store.clone(), |turned_so_far, (key, value)| {
        turned(&turned_so_far, key, value.len() / 2)
    })
}

#[test]
fn much_that_is_damaged_at_once_is_brought_again() {
    let busy = Busy::new();
    let whole = busy.world();
    for kinds in [&b"RB"[..], b"R", b"MSENAP", b"MSENAPRB"] {
        let what = String::from_utf8_lossy(kinds);
        let mut world = World::new(2);
        world.servers[0] = Server::new(all_turned(&whole.servers[0].store, kinds));
        world.servers[1] = Server::new(whole.servers[1].store.clone());
        busy.serves(&mut world.servers[0], &what);
        // It is not known who lost what: the other one asks first.
        world.sync(1, 0, busy.charter.name());
        busy.comes_again(&mut world, &what);
    }
}

#[test]
fn records_damaged_at_one_place_each_come_again_at_once() {
    let busy = Busy::new();
    let whole = busy.world();
    for eighth in 0..8 {
        let what = format!("byte {eighth} / 8 of each record");
        let store = whole.servers[0].store.clone();
        let records = store.clone().into_iter().filter(|(key, _)| key[32] == b'R');
        let store = records.fold(store, |store, (key, value)| {
            turned(&store, &key, value.len() * eighth / 8)
        });
        let mut world = World::new(2);
        world.servers[0] = Server::new(store);
        world.servers[1] = Server::new(whole.servers[1].store.clone());
        busy.serves(&mut world.servers[0], &what);
        busy.comes_again(&mut world, &what);
    }
}

#[test]
fn what_is_known_of_damage_may_be_damaged_itself() {
    let busy = Busy::new();
    let whole = busy.world();
    let all = busy.records.len();
    let mut server = Server::new(all_turned(&whole.servers[0].store, b"RB"));
    busy.serves(&mut server, "a first time");
    let (read, _) = busy.serves(&mut server, "a second time");
    assert!(read < all);
    let store = server.store;
    assert!(store.keys().any(|key| key[32] == b'D'));
    let mut world = World::new(2);
    world.servers[0] = Server::new(all_turned(&store, b"D"));
    world.servers[1] = Server::new(whole.servers[1].store.clone());
    busy.serves(&mut world.servers[0], "after more damage");
    let synced = world.sync(0, 1, busy.charter.name());
    assert_eq!(synced.outcome, SyncOutcome::Agreed, "{synced:?}");
    assert_eq!(busy.serves(&mut world.servers[0], "at last"), (all, all));
}

#[test]
fn what_follows_from_the_rest_is_found_again_without_another_replica() {
    let busy = Busy::new();
    let store = busy.world().servers[0].store.clone();
    let all = busy.records.len();
    for (key, place) in turns(&store) {
        let what = described(&key, place);
        let mut server = Server::new(turned(&store, &key, place));
        busy.serves(&mut server, &what);
        let (read, proven) = busy.serves(&mut server, &what);
        match key[32] {
            // Metadata come when the capsule is created again.
            b'M' => {
                assert_eq!((read, proven), (0, 0), "{what}");
                let metadata = busy.charter.encoded();
                let given = Client::of(&busy.charter).ask(&mut server, &[Operation::Create { metadata }]);
                assert_eq!(given, [Ok(Vec::new())], "{what}");
                assert_eq!(busy.serves(&mut server, &what), (all, all), "{what}");
            }
            // A body is lost alone; what it proves stays proven.
            b'B' => assert_eq!((read, proven), (all - 1, all), "{what}"),
            b'R' => assert!(read >= all - 1, "{what}: {read} read, {proven} proven"),
            _ => assert_eq!((read, proven), (all, all), "{what}"),
        }
    }
}

/// What comes of a signature by this writer, of a record that it writes now.
fn signs(server: &mut Server, charter: &Charter, number: u16, key: KeyPair) -> Result<Vec<u8>, Code> {
    let mut writer = writer(charter, number, key, None);
    let written = writer.write(b"now", &Backpointers::Chain, &[0; 16]);
    let written = written.expect("it is small");
    let operations = [write(&written), sign(written.name, writer.sign(&written.name))];
    Client::of(charter).ask(server, &operations).remove(1)
}

#[test]
fn until_a_lost_epoch_record_is_back_nobody_signs_whom_it_may_have_revoked() {
    let busy = Busy::new();
    let whole = busy.world();
    let store = &whole.servers[0].store;
    for name in store
        .iter()
        .filter(|(key, _)| key[32] == b'E')
        .map(|(_, value)| &value[..32])
    {
        let is_record = |key: &&Vec<u8>| key[32] == b'R' && key.ends_with(name);
        let key = store.keys().find(is_record).expect("it is stored");
        let place = store[key].len() / 2;
        let mut world = World::new(2);
        world.servers[0] = Server::new(turned(store, key, place));
        world.servers[1] = Server::new(whole.servers[1].store.clone());
        for what in ["at once", "after a stop"] {
            let server = &mut world.servers[0];
            busy.serves(server, what);
            for (number, key) in [(1, alice()), (2, bob())] {
                assert_eq!(
                    signs(server, &busy.charter, number, key),
                    Err(Code::StoreCorrupt),
                    "{what}"
                );
            }
            assert_eq!(signs(server, &busy.charter, 0, owner()), Ok(Vec::new()), "{what}");
            *server = Server::new(server.store.clone());
        }
        world.converge(0, 1, &busy.charter, "the epoch record is back");
        let server = &mut world.servers[0];
        assert_eq!(signs(server, &busy.charter, 1, alice()), Err(Code::RevokedWriter));
        assert_eq!(signs(server, &busy.charter, 2, bob()), Ok(Vec::new()));
    }
}

#[test]
fn a_record_that_was_missing_is_proven_though_it_is_forgotten_who_points_to_it() {
    let busy = Busy::new();
    let store = busy.world().servers[0].store.clone();
    let places = turns(&store).into_iter().filter(|(key, _)| key[32] == b'P');
    for (key, place) in places {
        let what = described(&key, place);
        let mut server = Server::new(turned(&store, &key, place));
        let mut client = Client::of(&busy.charter);
        assert_eq!(
            client.ask(&mut server, &[write(&busy.missing)]),
            [Ok(Vec::new())],
            "{what}"
        );
        let record = busy.missing.name;
        let given = client.ask(&mut server, &[Operation::Prove { record }]).remove(0);
        assert!(
            busy.verifies(&record, &given.expect("it is proven"), &what),
            "{what}"
        );
    }
}
