//! The batches of one stream, each of which is made when it is asked for.

use core::pin::Pin;
use core::time::Duration;

use futures_util::{Stream, StreamExt as _};
use selfsame_codec::Code;
use tokio::time::{Instant, timeout_at};

use super::limits::{BATCH_BYTES, BATCH_ITEMS, LINGER};
use super::wire::{Answer, Batch, Failure, StreamId};
use crate::rpc::RpcRefusal;
use crate::rpc::answering::Outcome;

/// Encoded items.
pub(in crate::rpc) type ItemStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>, RpcRefusal>> + Send>>;

/// How the items of a batch follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rpc) enum ItemFormat {
    /// In an array.
    Json,
    /// As they are.
    Bytes,
}

/// A stream's items, and its latest batch.
pub(super) struct Batches {
    id: StreamId,
    format: ItemFormat,
    /// `None` at its end.
    items: Option<ItemStream>,
    /// The number of the batch that is made next.
    next: u32,
    latest: Outcome,
    /// Items, of an array its beginning: what was collected stays when the caller that asked is gone.
    collected: Vec<u8>,
    count: usize,
    /// The refusal that ended the stream, which comes after the items of the latest batch.
    refusal: Option<RpcRefusal>,
}

impl Batches {
    pub(super) fn new(id: StreamId, format: ItemFormat, items: ItemStream) -> Self {
        Self {
            id,
            format,
            items: Some(items),
            next: 0,
            latest: Err(RpcRefusal(Code::BadStream)),
            collected: Vec::new(),
            count: 0,
            refusal: None,
        }
    }

    pub(super) fn id(&self) -> StreamId {
        self.id
    }

    /// Whether the last batch was made.
    pub(super) fn is_over(&self) -> bool {
        self.items.is_none() && self.refusal.is_none()
    }

    /// Returns the next batch, or the latest one again; one without items if there are none within the time.
    pub(super) async fn ask(&mut self, number: u32, wait: Duration) -> Outcome {
        if Some(number) == self.next.checked_sub(1) {
            return self.latest.clone();
        }
        if number != self.next || self.is_over() {
            return Err(RpcRefusal(Code::BadStream));
        }
        self.collect(wait).await;
        self.latest = self.finish(number);
        self.next = number.wrapping_add(1);
        self.latest.clone()
    }

    async fn collect(&mut self, wait: Duration) {
        let mut until = Instant::now() + if self.count == 0 { wait } else { LINGER };
        while self.collected.len() < BATCH_BYTES && self.count < BATCH_ITEMS {
            let Some(items) = &mut self.items else { return };
            let Ok(item) = timeout_at(until, items.next()).await else {
                return;
            };
            match item {
                Some(Ok(item)) => self.add(&item),
                Some(Err(refusal)) => {
                    self.items = None;
                    self.refusal = Some(refusal);
                }
                None => self.items = None,
            }
            if self.count == 1 {
                until = Instant::now() + LINGER;
            }
        }
    }

    fn add(&mut self, item: &[u8]) {
        if self.format == ItemFormat::Json {
            self.collected.push(if self.count == 0 { b'[' } else { b',' });
        }
        self.collected.extend_from_slice(item);
        self.count += 1;
    }

    fn finish(&mut self, number: u32) -> Outcome {
        if self.count == 0 {
            match self.refusal.take() {
                Some(RpcRefusal(Code::HandlerFailed)) => return Err(RpcRefusal(Code::HandlerFailed)),
                Some(RpcRefusal(code)) => return Ok(Answer::Failure(&Failure::of(code, "")).encode()),
                None => {}
            }
        }
        let mut items = core::mem::take(&mut self.collected);
        if self.format == ItemFormat::Json {
            items.extend_from_slice(if self.count == 0 { b"[]" } else { b"]" });
        }
        self.count = 0;
        Ok(Answer::Batch(Batch {
            stream: self.id,
            number,
            is_last: self.is_over(),
            items: &items,
        })
        .encode())
    }
}
