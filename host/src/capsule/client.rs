use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use selfsame_codec::client::{Command, Reply};
use selfsame_codec::{BatchWriter, Code, Field, Malformed};
use tokio::sync::{Mutex, oneshot};

use super::builder::CapsuleBuilder;
use super::engine::{Event, Orders};
use super::guest::{Commanded, RawReply};
use super::peer::Peers;
use super::reading::{
    Description, ForkEvidence, Heads, Position, Record, read_description, read_fork, read_heads, read_names,
    read_position, read_record, read_results,
};
use super::{CapsuleName, ReaderKey};
use crate::error::Error;
use crate::id::{CapsuleKey, RecordName};

/// How records are written
///
/// Unless it says otherwise: signed at once, after what this writer wrote before.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    is_signed_later: bool,
    merged: Vec<RecordName>,
}

impl WriteOptions {
    /// Options as [`Capsule::append`] has them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs nothing yet: nobody can prove these records before a later one is signed.
    #[must_use]
    pub fn unsigned(mut self) -> Self {
        self.is_signed_later = true;
        self
    }

    /// Heads of other branches that the first of the records merges, at most 31.
    #[must_use]
    pub fn merge(mut self, heads: impl IntoIterator<Item = RecordName>) -> Self {
        self.merged.extend(heads);
        self
    }
}

/// Of what contents become records
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// Each becomes one.
    Each,
    /// All of them become one, of which each is a sub-record.
    Together,
}

/// A change of who writes and reads
#[derive(Clone, Debug, Default)]
pub struct Governing {
    /// Public keys of writers that join.
    pub add: Vec<CapsuleKey>,
    /// Writers that leave; this begins a new epoch.
    pub revoke: Vec<Revocation>,
    /// Keys of readers that get the key of the epoch; in a new epoch nobody else but the owner reads what is written.
    pub readers: Vec<ReaderKey>,
    /// Whether a new epoch begins, with another key, though nobody is revoked.
    pub new_epoch: bool,
}

/// A writer that leaves
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Its number.
    pub writer: u16,
    /// The last of its records that still count.
    pub heads: Vec<RecordName>,
}

/// A client of one capsule: writes and reads through quorums of its servers, and believes nothing that it has not verified
///
/// Clones are the same client. It ends with the last of them.
#[derive(Clone, Debug)]
pub struct Capsule {
    parts: Arc<Parts>,
    /// In which life of the module writing has begun.
    begun: Arc<Mutex<Option<u32>>>,
}

/// What a client is made of
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) name: CapsuleName,
    pub(super) key: Option<CapsuleKey>,
    pub(super) servers: Vec<CapsuleKey>,
    pub(super) peers: Peers,
    pub(super) orders: Orders<Commanded>,
    pub(super) lives: Arc<AtomicU32>,
}

impl Capsule {
    /// Settings of a client.
    #[must_use]
    pub fn builder() -> CapsuleBuilder {
        CapsuleBuilder::default()
    }

    pub(super) fn new(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
            begun: Arc::default(),
        }
    }

    /// The capsule's name.
    #[must_use]
    pub fn name(&self) -> CapsuleName {
        self.parts.name
    }

    /// The public key with which this client signs, if it has a seed: who writes is known by it.
    #[must_use]
    pub fn key(&self) -> Option<CapsuleKey> {
        self.parts.key
    }

    /// Why servers did not answer that were asked in vain the last time, in words for the operator.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        self.parts.peers.failures()
    }

    /// The same without servers that may still answer: these refused, could not be reached, or signed with another key.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        self.parts.peers.lacks()
    }

    /// Where servers answer, in words for the operator, in the order of [`Self::servers`].
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        let place = |key: &CapsuleKey| self.parts.peers.place(&key.0).unwrap_or_else(|| key.to_string());
        self.parts.servers.iter().map(place).collect()
    }

    /// The keys of the servers.
    #[must_use]
    pub fn servers(&self) -> &[CapsuleKey] {
        &self.parts.servers
    }

    /// Creates the capsule of the metadata that it was opened with, at a write quorum.
    ///
    /// # Errors
    /// [`Error::Core`] when too few servers store it.
    pub async fn create(&self) -> Result<(), Error> {
        let reply = self
            .ask(|command, inputs| Command::Create { command }.encode(inputs))
            .await?;
        expect_done(&reply)
    }

    /// Begins to write where this writer was, or after a record: a branch, or going on with what somebody else wrote. Writing
    /// begins by itself where this writer was.
    ///
    /// # Errors
    /// [`Error::Core`]: `NotAWriter`, or that the record cannot be proven.
    pub async fn begin(&self, after: Option<RecordName>) -> Result<Position, Error> {
        let mut begun = self.begun.lock().await;
        *begun = None;
        let life = self.life();
        let position = self.init(after).await?;
        *begun = Some(life);
        Ok(position)
    }

    /// Writes a record of each content, each after the one before; their names, once a write quorum has them.
    ///
    /// # Errors
    /// [`Error::Core`]: `NotAWriter`, `RevokedWriter`, `NoQuorum` and what servers refuse.
    pub async fn append(
        &self,
        contents: impl IntoIterator<Item = Vec<u8>>,
        options: WriteOptions,
    ) -> Result<Vec<RecordName>, Error> {
        self.write(contents, &options, Grouping::Each).await
    }

    /// Writes one record of sub-records; its name, once a write quorum has it.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub async fn commit(
        &self,
        subrecords: impl IntoIterator<Item = Vec<u8>>,
        options: WriteOptions,
    ) -> Result<RecordName, Error> {
        let names = self.write(subrecords, &options, Grouping::Together).await?;
        names.first().copied().ok_or_else(Error::version_skew)
    }

    /// Signs the last record that was written, and so all before it.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub async fn sign(&self) -> Result<(), Error> {
        self.writing().await?;
        let reply = self
            .ask(|command, inputs| Command::Sign { command }.encode(inputs))
            .await?;
        expect_done(&reply)
    }

    /// Reads a record, proven and opened.
    ///
    /// # Errors
    /// [`Error::Core`]: `NoRecord`, `Unproven`, `NotAReader`, or what is wrong with what the servers gave.
    pub async fn read(&self, name: RecordName) -> Result<Record, Error> {
        only(self.read_all(&[name]).await?)
    }

    /// Reads records: of each what it holds, or why it could not be read.
    ///
    /// # Errors
    /// [`Error`] when none could be asked for.
    pub async fn read_all(&self, names: &[RecordName]) -> Result<Vec<Result<Record, Error>>, Error> {
        let encoded = encode_names(names);
        let reply = self
            .ask(move |command, inputs| {
                let names = &encoded;
                Command::Read { command, names }.encode(inputs);
            })
            .await?;
        let Reply::Records { results, .. } = reply.decode()? else {
            return Err(Error::version_skew());
        };
        understood(read_results(results, |reader, index| {
            read_record(reader, *names.get(index).ok_or(Malformed)?)
        }))
    }

    /// Reads some of the sub-records of a record, by their places, without the others.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn read_parts(&self, name: RecordName, indexes: &[u32]) -> Result<Vec<Vec<u8>>, Error> {
        let indexes: Vec<u8> = indexes.iter().flat_map(|index| index.to_le_bytes()).collect();
        let reply = self
            .ask(move |command, inputs| {
                Command::ReadParts {
                    command,
                    name: name.0,
                    indexes: &indexes,
                }
                .encode(inputs);
            })
            .await?;
        let Reply::Parts { results, .. } = reply.decode()? else {
            return Err(Error::version_skew());
        };
        let parts = read_results(results, |reader, _| Ok(reader.field::<&[u8]>()?.to_vec()));
        understood(parts)?.into_iter().collect()
    }

    /// How many sub-records a record has.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn subrecords(&self, name: RecordName) -> Result<u32, Error> {
        let reply = self
            .ask(move |command, inputs| {
                let names = &name.0;
                Command::CountParts { command, names }.encode(inputs);
            })
            .await?;
        let Reply::Counts { results, .. } = reply.decode()? else {
            return Err(Error::version_skew());
        };
        only(understood(read_results(results, |reader, _| reader.field()))?)
    }

    /// Makes a file that proves a record to whoever has nothing else, with its body as it is stored (`whole`), or without.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn prove(&self, name: RecordName, whole: bool) -> Result<Vec<u8>, Error> {
        let name = name.0;
        let reply = self
            .ask(move |command, inputs| {
                Command::Export { command, name, whole }.encode(inputs);
            })
            .await?;
        match reply.decode()? {
            Reply::File { file, .. } => Ok(file.to_vec()),
            _ => Err(Error::version_skew()),
        }
    }

    /// Asks a read quorum which records are the newest.
    ///
    /// # Errors
    /// [`Error::Core`]: `NoQuorum`, or `RolledBack` when no server knows what this client has seen.
    pub async fn heads(&self) -> Result<Heads, Error> {
        let reply = self
            .ask(|command, inputs| Command::QueryFresh { command }.encode(inputs))
            .await?;
        understood(read_heads(&reply.decode()?, &self.parts.servers))
    }

    /// Changes who writes and reads, which only the owner can; the names of the epoch records.
    ///
    /// # Errors
    /// Those of [`Self::append`], and `BadEpoch` for a change that makes no sense.
    pub async fn govern(&self, change: &Governing) -> Result<Vec<RecordName>, Error> {
        self.writing().await?;
        let next = change.new_epoch || !change.revoke.is_empty();
        let added: Vec<u8> = change.add.iter().flat_map(|key| key.0).collect();
        let mut revoked = Vec::new();
        for Revocation { writer, heads } in &change.revoke {
            writer.write(&mut revoked);
            encode_names(heads).as_slice().write(&mut revoked);
        }
        let readers: Vec<u8> = change
            .readers
            .iter()
            .flat_map(|key| key.as_bytes().to_vec())
            .collect();
        let reply = self
            .ask(move |command, inputs| {
                Command::Govern {
                    command,
                    next,
                    added: &added,
                    revoked: &revoked,
                    readers: &readers,
                }
                .encode(inputs);
            })
            .await?;
        expect_names(&reply)
    }

    /// Asks what the capsule is and who writes it now.
    ///
    /// # Errors
    /// [`Error::Core`] when no server says so.
    pub async fn describe(&self) -> Result<Description, Error> {
        let reply = self
            .ask(|command, inputs| Command::Describe { command }.encode(inputs))
            .await?;
        understood(read_description(&reply.decode()?))
    }

    /// Collects evidence that a writer has used one sequence number twice, of two records that [`Self::heads`] names as a fork.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn accuse(&self, [one, other]: [RecordName; 2]) -> Result<ForkEvidence, Error> {
        let (one, other) = (one.0, other.0);
        let reply = self
            .ask(move |command, inputs| Command::Accuse { command, one, other }.encode(inputs))
            .await?;
        understood(read_fork(&reply.decode()?))
    }

    /// Ends the client, also for its other clones, and closes its store; what is under way fails.
    pub async fn close(self) {
        // One that has ended by itself needs no telling.
        _ = self.parts.orders.send(Event::End).await;
        self.parts.orders.closed().await;
    }

    async fn write(
        &self,
        contents: impl IntoIterator<Item = Vec<u8>>,
        options: &WriteOptions,
        grouping: Grouping,
    ) -> Result<Vec<RecordName>, Error> {
        self.writing().await?;
        let mut encoded = Vec::new();
        for content in contents {
            content.as_slice().write(&mut encoded);
        }
        let merged = encode_names(&options.merged);
        let (sign, shortcuts) = (!options.is_signed_later, merged.is_empty());
        let reply = self
            .ask(move |command, inputs| {
                let (contents, pointers) = (&encoded, &merged);
                match grouping {
                    Grouping::Each => Command::Write {
                        command,
                        sign,
                        shortcuts,
                        pointers,
                        contents,
                    },
                    Grouping::Together => Command::Commit {
                        command,
                        sign,
                        shortcuts,
                        pointers,
                        contents,
                    },
                }
                .encode(inputs);
            })
            .await?;
        expect_names(&reply)
    }

    /// Begins to write if it has not; after a failure the next one who writes tries again.
    async fn writing(&self) -> Result<(), Error> {
        let mut begun = self.begun.lock().await;
        let life = self.life();
        if *begun != Some(life) {
            self.init(None).await?;
            *begun = Some(life);
        }
        Ok(())
    }

    fn life(&self) -> u32 {
        self.parts.lives.load(Ordering::Relaxed)
    }

    async fn init(&self, after: Option<RecordName>) -> Result<Position, Error> {
        let reply = self
            .ask(move |command, inputs| {
                let after = after.as_ref().map_or(&[][..], |name| &name.0);
                Command::Init { command, after }.encode(inputs);
            })
            .await?;
        understood(read_position(&reply.decode()?))
    }

    async fn ask(
        &self,
        encode: impl FnOnce(u32, &mut BatchWriter) + Send + 'static,
    ) -> Result<RawReply, Error> {
        let (answer, reply) = oneshot::channel();
        let encode = Box::new(encode);
        let sent = self
            .parts
            .orders
            .send(Event::Order(Commanded { encode, answer }))
            .await;
        sent.map_err(|_| Error::Stopped)?;
        reply.await.unwrap_or(Err(Error::Stopped))
    }
}

fn encode_names(names: &[RecordName]) -> Vec<u8> {
    names.iter().flat_map(|name| name.0).collect()
}

fn expect_done(reply: &RawReply) -> Result<(), Error> {
    match reply.decode()? {
        Reply::Done { .. } => Ok(()),
        _ => Err(Error::version_skew()),
    }
}

fn expect_names(reply: &RawReply) -> Result<Vec<RecordName>, Error> {
    match reply.decode()? {
        Reply::Written { names, .. } => understood(read_names(names)),
        _ => Err(Error::version_skew()),
    }
}

fn understood<T>(read: Result<T, Malformed>) -> Result<T, Error> {
    read.map_err(|Malformed| Error::version_skew())
}

/// The one result there is.
fn only<T>(results: Vec<Result<T, Error>>) -> Result<T, Error> {
    let mut results = results.into_iter();
    results
        .next()
        .unwrap_or_else(|| Err(Error::from_code(Code::NoRecord)))
}
