//! Records that nobody signs, from a stranger.

use selfsame_capsule::message::Operation;
use selfsame_capsule::writer::{Backpointers, Writer, Written};

use super::Arena;
use crate::capsules::{Capsules, Client, SEEDS, Servers, charter, fabricated, sign, store, writer};
use crate::figure::Figure;
use crate::single::WriteOne as _;

/// As many as a replica took of unsigned records in all.
const RECORDS: u64 = 131_072;
/// What a stranger may make a replica store: nothing, as its records stray in memory (`MAX_BYTES` of `replica/strays.rs`).
const MAX_HELD: f64 = 0.0;
/// Writes of the owner before and after, at each replica.
const WRITES: usize = 4;
/// The kind of a stored record's row.
const RECORD_ROW: u8 = b'R';

/// How many writes of the owner a replica takes, with their signatures.
fn writes(servers: &mut Servers, index: usize, owner: &mut Writer) -> usize {
    let mut taken = 0;
    for _ in 0..WRITES {
        let next = owner
            .write(b"next", &Backpointers::Chain, &[0; 16])
            .expect("it is small");
        let signature = owner.sign(&next.name);
        taken += usize::from(servers.perform(index, &[store(&next), sign(&next, signature)]) == 2);
    }
    taken
}

/// How many records a writer stores without a signature, making itself known.
fn unsigned_writes(capsules: &Capsules, servers: &mut Servers) -> usize {
    let mut known = Client::new(capsules, servers, Some(&SEEDS[1]), 2, Default::default());
    if known.begin(servers).is_none() {
        return 0;
    }
    let stored = (0..WRITES).filter(|_| known.write_unsigned(servers, b"later").is_some());
    stored.count()
}

pub(super) fn crowd(arena: Arena) -> Vec<Figure> {
    let capsules = Capsules::new(arena.backend);
    let charter = charter();
    let mut servers = Servers::new(&capsules, 2, &charter);
    let mut owner = writer(&charter, 0);
    let without = writes(&mut servers, 0, &mut owner) as f64;
    servers.sync(1, 0);
    let before = servers.hosts[0].rows(RECORD_ROW);
    let junk: Vec<Written> = (0..RECORDS)
        .map(|n| fabricated(&charter, 2, 1_000 + n, b""))
        .collect();
    let operations: Vec<Operation<'_>> = junk.iter().map(store).collect();
    let acknowledged = servers.perform(0, &operations);
    let held = servers.hosts[0].rows(RECORD_ROW).saturating_sub(before);
    let with = writes(&mut servers, 0, &mut owner) as f64;
    let (_, spread) = servers.sync(1, 0);
    let elsewhere = writes(&mut servers, 1, &mut owner) as f64;
    let (is_agreed, _) = servers.sync(1, 0);
    let unsigned = unsigned_writes(&capsules, &mut servers) as f64;
    vec![
        Figure::note("records that the replica said it took", acknowledged as f64),
        Figure::at_most(
            "records of a stranger that the replica holds",
            held as f64,
            MAX_HELD,
        ),
        Figure::at_most(
            "records of a stranger that reach another replica",
            spread as f64,
            2.0 * WRITES as f64,
        ),
        Figure::at_most(
            "replicas that read their store without end",
            servers.stuck() as f64,
            0.0,
        ),
        Figure::at_most("replicas that trapped", servers.trapped() as f64, 0.0),
        Figure::honest("writes of the owner at that replica", without, with),
        Figure::honest("writes of the owner at the other replica", without, elsewhere),
        Figure::honest("writes that a known writer signs later", WRITES as f64, unsigned),
        Figure::honest(
            "anti-entropy that ends in agreement",
            1.0,
            f64::from(u8::from(is_agreed)),
        ),
    ]
}
