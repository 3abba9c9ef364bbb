//! A client writes and reads through quorums of servers.

mod common;

use common::net::{User, config, servers};
use common::server::Server;
use common::{OWNER_SEED, charter};
use selfsame_capsule::client::{Command, Reply, Signing, Start};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::writer::Backpointers;

fn write(contents: &[&str]) -> Command {
    Command::Write {
        contents: contents
            .iter()
            .map(|content| content.as_bytes().to_vec())
            .collect(),
        backpointers: Backpointers::Shortcuts,
        signing: Signing::Last,
    }
}

/// Servers, and an owner that writes at them.
fn begun(count: usize) -> (Vec<Server>, User) {
    let mut servers = servers(count);
    let mut owner = User::new(config(&charter(), count, Some(OWNER_SEED), 1));
    assert_eq!(owner.run(&mut servers, Command::Create), Ok(Reply::Done));
    owner.begin(&mut servers);
    (servers, owner)
}

fn reader(count: usize) -> User {
    let mut config = config(&charter(), count, None, 2);
    config.metadata = None;
    User::new(config)
}

#[test]
fn what_is_written_is_read_proven_and_the_newest() {
    let (mut servers, mut owner) = begun(3);
    let names = owner.written(&mut servers, write(&["one", "two", "three"]));
    let more = owner.written(&mut servers, write(&["four"]));
    let mut reader = reader(3);
    assert_eq!(reader.read(&mut servers, names[1]), Ok(b"two".to_vec()));
    assert_eq!(reader.heads(&mut servers), more);
    let records: Vec<RecordName> = names.iter().chain(&more).copied().collect();
    let proven = reader.run(&mut servers, Command::Prove { records });
    assert_eq!(proven, Ok(Reply::Proven(vec![Ok(()); 4])));
    assert!(reader.fresh(&mut servers).expect("fresh").agree());
    assert!(Start::Resume == Start::Resume);
}
