//! The client of the owner of a capsule, through its public interface: commands in, replies out.

use std::collections::HashMap;
use std::rc::Rc;

use bench_pair::Outcome;
use selfsame_capsule::client::{Client, Command, Config, Effect, Reply, Start};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::replica::Change;

use crate::server::{Link, Message, now_ms, server_key};

/// A client with what it keeps
pub(crate) struct Session {
    config: Config,
    client: Client,
    kept: HashMap<Vec<u8>, Rc<[u8]>>,
    last: u32,
}

impl Session {
    /// Creates the capsule of a number at a server, and begins to write it; bodies are sealed. The verification cache has
    /// 2^`slots_log2` slots.
    ///
    /// # Errors
    /// What the client or the server refuses, here and in all that follows.
    pub(crate) fn create(number: u32, slots_log2: u8, link: &mut dyn Link) -> Outcome<Self> {
        let mut seed = [1; 32];
        seed[..4].copy_from_slice(&number.to_le_bytes());
        let owner = KeyPair::from_seed(&seed);
        let metadata = Metadata {
            hash: HashKind::Blake3,
            readers: Readers::Granted,
            created_ms: 0,
            salt: [0; 16],
            owner: owner.public(),
            writers: Vec::new(),
            description: "a benchmark".into(),
        };
        let charter = Charter::sign(metadata, &owner).map_err(|refusal| refusal.to_string())?;
        let mut config = Config::new(charter.name(), Vec::from([server_key().public()]), seed);
        config.metadata = Some(charter.encoded().to_vec());
        config.seed = Some(seed.into());
        config.slots_log2 = slots_log2;
        let mut session = Self {
            client: open(&config)?,
            config,
            kept: HashMap::new(),
            last: 0,
        };
        let start = Start::Resume;
        session.run(Vec::from([Command::Create]), link)?;
        session.run(Vec::from([Command::Init { start }]), link)?;
        Ok(session)
    }

    /// Begins anew with what it keeps, nothing verified.
    pub(crate) fn forget(&mut self, link: &mut dyn Link) -> Outcome<()> {
        self.client = open(&self.config)?;
        let start = Start::Resume;
        self.run(Vec::from([Command::Init { start }]), link).map(drop)
    }

    /// Gives commands all at once; their replies, in their order.
    pub(crate) fn run(&mut self, commands: Vec<Command>, link: &mut dyn Link) -> Outcome<Vec<Reply>> {
        let first = self.last;
        let mut replies: Vec<Option<Reply>> = commands.iter().map(|_| None).collect();
        for command in commands {
            self.client.command(now_ms(), self.last, command);
            self.last += 1;
        }
        loop {
            let mut requests = Vec::new();
            while let Some(effect) = self.client.next_effect() {
                match effect {
                    Effect::Send { request, bytes, .. } => requests.push((request, bytes.to_vec())),
                    Effect::Reply { command, result } => {
                        let reply = result.map_err(|refusal| refusal.to_string())?;
                        replies[(command - first) as usize] = Some(reply);
                    }
                    other => self.keep(other),
                }
            }
            if requests.is_empty() {
                break;
            }
            self.receive(link.ask(requests)?);
        }
        let replies = replies.into_iter().collect::<Option<_>>();
        replies.ok_or_else(|| "a command had no reply".into())
    }

    fn receive(&mut self, responses: Vec<Message>) {
        for (request, response) in responses {
            self.client.response(now_ms(), request, &response);
        }
    }

    fn keep(&mut self, effect: Effect) {
        match effect {
            Effect::Get { tag, keys } => {
                let value = |key: Vec<u8>| (self.kept.get(&key).cloned(), key);
                let values: Vec<_> = keys
                    .into_iter()
                    .map(value)
                    .map(|(value, key)| (key, value))
                    .collect();
                self.client.values(now_ms(), tag, &values);
            }
            Effect::Commit { tag, changes, .. } => {
                for change in changes {
                    match change {
                        Change::Put(key, value) => _ = self.kept.insert(key, value),
                        Change::Delete(key) => _ = self.kept.remove(&key),
                    }
                }
                self.client.committed(now_ms(), tag, true);
            }
            Effect::Send { .. } | Effect::Reply { .. } => {}
        }
    }
}

fn open(config: &Config) -> Outcome<Client> {
    Client::new(config.clone()).map_err(|refusal| refusal.to_string())
}
