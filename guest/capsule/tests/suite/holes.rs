//! A record that comes late is its writer's, however many records of others point to it.

use crate::common::authors::{alice, shared};
use crate::common::server::{Client, Server, created, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{fabricated, owner, view};
use selfsame_capsule::authority::{Authority, sign_record};
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::proof::Prover;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Reader};

/// More records than are remembered to point to one that is missing.
const CROWD: u64 = 1100;

/// Who answers for a record, as its proof says.
fn authorship(
    server: &mut Server,
    client: &mut Client,
    charter: &Charter,
    record: &Written,
) -> Result<Authorship, Code> {
    let given = client
        .ask(server, &[Operation::Prove { record: record.name }])
        .remove(0)?;
    let proof: &[u8] = Reader::new(&given).field().expect("a proof");
    let authority = Authority::new(charter.metadata());
    let mut nothing = Verified::new(0);
    let proven = Prover::default()
        .verify(charter.hasher(), &authority, &mut nothing, &record.name, proof)
        .expect("it verifies");
    Ok(proven.authorship(&view(record)))
}

/// Stores records, and signs them with this key if there is one.
fn store(server: &mut Server, client: &mut Client, records: &[Written], key: Option<&KeyPair>) {
    for records in records.chunks(1000) {
        let signed = |record: &Written| key.map(|key| sign(record.name, sign_record(key, &record.name)));
        let signatures = records.iter().filter_map(signed);
        let operations: Vec<Operation<'_>> = records.iter().map(write).chain(signatures).collect();
        assert!(client.ask(server, &operations).iter().all(Result::is_ok));
    }
}

/// So many records of a writer that point to one, from this sequence on.
fn crowd(charter: &Charter, number: u16, (from, count): (u64, u64), record: &Written) -> Vec<Written> {
    let pointing = |sequence| fabricated(charter, (number, sequence), vec![record.name], b"");
    (from..from + count).map(pointing).collect()
}

/// Two records of Alice's, of which the second points to the first.
fn pair(charter: &Charter) -> [Written; 2] {
    let mut hers = alice(charter);
    [0, 1].map(|_| {
        hers.write(b"hers", &Backpointers::Chain, &[0; 16])
            .expect("it is small")
    })
}

fn keys() -> (KeyPair, KeyPair) {
    (
        KeyPair::from_seed(&crate::common::authors::ALICE),
        KeyPair::from_seed(&crate::common::authors::BOB),
    )
}

#[test]
fn crowd_of_another_writer_hides_no_authorship() {
    for before in [0, 10, CROWD] {
        let charter = shared();
        let (key, bob) = keys();
        let (mut server, mut client) = created(&charter);
        let [missing, pointing] = pair(&charter);
        let crowd = crowd(&charter, 2, (0, 2 * CROWD), &missing);
        let (first, last) = crowd.split_at(before as usize);
        store(&mut server, &mut client, first, Some(&bob));
        store(&mut server, &mut client, &[pointing], Some(&key));
        store(&mut server, &mut client, last, Some(&bob));
        store(&mut server, &mut client, core::slice::from_ref(&missing), None);
        let answers = authorship(&mut server, &mut client, &charter, &missing);
        assert_eq!(answers, Ok(Authorship::SignedBy(1)), "{before} before");
    }
}

/// The crowd comes unsigned, and a signature of all of it later; and Alice's is signed last.
#[test]
fn crowd_that_is_signed_later_hides_no_authorship() {
    let charter = shared();
    let (key, bob) = keys();
    let (mut server, mut client) = created(&charter);
    let [missing, pointing] = pair(&charter);
    let all = crowd(&charter, 2, (0, CROWD), &missing);
    store(&mut server, &mut client, &all, None);
    store(&mut server, &mut client, core::slice::from_ref(&pointing), None);
    let names: Vec<_> = all[CROWD as usize - 30..].iter().map(|one| one.name).collect();
    let merge = fabricated(&charter, (2, 1 << 20), names, b"");
    store(&mut server, &mut client, &[merge], Some(&bob));
    let signature = sign_record(&key, &pointing.name);
    assert!(client.ask(&mut server, &[sign(pointing.name, signature)])[0].is_ok());
    let more = crowd(&charter, 2, (1 << 21, 100), &missing);
    store(&mut server, &mut client, &more, Some(&bob));
    let mut server = server.lose_power();
    store(&mut server, &mut client, core::slice::from_ref(&missing), None);
    let answers = authorship(&mut server, &mut client, &charter, &missing);
    assert_eq!(answers, Ok(Authorship::SignedBy(1)));
}

/// Each writer has signed one of its own that points there.
#[test]
fn missing_record_may_be_any_writers() {
    for number in 0..3 {
        let charter = shared();
        let (mut server, mut client) = created(&charter);
        let missing = fabricated(&charter, (number, 1), Vec::new(), b"late");
        let unsigned = crowd(&charter, 0, (1 << 20, CROWD), &missing);
        store(&mut server, &mut client, &unsigned, None);
        for (number, key) in [(0, owner()), (1, keys().0), (2, keys().1)] {
            let own = crowd(&charter, number, (2, 3), &missing);
            store(&mut server, &mut client, &own, Some(&key));
        }
        store(&mut server, &mut client, core::slice::from_ref(&missing), None);
        let answers = authorship(&mut server, &mut client, &charter, &missing);
        assert_eq!(answers, Ok(Authorship::SignedBy(number)));
    }
}

/// Nothing that is proven and its writer's points there: whoever signed what does vouches for it.
#[test]
fn record_behind_an_unsigned_crowd_is_vouched_for() {
    let charter = shared();
    let (_, bob) = keys();
    let (mut server, mut client) = created(&charter);
    let [missing, _] = pair(&charter);
    let unsigned = crowd(&charter, 0, (0, CROWD), &missing);
    store(&mut server, &mut client, &unsigned, None);
    let by_bob = crowd(&charter, 2, (0, 1), &missing);
    store(&mut server, &mut client, &by_bob, Some(&bob));
    store(&mut server, &mut client, core::slice::from_ref(&missing), None);
    let answers = authorship(&mut server, &mut client, &charter, &missing);
    assert_eq!(answers, Ok(Authorship::VouchedForBy(2)));
}

/// A signature of the record itself counts more than all that point there.
#[test]
fn own_signature_outweighs_a_crowd_of_another_writer() {
    let charter = shared();
    let (key, bob) = keys();
    let (mut server, mut client) = created(&charter);
    let [missing, _] = pair(&charter);
    let all = crowd(&charter, 2, (0, CROWD), &missing);
    store(&mut server, &mut client, &all, Some(&bob));
    store(
        &mut server,
        &mut client,
        core::slice::from_ref(&missing),
        Some(&key),
    );
    let more = crowd(&charter, 2, (CROWD, 10), &missing);
    store(&mut server, &mut client, &more, Some(&bob));
    let answers = authorship(&mut server, &mut client, &charter, &missing);
    assert_eq!(answers, Ok(Authorship::SignedBy(1)));
}
