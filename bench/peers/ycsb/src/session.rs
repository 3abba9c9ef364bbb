//! The client of the owner of a capsule, through its public interface: commands in, replies out.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use bench_pair::Outcome;
use bytes::Bytes;
use selfsame_capsule::client::{Client, Command, Config, Effect, Reply, Start};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::verifier::SharedVerifier;

use crate::server::{Link, now_ms, server_key};

/// A client with what it keeps
pub(crate) struct Session {
    config: Config,
    client: Client,
    kept: HashMap<Vec<u8>, Bytes>,
    replies: VecDeque<(u32, Reply)>,
    last: u32,
}

impl Session {
    /// Creates the capsule of a number at a server, and begins to write it; bodies are sealed. The verification cache has
    /// 2^`slots_log2` slots.
    ///
    /// # Errors
    /// What the client or the server refuses, here and in all that follows.
    pub(crate) fn create(
        number: u32,
        slots_log2: u8,
        verifier: &SharedVerifier,
        link: &mut dyn Link,
    ) -> Outcome<Self> {
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
        config.verifier = Rc::clone(verifier);
        let mut session = Self {
            client: open(&config)?,
            config,
            kept: HashMap::new(),
            replies: VecDeque::new(),
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

    /// Gives commands all at once, and waits; their replies, in their order.
    pub(crate) fn run(&mut self, commands: Vec<Command>, link: &mut dyn Link) -> Outcome<Vec<Reply>> {
        let first = self.last;
        let mut replies: Vec<Option<Reply>> = commands.iter().map(|_| None).collect();
        for command in commands {
            self.give(command, link)?;
        }
        while replies.iter().any(Option::is_none) {
            let (command, reply) = self.reply(link)?;
            let place = command
                .checked_sub(first)
                .ok_or("another command was under way")?;
            replies[place as usize] = Some(reply);
        }
        Ok(replies.into_iter().flatten().collect())
    }

    /// Gives a command; the number of its reply.
    pub(crate) fn give(&mut self, command: Command, link: &mut dyn Link) -> Outcome<u32> {
        let number = self.last;
        self.last += 1;
        self.client.command(now_ms(), number, command);
        self.carry_out(link)?;
        Ok(number)
    }

    /// The names of the records that a command writes.
    pub(crate) fn names(&self, command: u32) -> Outcome<&[RecordName]> {
        let names = self.client.writing(command);
        names.ok_or_else(|| "a command does not write".into())
    }

    /// Waits for the reply to some command.
    pub(crate) fn reply(&mut self, link: &mut dyn Link) -> Outcome<(u32, Reply)> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Ok(reply);
            }
            let (request, response) = link.receive()?.ok_or("a command had no reply")?;
            self.client.response(now_ms(), request, &response);
            self.carry_out(link)?;
        }
    }

    fn carry_out(&mut self, link: &mut dyn Link) -> Outcome<()> {
        while let Some(effect) = self.client.next_effect() {
            match effect {
                Effect::Send { request, bytes, .. } => link.send((request, bytes))?,
                Effect::Reply { command, result } => {
                    let reply = result.map_err(|refusal| refusal.to_string())?;
                    self.replies.push_back((command, reply));
                }
                other => self.keep(other),
            }
        }
        Ok(())
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
            Effect::Commit { tag, batch, .. } => {
                for row in batch.rows() {
                    match row.value {
                        Some(value) => _ = self.kept.insert(row.key.to_vec(), Bytes::copy_from_slice(value)),
                        None => _ = self.kept.remove(row.key),
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
