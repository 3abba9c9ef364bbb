//! What a map's user does in tests.

use std::collections::BTreeMap;

use selfsame_capsule::Result;
use selfsame_capsule::client::{self, Signing};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::map::{Command, Entries, Entry, Freshness, Held, Operation, Place, Range, Reply};
use selfsame_capsule::metadata::{Charter, Readers};

use super::net::{MapUser, config, servers};
use super::server::Server;
use super::{OWNER_SEED, charter_of};

/// What a map should hold
pub(crate) type Model = BTreeMap<String, Vec<u8>>;

pub(crate) fn shared(writers: &[[u8; 32]]) -> Charter {
    let keys = writers.iter().map(|seed| KeyPair::from_seed(seed).public());
    charter_of(HashKind::Blake3, Readers::Everybody, keys.collect())
}

pub(crate) fn user(charter: &Charter, count: usize, seed: Option<[u8; 32]>, entropy: u8) -> MapUser {
    MapUser::new(config(charter, count, seed, entropy))
}

pub(crate) fn begun(charter: &Charter, count: usize) -> (Vec<Server>, MapUser) {
    let mut servers = servers(count);
    let mut owner = user(charter, count, Some(OWNER_SEED), 1);
    let created = owner.run(&mut servers, Command::Capsule(client::Command::Create));
    assert_eq!(created, Ok(Reply::Capsule(client::Reply::Done)));
    (servers, owner)
}

pub(crate) fn set(key: &str, value: &[u8]) -> Operation {
    Operation {
        key: key.into(),
        value: Some(value.to_vec()),
    }
}

pub(crate) fn delete(key: &str) -> Operation {
    Operation {
        key: key.into(),
        value: None,
    }
}

pub(crate) fn write(operations: Vec<Operation>) -> Command {
    Command::Write {
        operations,
        signing: Signing::Last,
    }
}

pub(crate) fn entries(reply: Result<Reply>) -> Result<Entries> {
    match reply? {
        Reply::Entries(entries) => Ok(entries),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn value(entry: &Entry) -> Option<Vec<u8>> {
    match &entry.held {
        Held::Value(value) => Some(value.clone()),
        Held::Nothing => None,
        Held::Unread => panic!("it was to be read"),
    }
}

pub(crate) fn text(entry: &Entry) -> String {
    String::from_utf8(entry.key.clone()).expect("keys are UTF-8")
}

/// What a map user does in these tests.
pub(crate) trait Using {
    fn put(&mut self, servers: &mut [Server], operations: Vec<Operation>);
    fn get(&mut self, servers: &mut [Server], key: &str) -> Result<Option<Vec<u8>>>;
    fn list(&mut self, servers: &mut [Server], start: &str, end: &str, limit: usize) -> Result<Entries>;
    fn history(&mut self, servers: &mut [Server], key: &str, before: Option<Place>, limit: usize) -> Entries;
    fn all(&mut self, servers: &mut [Server]) -> Model;
}

impl Using for MapUser {
    fn put(&mut self, servers: &mut [Server], operations: Vec<Operation>) {
        let written = self.run(servers, write(operations));
        assert!(matches!(written, Ok(Reply::Written(_))), "{written:?}");
    }

    fn get(&mut self, servers: &mut [Server], key: &str) -> Result<Option<Vec<u8>>> {
        let get = Command::Get {
            key: key.into(),
            freshness: Freshness::Newest,
        };
        let found = entries(self.run(servers, get))?;
        assert!(found.entries.len() <= 1 && !found.more);
        Ok(found.entries.first().and_then(value))
    }

    fn list(&mut self, servers: &mut [Server], start: &str, end: &str, limit: usize) -> Result<Entries> {
        let list = Command::List {
            range: Range {
                start: start.into(),
                end: end.into(),
            },
            limit,
            values: true,
            freshness: Freshness::Newest,
        };
        entries(self.run(servers, list))
    }

    fn history(&mut self, servers: &mut [Server], key: &str, before: Option<Place>, limit: usize) -> Entries {
        let history = Command::History {
            key: key.into(),
            before,
            limit,
        };
        entries(self.run(servers, history)).expect("it is read")
    }

    fn all(&mut self, servers: &mut [Server]) -> Model {
        let (mut model, mut start) = (Model::new(), String::new());
        loop {
            let page = self.list(servers, &start, "", 100).expect("it is listed");
            let pairs = page
                .entries
                .iter()
                .map(|entry| (text(entry), value(entry).expect("a value")));
            model.extend(pairs);
            match page.entries.last() {
                Some(last) if page.more => start = text(last) + "\0",
                _ => return model,
            }
        }
    }
}
