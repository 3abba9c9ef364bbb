//! A whole capsule out of a replica into a file and into another replica: nothing is lost on the way, and nothing comes in that
//! its writers have not signed.

use crate::common::net::{User, config, servers};
use crate::common::server::{Map, Server};
use crate::common::{OWNER_SEED, charter_of};
use bytes::Bytes;
use selfsame_capsule::Refusal;
use selfsame_capsule::archive::{Export, Exported, Import};
use selfsame_capsule::client::{Command, Period, Reply, Signing, Start};
use selfsame_capsule::epoch::ReaderKeys;
use selfsame_capsule::file::{Damage, Summary, Verifier};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn charter() -> Charter {
    charter_of(HashKind::Sha256, Readers::Granted, Vec::new())
}

fn write(contents: impl IntoIterator<Item = String>, backpointers: Backpointers) -> Command {
    Command::Write {
        contents: contents.into_iter().map(Bytes::from).collect(),
        backpointers,
        signing: Signing::Last,
    }
}

/// A capsule whose first epoch record comes after other records, with a second writer, branches, a merge and sub-records.
fn built() -> Server {
    let mut servers = servers(1);
    let mut owner = User::new(config(&charter(), 1, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    let texts = (0..600).map(|number| format!("record {number}"));
    let names = owner.written(&mut servers, write(texts, Backpointers::Shortcuts));
    let seed = [33; 32];
    owner.written(
        &mut servers,
        Command::Govern {
            added: vec![KeyPair::from_seed(&seed).public()],
            revoked: Vec::new(),
            readers: vec![*ReaderKeys::from_seed(&seed).public()],
            period: Period::Next,
        },
    );
    let mut writer = User::new(config(&charter(), 1, Some(seed), 2));
    writer.begin(&mut servers);
    let branch = writer.written(
        &mut servers,
        write(
            (0..9).map(|number| format!("by another {number}")),
            Backpointers::Chain,
        ),
    );
    let start = Start::After(names[300]);
    owner
        .run(&mut servers, Command::Init { start })
        .expect("it begins");
    owner.written(
        &mut servers,
        Command::Commit {
            subrecords: vec!["part".into(); 9],
            backpointers: Backpointers::Own(vec![branch[3]]),
            signing: Signing::Last,
        },
    );
    servers.remove(0)
}

/// The file of the capsule as a replica gives it.
fn exported(server: &mut Server) -> Result<(Vec<u8>, Summary), Refusal> {
    let (file, summary, _) = exported_in_requests(server)?;
    Ok((file, summary))
}

/// The file of the capsule as a replica gives it, and the number of requests.
fn exported_in_requests(server: &mut Server) -> Result<(Vec<u8>, Summary, usize), Refusal> {
    let mut export = Export::new(charter().name());
    let mut file = Vec::new();
    let mut request = export.begin();
    for requests in 1.. {
        let response = server.respond(request);
        match export.take(&response, &mut file)? {
            Exported::Ask(next) => request = next,
            Exported::Done(summary) => return Ok((file, summary, requests)),
        }
    }
    unreachable!("an export ends")
}

/// Stores a file at a replica, so many bytes at a time.
fn imported(server: &mut Server, file: &[u8], chunk: usize) -> Result<Summary, Damage> {
    let mut import = Import::default();
    let mut store = |import: &mut Import| {
        while let Some(request) = import.ask() {
            import.take(&server.respond(request))?;
        }
        Ok(())
    };
    for chunk in file.chunks(chunk) {
        import.push(chunk)?;
        store(&mut import)?;
    }
    let summary = import.finish()?;
    store(&mut import)?;
    Ok(summary)
}

#[test]
fn what_was_exported_and_imported_is_exported_again_byte_for_byte() {
    let mut first = built();
    let (file, summary) = exported(&mut first).expect("a file");
    let mut verifier = Verifier::default();
    verifier.push(&file, &mut |_| {}).expect("it is right");
    assert_eq!(verifier.finish(), Ok(summary));
    // Beside those that are written an epoch record, and all are proven.
    assert_eq!((summary.records, summary.holes), (611, 0));
    for chunk in [file.len(), 4096, 61] {
        let mut second = Server::new(Map::new());
        assert_eq!(imported(&mut second, &file, chunk), Ok(summary));
        // What is there already does no harm.
        assert_eq!(imported(&mut second, &file, chunk), Ok(summary));
        let (again, _) = exported(&mut second).expect("a file");
        assert!(again == file, "in pieces of {chunk}");
    }
}

#[test]
fn export_requests_many_records_at_a_time() {
    let (_, summary, requests) = exported_in_requests(&mut built()).expect("a file");
    assert_eq!(summary.records, 611);
    assert!(requests < 40, "{requests} requests");
}

#[test]
fn records_beyond_one_answer_are_requested_again() {
    const RECORDS: usize = 20;
    let mut servers = servers(1);
    let mut owner = User::new(config(&charter(), 1, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    for number in 0..RECORDS {
        let content = format!("{number}").repeat(900_000 / if number < 10 { 1 } else { 2 });
        owner.written(&mut servers, write([content], Backpointers::Chain));
    }
    let (file, summary) = exported(&mut servers[0]).expect("a file");
    let mut verifier = Verifier::default();
    verifier.push(&file, &mut |_| {}).expect("it is right");
    assert_eq!(verifier.finish(), Ok(summary));
    assert_eq!((summary.records, summary.holes), (RECORDS as u64, 0));
}

#[test]
fn a_replica_that_cannot_or_will_not_give_all_is_named() {
    let none = exported(&mut Server::new(Map::new())).expect_err("there is no such capsule");
    assert_eq!(none.code, Code::NoCapsule);
    let mut export = Export::new(charter().name());
    let request = export.begin();
    let mut response = built().respond(request);
    // Within the signature of the heads.
    let cut = response.len() - 20;
    // The metadata begin there.
    response[20] ^= 1;
    assert!(export.take(&response, &mut Vec::new()).is_err());
    response[20] ^= 1;
    let mut export = Export::new(charter().name());
    _ = export.begin();
    assert!(export.take(&response[..cut], &mut Vec::new()).is_err());
}

/// A replica may cut an answer short, but not by all of it.
#[test]
fn a_replica_for_which_each_record_is_too_large_is_given_up() {
    let mut export = Export::new(charter().name());
    let mut response = built().respond(export.begin());
    for _ in 0..9 {
        match export.take(&response, &mut Vec::new()) {
            Ok(Exported::Ask(_)) => {}
            ended => return assert_eq!(ended.expect_err("it gives nothing").code, Code::TooLarge),
        }
        // Version, and that the request as a whole is not refused.
        response.truncate(7);
        for _ in 0..1024 {
            response.extend(Code::TooLarge.as_u16().to_le_bytes());
            response.extend([0; 4]);
        }
    }
    panic!("it goes on");
}

#[test]
fn of_a_damaged_file_only_what_comes_before_the_damage_is_stored() {
    let (file, _) = exported(&mut built()).expect("a file");
    for at in (0..file.len()).step_by(file.len() / 40) {
        let mut wrong = file.clone();
        wrong[at] ^= 4;
        let mut server = Server::new(Map::new());
        let damage = imported(&mut server, &wrong, 1000).expect_err("it was changed");
        assert!(damage.at <= at as u64 + 1_000_000, "{damage}");
        // What is proven there is what was written.
        match exported(&mut server) {
            Ok((part, summary)) => {
                assert!(summary.records < 611, "byte {at}");
                let mut verifier = Verifier::default();
                verifier.push(&part, &mut |_| {}).expect("it is right");
            }
            Err(refusal) => assert!(
                matches!(refusal.code, Code::NoCapsule | Code::Unproven),
                "byte {at}: {refusal}"
            ),
        }
    }
    let short = imported(&mut Server::new(Map::new()), &file[..file.len() - 1], 4096);
    assert_eq!(short.expect_err("it is cut short").code, Code::BadFile);
}

#[test]
fn a_file_of_another_capsule_or_none_is_refused_at_its_place() {
    let damage = imported(&mut Server::new(Map::new()), b"selfsame capsule 2\n", 4096);
    let expected = Damage {
        code: Code::BadFile,
        at: 17,
    };
    assert_eq!(damage, Err(expected));
}
