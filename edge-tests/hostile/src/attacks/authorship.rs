//! Records that one writer makes in the name of another.

use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::client::{Command, Reply};

use super::Arena;
use crate::capsules::{Capsules, Client, Lie, SEEDS, Servers, charter, fabricated, sign, store, writer};
use crate::figure::Figure;
use crate::single::WriteOne as _;

const SERVERS: usize = 3;
/// Who is framed: another writer, and the owner.
const VICTIMS: [u16; 2] = [2, 0];
/// Sequences that leave no room for others, or none at all.
const SEQUENCES: [u64; 3] = [1 << 40, u64::MAX - 1, u64::MAX];

/// Sequence numbers that a writer leaves out when it is stopped, at most (`RESERVED` of `client/pen.rs`).
const LEFT_OUT: u64 = 1 << 14;

/// A record of writer 1 that points to these, with its signature.
fn pointing_to(pointers: &[&Written]) -> (Written, selfsame_capsule::keys::Signature) {
    let mut accomplice = writer(&charter(), 1);
    let names = pointers.iter().map(|written| written.name).collect();
    let written = accomplice.write(b"mine", &Backpointers::Own(names), &[0; 16]);
    let written = written.expect("it is small");
    let signature = accomplice.sign(&written.name);
    (written, signature)
}

pub(super) fn frame(arena: Arena) -> Vec<Figure> {
    let capsules = Capsules::new(arena.backend);
    let charter = charter();
    let (mut forks, mut convicted, mut readable, mut taken) = (0, 0, 0, 0);
    let mut honest = 0;
    for victim in VICTIMS {
        let mut servers = Servers::new(&capsules, SERVERS, &charter);
        let one = fabricated(&charter, victim, 7, b"pay alice");
        let other = fabricated(&charter, victim, 7, b"pay bob");
        let (pointing, signature) = pointing_to(&[&one, &other]);
        let operations = [
            store(&one),
            store(&other),
            store(&pointing),
            sign(&pointing, signature),
        ];
        for index in 0..SERVERS {
            taken += servers.perform(index, &operations);
        }
        let mut reader = Client::new(&capsules, &servers, None, 2, Default::default());
        readable += reader.read(&mut servers, &[one.name.0, other.name.0]);
        let fresh = reader.fresh(&mut servers);
        forks += fresh.map_or(0, |fresh| fresh.forks.len());
        let accused = reader.run(&mut servers, |command| Command::Accuse {
            command,
            one: one.name.0,
            other: other.name.0,
        });
        convicted += usize::from(accused.is_some_and(|said| matches!(said.reply(), Reply::Fork { .. })));
        let seed = &SEEDS[usize::from(victim)];
        let mut victim = Client::new(&capsules, &servers, Some(seed), 2, Default::default());
        let begun = victim.begin(&mut servers);
        let written = begun.and_then(|_| victim.write(&mut servers, b"true"));
        honest += written.map_or(0, |name| reader.read(&mut servers, &[name]));
    }
    vec![
        Figure::note("operations that the servers took", taken as f64),
        Figure::at_most(
            "fabricated records read as signed by the victim",
            readable as f64,
            0.0,
        ),
        Figure::at_most(
            "forks that a reader reports of those who signed nothing",
            forks as f64,
            0.0,
        ),
        Figure::at_most("honest writers convicted", convicted as f64, 0.0),
        Figure::honest(
            "writes of the victims that are read",
            VICTIMS.len() as f64,
            honest as f64,
        ),
    ]
}

pub(super) fn burn(arena: Arena) -> Vec<Figure> {
    let capsules = Capsules::new(arena.backend);
    let (mut before, mut during, mut later, mut deceived, mut burnt) = (0, 0, 0, 0, 0);
    let mut cases = 0;
    for victim in VICTIMS {
        for sequence in SEQUENCES {
            cases += 1;
            let case = play(&capsules, victim, sequence);
            before += usize::from(case.before);
            during += usize::from(case.during);
            later += usize::from(case.later);
            deceived += usize::from(case.is_reader_deceived);
            burnt += usize::from(case.is_burnt);
        }
    }
    let before = before as f64;
    vec![
        Figure::note("cases", f64::from(cases)),
        Figure::at_most("victims whose sequence numbers were used up", burnt as f64, 0.0),
        Figure::at_most(
            "readers given a fabricated record as newest",
            deceived as f64,
            0.0,
        ),
        Figure::honest(
            "victims that write on while one of three servers lies",
            before,
            during as f64,
        ),
        Figure::honest(
            "victims that write on when all servers are honest",
            before,
            later as f64,
        ),
    ]
}

/// What one case came to
#[derive(Debug, Default)]
struct Case {
    before: bool,
    during: bool,
    later: bool,
    is_reader_deceived: bool,
    is_burnt: bool,
}

fn play(capsules: &Capsules, victim: u16, sequence: u64) -> Case {
    let charter = charter();
    let mut case = Case::default();
    let mut servers = Servers::new(capsules, SERVERS, &charter);
    let seed = &SEEDS[usize::from(victim)];
    let writes = |servers: &mut Servers, client: &mut Client, content: &[u8]| {
        let sequence = client.begin(servers)?;
        client.write(servers, content).map(|_| sequence)
    };
    let mut client = Client::new(capsules, &servers, Some(seed), 2, Default::default());
    let first = writes(&mut servers, &mut client, b"acknowledged");
    case.before = first.is_some();
    let fabricated = fabricated(&charter, victim, sequence, b"never written");
    let (pointing, signature) = pointing_to(&[&fabricated]);
    servers.lie = Some(Lie {
        fabricated: fabricated.clone(),
        pointing,
        signature,
        is_newest: false,
    });
    let mut reader = Client::new(capsules, &servers, None, 2, Default::default());
    let fresh = reader.fresh(&mut servers);
    case.is_reader_deceived = fresh.is_some_and(|fresh| fresh.heads.contains(&fabricated.name.0));
    let mut again = Client::new(
        capsules,
        &servers,
        Some(seed),
        SERVERS as u32,
        client.store().clone(),
    );
    let next = writes(&mut servers, &mut again, b"next");
    if let Some(lie) = &mut servers.lie {
        lie.is_newest = true;
    }
    // What the writer has not signed is no answer: two others are needed.
    let mut told = Client::new(capsules, &servers, Some(seed), 2, again.store().clone());
    let newest = writes(&mut servers, &mut told, b"told");
    case.during = next.is_some() && newest.is_some();
    servers.lie = None;
    let mut third = Client::new(capsules, &servers, Some(seed), 2, told.store().clone());
    let later = writes(&mut servers, &mut third, b"later");
    case.later = later.is_some();
    // The records before were written under attack, or not at all.
    let is_own = |sequence: Option<u64>, most: u64| {
        sequence
            .zip(first)
            .is_some_and(|(now, first)| now - first <= most)
    };
    let mut written = [next, newest, later].into_iter().zip(1..);
    case.is_burnt = written.any(|(sequence, after)| !is_own(sequence, after * (1 + LEFT_OUT)));
    case
}
