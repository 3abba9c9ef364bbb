use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_codec::reply::Status;
use selfsame_codec::{
    Admission, BatchReader, BatchWriter, Config, EventKind, Input, LogLevel, Output, PathKind, Role,
};

use crate::Outcome;

/// Bytes consumed before the receiver grants credit again: a quarter of a stream's first window.
const CREDIT_STEP: u32 = 64 * 1024;
/// Bytes of a batch kept allocated between steps.
const KEPT: usize = 256 * 1024;
/// Steps after which an exchange that does not come to rest is taken for a fault.
const MOST_STEPS: usize = 1000;
/// The stream gets no answer, and lasts as long as a benchmark may.
const UNANSWERED_MS: u32 = 24 * 60 * 60 * 1000;
/// Name that one side serves and the other calls.
const SERVICE: &str = "bench";

/// A core, wherever it runs
pub trait Core {
    /// Gives the core a batch of inputs and lends the batch of outputs.
    ///
    /// # Errors
    /// When the core trapped.
    fn step(&mut self, batch: &[u8]) -> Outcome<&[u8]>;
}

/// Two cores and the wire between them; the first one calls, the second one serves
pub struct Pair<C> {
    sides: [Side<C>; 2],
    paths: u32,
    tags: u32,
    answering: [u8; 32],
    stream: u32,
    payload: Vec<u8>,
}

struct Side<C> {
    core: C,
    inbox: BatchWriter,
    batch: Vec<u8>,
    seen: Seen,
}

/// What a core told its host
#[derive(Default)]
struct Seen {
    ready: bool,
    connected: u64,
    disconnected: u64,
    published: u64,
    stream: Option<u32>,
    credit: u32,
    received: u64,
    unacknowledged: u32,
    reply: Option<(u32, Vec<u8>)>,
    complaint: Option<String>,
}

/// What a node of a benchmark is created with.
///
/// # Errors
/// When the operating system gives no random bytes.
pub fn configuration(number: u8) -> Outcome<Config> {
    Ok(Config {
        seed: [number; 32],
        entropy: fresh_entropy()?,
        known_key: Vec::new(),
        network: "bench".into(),
        role: Role::Member,
        addresses: vec![format!("ws://127.0.0.1:{}/.mesh", 7000 + u16::from(number))],
        bootstraps: Vec::new(),
        dials: vec!["ws".into()],
        allow_private: true,
        trust_on_first_use: false,
        idle_ms: 60_000,
        domain: String::new(),
        admission: Admission::Open,
        authority: Vec::new(),
        certificate: Vec::new(),
        take_over: false,
        confirms: false,
    })
}

fn fresh_entropy() -> Outcome<[u8; 32]> {
    let mut entropy = [0; 32];
    getrandom::fill(&mut entropy).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(entropy)
}

/// The time as a batch carries it.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl<C: Core> Pair<C> {
    /// Starts two cores that were just created.
    ///
    /// # Errors
    /// When one of them does not become ready.
    pub fn new(calling: C, answering: C) -> Outcome<Self> {
        let side = |core| Side {
            core,
            inbox: BatchWriter::new(),
            batch: Vec::new(),
            seen: Seen::default(),
        };
        let mut pair = Self {
            sides: [side(calling), side(answering)],
            paths: 0,
            tags: 0,
            answering: [0; 32],
            stream: 0,
            payload: Vec::new(),
        };
        pair.step(0)?;
        pair.step(1)?;
        pair.pump()?;
        if pair.sides.iter().any(|side| !side.seen.ready) {
            return Err("a core did not become ready".into());
        }
        let status = pair.ask(1, |tag, inbox| Input::Status { tag }.encode(inbox))?;
        pair.answering = Status::decode(&status).map_err(|error| error.to_string())?.id;
        Ok(pair)
    }

    /// Connects the first core to the second with fresh keys, until both say so, and closes the path again.
    ///
    /// # Errors
    /// When one of them does not say so.
    pub fn handshake(&mut self) -> Outcome<()> {
        self.connect()?;
        let path = self.paths;
        for side in &mut self.sides {
            Input::PathClosed { path }.encode(&mut side.inbox);
        }
        self.pump()?;
        if self
            .sides
            .iter()
            .any(|side| side.seen.connected != side.seen.disconnected)
        {
            return Err(self.complain("a session outlived its path"));
        }
        Ok(())
    }

    /// Connects the cores and opens a stream from the first to the second.
    ///
    /// # Errors
    /// When the second does not see the stream.
    pub fn open_stream(&mut self) -> Outcome<()> {
        self.ask(1, |tag, inbox| Input::Join { tag }.encode(inbox))?;
        self.ask(1, |tag, inbox| {
            let publish = Input::Publish {
                tag,
                grant: &[],
                name: SERVICE,
                replicas: 0,
                version: "",
                weight: 1,
            };
            publish.encode(inbox);
        })?;
        self.connect()?;
        let peer = self.answering;
        self.tags += 1;
        let call = Input::CallPeer {
            tag: self.tags,
            peer,
            owner: &[],
            name: SERVICE,
            timeout_ms: UNANSWERED_MS,
            head: &[],
        };
        call.encode(&mut self.sides[0].inbox);
        self.pump()?;
        match (self.sides[0].seen.stream, self.sides[1].seen.stream) {
            (Some(stream), Some(_)) => self.stream = stream,
            _ => return Err(self.complain("the stream did not open")),
        }
        Ok(())
    }

    /// Sends `len` bytes on the stream from the first core to the second, which opens them before the call returns.
    ///
    /// # Errors
    /// When they do not arrive.
    pub fn message(&mut self, len: usize) -> Outcome<()> {
        if self.payload.len() != len {
            self.payload = vec![7; len];
        }
        let bytes = u32::try_from(len).map_err(|_| "a message is shorter than 4 GiB")?;
        let seen = &mut self.sides[0].seen;
        seen.credit = seen
            .credit
            .checked_sub(bytes)
            .ok_or("the receiver granted less credit than it consumed")?;
        let before = self.sides[1].seen.received;
        Input::StreamData {
            stream: self.stream,
            data: &self.payload,
        }
        .encode(&mut self.sides[0].inbox);
        self.pump()?;
        let seen = &mut self.sides[1].seen;
        if seen.received - before != u64::from(bytes) {
            return Err(self.complain("a message did not arrive"));
        }
        if seen.unacknowledged >= CREDIT_STEP {
            let bytes = core::mem::take(&mut seen.unacknowledged);
            let stream = seen.stream.ok_or("the stream is open")?;
            Input::StreamCredit { stream, bytes }.encode(&mut self.sides[1].inbox);
            self.pump()?;
        }
        Ok(())
    }

    /// Gives the first core a batch as it is and ignores what it says.
    ///
    /// # Errors
    /// When the core trapped or said nothing.
    pub fn raw_step(&mut self, batch: &[u8]) -> Outcome<()> {
        match self.sides[0].core.step(batch)? {
            [] => Err("the core gave no output".into()),
            _ => Ok(()),
        }
    }

    fn connect(&mut self) -> Outcome<()> {
        let before = self.sides[1].seen.connected;
        let peer = self.answering;
        let connect = |tag, inbox: &mut _| {
            Input::Connect {
                tag,
                peer,
                address: "ws://127.0.0.1:7002/.mesh",
            }
            .encode(inbox);
        };
        self.ask(0, connect)?;
        if self.sides[1].seen.connected != before + 1 {
            return Err(self.complain("the cores did not connect"));
        }
        Ok(())
    }

    /// Gives a side a command and returns the body of the reply.
    fn ask(&mut self, side: usize, command: impl FnOnce(u32, &mut BatchWriter)) -> Outcome<Vec<u8>> {
        self.tags += 1;
        command(self.tags, &mut self.sides[side].inbox);
        self.pump()?;
        match self.sides[side].seen.reply.take() {
            Some((tag, body)) if tag == self.tags => Ok(body),
            _ => Err(self.complain("a command was not answered")),
        }
    }

    fn complain(&self, what: &str) -> String {
        let reasons = self
            .sides
            .iter()
            .filter_map(|side| side.seen.complaint.as_deref());
        reasons.fold(what.to_owned(), |text, reason| format!("{text}: {reason}"))
    }

    /// Steps whichever side has inputs until none has.
    fn pump(&mut self) -> Outcome<()> {
        for turn in 0..MOST_STEPS {
            let first = turn % 2;
            if !self.sides[first].inbox.is_empty() {
                self.step(first)?;
            } else if self.sides[1 - first].inbox.is_empty() {
                return Ok(());
            }
        }
        Err(self.complain("the cores do not come to rest"))
    }

    fn step(&mut self, number: usize) -> Outcome<()> {
        let [calling, answering] = &mut self.sides;
        let (side, other) = if number == 0 {
            (calling, answering)
        } else {
            (answering, calling)
        };
        side.batch.clear();
        side.batch.extend_from_slice(&now_ms().to_le_bytes());
        side.batch.extend_from_slice(side.inbox.as_bytes());
        side.inbox.clear(KEPT);
        let outputs = side.core.step(&side.batch)?;
        for item in BatchReader::new(outputs).map_err(|error| error.to_string())? {
            match Output::decode(item).map_err(|error| error.to_string())? {
                Output::Transmit { path, frame } => Input::Received { path, frame }.encode(&mut other.inbox),
                Output::Dial { dial, .. } => {
                    self.paths += 1;
                    open_path(self.paths, dial, &mut side.inbox);
                    open_path(self.paths, 0, &mut other.inbox);
                }
                Output::ClosePath { path } => {
                    Input::PathClosed { path }.encode(&mut side.inbox);
                    Input::PathClosed { path }.encode(&mut other.inbox);
                }
                Output::NeedEntropy {} => {
                    Input::Entropy {
                        bytes: fresh_entropy()?,
                    }
                    .encode(&mut side.inbox);
                }
                Output::StoreGet { tag, .. } | Output::StoreScan { tag, .. } => {
                    Input::StoreRead {
                        tag,
                        ok: true,
                        entries: &[],
                    }
                    .encode(&mut side.inbox);
                }
                Output::StoreCommit { tag, .. } => {
                    Input::StoreCommitted { tag, ok: true }.encode(&mut side.inbox);
                }
                told => side.seen.note(told),
            }
        }
        Ok(())
    }
}

fn open_path(path: u32, dial: u32, inbox: &mut BatchWriter) {
    Input::PathOpened {
        path,
        dial,
        kind: PathKind::Ordered,
        remote: "127.0.0.1:7000",
    }
    .encode(inbox);
}

impl Seen {
    fn note(&mut self, output: Output<'_>) {
        match output {
            Output::StreamData { data, .. } => {
                self.received += data.len() as u64;
                self.unacknowledged += u32::try_from(data.len()).expect("a frame is shorter than 64 KiB");
            }
            Output::StreamCredit { bytes, .. } => self.credit = self.credit.saturating_add(bytes),
            Output::StreamOpened { stream, .. } => self.stream = Some(stream),
            Output::Reply { tag, body } => self.reply = Some((tag, body.to_vec())),
            Output::Event { event, .. } => match event {
                EventKind::Ready => self.ready = true,
                EventKind::PeerConnected => self.connected += 1,
                EventKind::PeerDisconnected => self.disconnected += 1,
                EventKind::Published => self.published += 1,
                EventKind::RingChanged | EventKind::DuplicateIdentity | EventKind::Convicted => {}
            },
            Output::Failed { code, detail, .. } => {
                self.complaint = Some(format!("code {code:#06x} {detail}"));
            }
            Output::Refused { code, .. } => self.complaint = Some(format!("refused with code {code:#06x}")),
            Output::Log { level, text, .. } if level >= LogLevel::Warn => {
                self.complaint = Some(text.to_owned());
            }
            _ => {}
        }
    }
}
