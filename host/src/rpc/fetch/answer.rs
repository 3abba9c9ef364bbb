//! The answer of a service as the items of a stream.

use alloc::sync::Arc;
use core::net::IpAddr;

use bytes::Bytes;
use futures_util::stream;
use selfsame_codec::Code;

use crate::caller::Assurance;
use crate::id::PeerId;
use crate::inbox::{Delivery, MAX_CHUNK};
use crate::observe::Watcher;
use crate::rpc::RpcRefusal;
use crate::rpc::procedures::ItemStream;
use crate::serve::{Incoming, Offer, serve};
use crate::shares::Share;
use crate::stream::{
    StreamEntry, StreamInput, StreamKey, StreamQueues, StreamSignal, queues, stream as pair,
};
use crate::task::Task;
use crate::uploads::Uploads;

/// Bytes that a handler may be ahead of its caller: a batch.
const AHEAD_BYTES: usize = 64 * 1024;
/// The one stream of its queues.
const KEY: StreamKey = StreamKey { stream: 0, serial: 0 };

/// A request, and the memory that it takes until its answer ends: who answers may read the body as late as that.
pub(super) struct Served {
    pub(super) service: String,
    pub(super) caller: PeerId,
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    pub(super) held: Share<IpAddr>,
}

struct Answering {
    entry: StreamEntry,
    queues: StreamQueues,
    is_over: bool,
    _serving: Task,
    _held: Share<IpAddr>,
}

/// Has a request answered as in a session, on a stream that ends in this process; the bytes of the answer.
pub(super) fn answer(offer: Offer, uploads: &Arc<Uploads>, served: Served) -> ItemStream {
    let Served {
        service,
        caller,
        head,
        mut body,
        held,
    } = served;
    let (sender, queues) = queues();
    let (entry, stream) = pair(KEY, caller, &sender);
    while !body.is_empty() {
        entry.deliver(Delivery::Data(body.split_to(body.len().min(MAX_CHUNK))));
    }
    entry.deliver(Delivery::End);
    entry.credit.add_permits(AHEAD_BYTES);
    let incoming = Incoming {
        stream,
        service,
        head,
        assurance: Assurance::Ticket,
    };
    let uploads = Arc::clone(uploads);
    let serving = Task::spawn(async move { serve(offer, incoming, &Watcher::default(), &uploads).await });
    let answering = Answering {
        entry,
        queues,
        is_over: false,
        _serving: serving,
        _held: held,
    };
    Box::pin(stream::unfold(answering, async |mut answering| {
        let item = answering.next().await?;
        Some((item, answering))
    }))
}

impl Answering {
    /// Returns what the handler writes next; a refusal when it breaks the answer off.
    async fn next(&mut self) -> Option<Result<Vec<u8>, RpcRefusal>> {
        while !self.is_over {
            tokio::select! {
                biased;
                input = self.queues.inputs.recv() => match input {
                    Some(StreamInput::Data { data, .. }) => return Some(Ok(self.take(&data))),
                    Some(StreamInput::Last { data, .. }) => {
                        self.is_over = true;
                        return Some(Ok(self.take(&data)));
                    }
                    Some(StreamInput::End { .. }) => self.is_over = true,
                    None => return Some(self.broken_off(Code::HandlerFailed)),
                },
                signal = self.queues.signals.recv() => match signal {
                    Some(StreamSignal::Reset { code, .. }) => return Some(self.broken_off(code)),
                    // The body is here as a whole.
                    Some(StreamSignal::Credit { .. } | StreamSignal::Discard { .. }) => {}
                    None => return Some(self.broken_off(Code::HandlerFailed)),
                },
            }
        }
        None
    }

    fn take(&self, data: &[u8]) -> Vec<u8> {
        self.entry.credit.add_permits(data.len());
        data.to_vec()
    }

    fn broken_off(&mut self, code: Code) -> Result<Vec<u8>, RpcRefusal> {
        self.is_over = true;
        Err(RpcRefusal(code))
    }
}
