//! What comes to readers of capsules: responses of servers, exported files and proof files. Nothing that is false is believed.

use selfsame_capsule::authority::Evidence;
use selfsame_capsule::client::{Client, Command, Config, Content, Effect, Reply};
use selfsame_capsule::file::{Entry, Exporter, Plan, ProofFile, ProofVerifier, Verifier};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::proof::{Anchor, encode_proof};
use selfsame_capsule::record::Record;
use selfsame_capsule::replica::{Limits, Replica};
use selfsame_capsule::writer::Written;
use zeroize::Zeroizing;

use super::Target;
use super::capsule::{charter, records};
use super::decode::target;
use super::replica::{SOURCE, Store, stored, work};
use crate::mutate::Shape;

const NOW: u64 = 1_800_000_000_000;
const SERVER: [u8; 32] = [9; 32];

/// Responses and files.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![
        target("capsule-response", 60, Shape::Bytes, response_seeds, run_response),
        target("capsule-file", 60, Shape::Bytes, file_seeds, run_file),
        target(
            "capsule-proof-file",
            60,
            Shape::Bytes,
            proof_file_seeds,
            run_proof_file,
        ),
    ]
}

fn commands() -> Vec<Command> {
    let (_, records) = records();
    let names: Vec<RecordName> = records.iter().map(|record| record.name).collect();
    vec![
        Command::Read {
            records: names.clone(),
        },
        Command::QueryFresh,
        Command::Create,
        Command::ReadParts {
            parts: vec![(names[4], 0), (names[4], 3)],
        },
        Command::Accuse {
            records: [names[0], names[1]],
        },
    ]
}

/// A client that has asked its server for one thing; the request, and what the server is asked.
fn asking(command: Command) -> (Client, u32, Vec<u8>) {
    let server = KeyPair::from_seed(&SERVER).public();
    let config = Config {
        metadata: Some(charter().encoded().to_vec()),
        seed: Some(Zeroizing::new([1; 32])),
        ..Config::new(charter().name(), vec![server], [5; 32])
    };
    let mut client = Client::new(config).expect("the configuration is right");
    client.command(NOW, 1, command);
    while let Some(effect) = client.next_effect() {
        match effect {
            Effect::Get { tag, .. } => client.values(NOW, tag, &[]),
            Effect::Send { request, bytes, .. } => return (client, request, bytes.to_vec()),
            _ => {}
        }
    }
    panic!("it asks its server");
}

fn response_seeds() -> Vec<Vec<u8>> {
    let mut replica = Replica::new(KeyPair::from_seed(&SERVER), Limits::default());
    let mut store = Store::new();
    replica.request(NOW, 1, SOURCE, stored());
    work(&mut replica, &mut store);
    let seed = |(kind, command): (usize, Command)| {
        let (_, _, bytes) = asking(command);
        replica.request(NOW, 2, SOURCE, bytes);
        let response = work(&mut replica, &mut store).responses.remove(0).1;
        [&[kind as u8], response.as_slice()].concat()
    };
    commands().into_iter().enumerate().map(seed).collect()
}

fn run_response(input: &[u8]) {
    let Some((kind, response)) = input.split_first() else {
        return;
    };
    let mut commands = commands();
    let command = commands.swap_remove(usize::from(*kind) % commands.len());
    let (mut client, request, _) = asking(command);
    client.response(NOW + 5, request, response);
    // What comes twice, or too late, changes nothing.
    client.response(NOW + 6, request, response);
    client.wake(NOW + 100_000);
    let mut replies = 0;
    while let Some(effect) = client.next_effect() {
        if let Effect::Reply { result, .. } = effect {
            replies += 1;
            if let Ok(reply) = result {
                check(&reply);
            }
        }
    }
    assert_eq!(replies, 1, "a command has one reply");
}

/// All that can be true of the capsule.
fn check(reply: &Reply) {
    let (_, known) = records();
    match reply {
        Reply::Records(got) => {
            for (got, known) in got
                .iter()
                .zip(&known)
                .filter_map(|(got, known)| Some((got.as_ref().ok()?, known)))
            {
                let header = HeaderView::decode(&known.header).expect("it was just made");
                assert_eq!(got.header.view().encoded(), header.encoded());
                if let Content::Plain(content) = &got.content {
                    assert_eq!(&content[..], b"content");
                }
            }
        }
        Reply::Parts(parts) => {
            for (part, right) in parts.iter().zip([b"a", b"d"]) {
                assert!(part.as_ref().map_or(true, |part| part[..] == right[..]));
            }
        }
        Reply::Fresh(fresh) => {
            for head in &fresh.heads {
                assert!(known.iter().any(|record| record.name == head.name));
            }
        }
        Reply::Fork(_) => panic!("there is no fork"),
        _ => {}
    }
}

fn view(written: &Written) -> HeaderView<'_> {
    HeaderView::decode(&written.header).expect("it was just made")
}

fn file_seeds() -> Vec<Vec<u8>> {
    let (writer, records) = records();
    let mut plan = Plan::new();
    for record in &records {
        plan.add(record.name, &view(record)).expect("they are few");
    }
    let mut out = Vec::new();
    let mut exporter = Exporter::new(charter(), 0, &mut out);
    while let Some(name) = plan.next_record() {
        let found = records.iter().find(|record| record.name == name);
        let written = found.expect("it was added");
        let record = Record {
            header: view(written),
            body: &written.body,
        };
        let signature = writer.sign(&name);
        exporter
            .record(&record, Some(&signature), &mut out)
            .expect("it is its turn");
        plan.came(&view(written));
    }
    exporter.finish(&mut out);
    vec![out]
}

/// What is accepted is written again byte for byte; in whatever pieces it comes, the same is accepted, or found wrong at the same
/// place.
fn run_file(input: &[u8]) {
    let mut again = Vec::new();
    let mut exporter = None;
    let mut has_epochs = false;
    let mut whole = Verifier::default();
    let pushed = whole.push(input, &mut |entry| match entry {
        Entry::Capsule(charter) => exporter = Some(Exporter::new(charter.clone(), 0, &mut again)),
        Entry::Epoch(..) => has_epochs = true,
        Entry::Record(record) | Entry::Head(_, record, _) => {
            let signature = match entry {
                Entry::Head(_, _, signature) => Some(signature),
                _ => None,
            };
            if let Some(exporter) = exporter.as_mut().filter(|_| !has_epochs) {
                let written = exporter.record(&record, signature.as_ref(), &mut again);
                written.expect("it came in order");
            }
        }
    });
    let mut pieces = Verifier::default();
    let in_pieces = input
        .chunks(7)
        .try_for_each(|chunk| pieces.push(chunk, &mut |_| {}));
    let ended = pushed.and_then(|()| whole.finish());
    let ended_in_pieces = in_pieces.and_then(|()| pieces.finish());
    assert_eq!(ended, ended_in_pieces);
    if let (Ok(_), Some(exporter)) = (ended, exporter)
        && !has_epochs
    {
        exporter.finish(&mut again);
        assert_eq!(again, input);
    }
}

fn proof_file_seeds() -> Vec<Vec<u8>> {
    let (writer, records) = records();
    let charter = charter();
    let proof = |path: &[usize]| {
        let mut proof = Vec::new();
        let headers: Vec<&[u8]> = path
            .iter()
            .map(|index| records[*index].header.as_slice())
            .collect();
        let anchor = Anchor::Signed(writer.sign(&records[path[0]].name));
        encode_proof(&anchor, headers.into_iter(), &mut proof);
        proof
    };
    let file = |index: usize, path: &[usize], body: Option<&[u8]>| {
        let evidence = Evidence {
            header: records[index].header.clone(),
            proof: proof(path),
        };
        ProofFile {
            metadata: charter.encoded(),
            epochs: &[],
            header: &evidence.header,
            proof: &evidence.proof,
            body,
        }
        .encode()
    };
    vec![file(4, &[4], None), file(1, &[4, 3, 2], Some(&records[1].body))]
}

/// Nobody proves a record of this owner that the owner has not written.
fn run_proof_file(input: &[u8]) {
    let Ok(proven) = ProofVerifier::default().verify(input) else {
        return;
    };
    if proven.charter.name() == charter().name() {
        let (_, records) = records();
        let known = records.iter().find(|record| record.name == proven.name);
        let known = known.expect("a record that nobody has written was believed");
        assert!(proven.body.is_none_or(|body| body == known.body));
    }
}
