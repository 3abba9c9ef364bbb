//! A replica, a client, or what reads and writes files, as its host sees it: batches of bytes in, batches of bytes out
//! (`docs/specification/capsule-boundary.md`).

mod archive;
mod client;
mod map;
mod replica;
mod reply;
mod verifier;

use alloc::boxed::Box;

use selfsame_codec::capsule::{ExporterConfig, IMPORTER_CONFIG, Output, ReplicaConfig, VERIFIER_CONFIG};
use selfsame_codec::client::ClientConfig;
use selfsame_codec::{BatchReader, BatchWriter, Code, Item, Malformed, OperationWriter, Reader};
use selfsame_write_batch::WriteBatch;

use archive::{ExportMachine, ImportMachine};
use client::ClientMachine;
use replica::ReplicaMachine;
use verifier::VerifierMachine;

/// Memory that an empty batch of outputs keeps: an ordinary response; more is given back after a burst.
const KEPT_OUTPUT: usize = 256 * 1024;
/// The position of an input in `Refused` when the whole batch is.
const WHOLE_BATCH: u32 = u32::MAX;

/// What is stepped with batches
#[derive(Debug)]
pub struct Machine {
    now_ms: u64,
    kind: Kind,
    out: BatchWriter,
}

#[derive(Debug)]
enum Kind {
    Replica(Box<ReplicaMachine>),
    Client(Box<ClientMachine>),
    Verifier(Box<VerifierMachine>),
    Export(Box<ExportMachine>),
    Import(Box<ImportMachine>),
}

impl Machine {
    /// What an encoded [`ReplicaConfig`], [`ClientConfig`], [`ExporterConfig`], [`VERIFIER_CONFIG`] or [`IMPORTER_CONFIG`]
    /// describes.
    ///
    /// # Errors
    /// [`Code::BadConfig`] when the bytes are none of these.
    pub fn new(config: &[u8]) -> Result<Self, Code> {
        let kind = if let Ok(config) = ReplicaConfig::decode(config) {
            Kind::Replica(Box::new(ReplicaMachine::new(config)))
        } else if *config == VERIFIER_CONFIG {
            Kind::Verifier(Box::default())
        } else if *config == IMPORTER_CONFIG {
            Kind::Import(Box::default())
        } else if let Ok(ExporterConfig { capsule }) = ExporterConfig::decode(config) {
            Kind::Export(Box::new(ExportMachine::new(capsule)))
        } else {
            let config = ClientConfig::decode(config).map_err(|_| Code::BadConfig)?;
            Kind::Client(Box::new(ClientMachine::new(config)?))
        };
        Ok(Self {
            now_ms: 0,
            kind,
            out: BatchWriter::new(),
        })
    }

    /// Takes the time and a batch of inputs; what the host is to do, in this order.
    pub fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.out.clear(KEPT_OUTPUT);
        let mut reader = Reader::new(batch);
        let now_ms: Result<u64, Malformed> = reader.field();
        match (now_ms, BatchReader::new(reader.rest())) {
            (Ok(now_ms), Ok(items)) => {
                self.now_ms = self.now_ms.max(now_ms);
                for (position, item) in items.enumerate() {
                    if let Err(code) = self.take_item(item) {
                        self.refuse(u32::try_from(position).unwrap_or(WHOLE_BATCH), code);
                    }
                }
            }
            _ => self.refuse(WHOLE_BATCH, Code::BadInput),
        }
        match &mut self.kind {
            Kind::Client(client) => client.end_batch(self.now_ms, &mut self.out),
            Kind::Export(export) => export.end_batch(&mut self.out),
            _ => {}
        }
        self.out.as_bytes()
    }

    fn take_item(&mut self, item: Item<'_>) -> Result<(), Code> {
        match &mut self.kind {
            Kind::Replica(replica) => replica.take(self.now_ms, item, &mut self.out),
            Kind::Client(client) => client.take(self.now_ms, item, &mut self.out),
            Kind::Verifier(verifier) => verifier.take(item, &mut self.out),
            Kind::Export(export) => export.take(item, &mut self.out),
            Kind::Import(import) => import.take(item, &mut self.out),
        }
    }

    fn refuse(&mut self, input: u32, code: Code) {
        Output::Refused {
            input,
            code: code.as_u16(),
        }
        .encode(&mut self.out);
    }
}

fn commit(tag: u32, durable: bool, batch: &WriteBatch, out: &mut BatchWriter) {
    let mut operations = OperationWriter::new();
    for row in batch.rows() {
        operations.push(row.operation());
    }
    Output::StoreCommit {
        tag,
        durable,
        operations: operations.as_bytes(),
    }
    .encode(out);
}
