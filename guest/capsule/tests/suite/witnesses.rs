//! By which ways a replica proves records, and what it writes anew when there are shorter ones.

use crate::common::single::WriteOne as _;
use std::collections::{BTreeMap, VecDeque};

use crate::common::dice::Dice;
use crate::common::server::{Client, Server, created, sign, write};
use crate::common::{Log, charter, owner, view, writer};
use selfsame_capsule::message::Operation;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Code;

/// Random graphs, wide ones and deep ones, whose records and signatures come in random order, with stops in between: at the end each
/// record is proven by a way that is nearly as short as any that a search over the whole graph finds.
#[test]
fn witnesses_are_short_ways_whatever_the_order() {
    let (mut found, mut least) = (0, 0);
    for seed in 1..=40_u64 {
        let mut dice = Dice(seed);
        let is_deep = seed % 2 == 0;
        let (count, back, unsigned) = if is_deep { (200, 3, 100) } else { (60, 60, 8) };
        let (records, pointers) = graph(&mut dice, count, back);
        let signed: Vec<usize> = (0..records.len()).filter(|_| dice.index(unsigned) == 0).collect();
        let (mut server, mut client) = created(&charter());
        let signer = writer(&charter(), 0, owner(), None);
        let mut order: Vec<(usize, bool)> = (0..records.len()).map(|index| (index, false)).collect();
        dice.shuffle(&mut order);
        for index in &signed {
            let after = order
                .iter()
                .position(|step| *step == (*index, false))
                .expect("it is there");
            let place = after + 1 + dice.index(order.len() - after);
            order.insert(place, (*index, true));
        }
        for (index, is_signature) in order {
            let name = records[index].name;
            let operation = match is_signature {
                true => sign(name, signer.sign(&name)),
                false => write(&records[index]),
            };
            assert!(client.ask(&mut server, &[operation])[0].is_ok());
            if dice.index(20) == 0 {
                server = server.lose_power();
            }
        }
        let steps = shortest(&pointers, &signed);
        for (index, record) in records.iter().enumerate() {
            client.cache.clear();
            client.session = record.name.0[..16].try_into().expect("sixteen bytes");
            match steps.get(&index) {
                None => assert_eq!(
                    client.proves(&mut server, &charter(), record.name),
                    Err(Code::Unproven),
                    "seed {seed}"
                ),
                Some(steps) => {
                    let given = client.ask(&mut server, &[Operation::Prove { record: record.name }]);
                    let given = given[0].as_ref().expect("it is proven");
                    let headers = usize::from(u16::from_le_bytes([given[5], given[6]]));
                    assert!(
                        headers >= *steps && headers <= 2 * steps + 16,
                        "seed {seed}: {headers} in place of {steps}"
                    );
                    (found, least) = (found + headers, least + steps.max(&1));
                    assert!(
                        client.proves(&mut server, &charter(), record.name).is_ok(),
                        "seed {seed}"
                    );
                }
            }
        }
    }
    assert!(100 * found < 101 * least, "{found} headers in place of {least}");
}

/// Records that each point to some before them, and to which.
/// How many headers prove the first record of a chain whose end is signed, before and after a signed record points to its middle, and
/// how many records of the chain were written anew for it.
fn shortened(count: usize) -> (u16, u16, usize) {
    let (mut server, mut client) = created(&charter());
    let mut log = Log::new(charter(), count, &Backpointers::Chain);
    let (first, middle, last) = (log.name(0), log.name(count / 2), log.name(count - 1));
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    operations.push(sign(last, log.writer.sign(&last)));
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    let headers = |server: &mut Server, client: &mut Client| {
        client.cache.clear();
        let given = client.ask(server, &[Operation::Prove { record: first }]);
        let given = given[0].as_ref().expect("it is proven");
        u16::from_le_bytes([given[5], given[6]])
    };
    let before = headers(&mut server, &mut client);

    let pointers = Backpointers::Own(vec![middle]);
    let shortcut = log.writer.write(b"", &pointers, &[0; 16]).expect("it is small");
    let signature = log.writer.sign(&shortcut.name);
    let stored = server.store.clone();
    let given = client.ask(&mut server, &[write(&shortcut), sign(shortcut.name, signature)]);
    assert!(given.iter().all(Result::is_ok));
    let records = stored.iter().filter(|(key, _)| key.get(32) == Some(&b'R'));
    let changed = records.filter(|(key, value)| server.store.get(*key) != Some(*value));
    let changed = changed.count();
    (before, headers(&mut server, &mut client), changed)
}

#[test]
fn a_shortcut_is_noted_where_it_counts() {
    assert_eq!(shortened(40), (39, 21, 1));
    // That of its middle, and those of which less than half is left.
    assert_eq!(shortened(200), (199, 101, 81));
}

/// So many records, each of which points to others that came at most so many before it.
fn graph(dice: &mut Dice, count: usize, back: usize) -> (Vec<Written>, Vec<Vec<usize>>) {
    let mut writer = writer(&charter(), 0, owner(), None);
    let (mut records, mut pointers): (Vec<Written>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for index in 0..count {
        let several = if index == 0 { 0 } else { 1 + dice.index(3) };
        let mut own: Vec<usize> = (0..several)
            .map(|_| index - 1 - dice.index(index.min(back)))
            .collect();
        own.sort_unstable();
        own.dedup();
        if let Some(first) = own.first() {
            writer.follow(records[*first].name);
        }
        let names = own.iter().map(|index| records[*index].name).collect();
        let written = writer
            .write(
                &index.to_string().into_bytes(),
                &Backpointers::Own(names),
                &[0; 16],
            )
            .expect("it is small");
        assert_eq!(view(&written).backpointers().count(), own.len());
        records.push(written);
        pointers.push(own);
    }
    (records, pointers)
}

/// How many steps each record is away from a signed one, by a search over the whole graph.
fn shortest(pointers: &[Vec<usize>], signed: &[usize]) -> BTreeMap<usize, usize> {
    let mut steps: BTreeMap<usize, usize> = signed.iter().map(|index| (*index, 0)).collect();
    let mut queue: VecDeque<usize> = signed.iter().copied().collect();
    while let Some(at) = queue.pop_front() {
        for to in &pointers[at] {
            let further = steps[&at] + 1;
            if !steps.contains_key(to) {
                steps.insert(*to, further);
                queue.push_back(*to);
            }
        }
    }
    steps
}
