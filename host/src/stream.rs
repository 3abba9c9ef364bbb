//! A stream between the driver and the application, whose ends are an outlet that heeds credit and an inlet that grants
//! it.

use alloc::sync::Arc;

use bytes::Bytes;
use selfsame_codec::Code;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::error::Error;
use crate::id::PeerId;
use crate::inbox::{self, Cause, Delivery, MAX_CHUNK};

/// Messages with bytes of the application that wait for the driver: who sends faster than it takes them waits.
const QUEUE: usize = 256;
/// Consumed bytes are reported in parts of this size; the window is 16 times as large, so nobody waits for one.
const CREDIT_STEP: u32 = 16 * 1024;

/// Names a stream beyond the life of its number: the core may use the number again
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey {
    /// The core's number.
    pub(crate) stream: u32,
    /// Counts the streams of this node.
    pub(crate) serial: u64,
}

/// What the application sends: bounded
#[derive(Debug)]
pub(crate) enum StreamInput {
    /// Bytes.
    Data { key: StreamKey, data: Bytes },
    /// The last bytes.
    Last { key: StreamKey, data: Bytes },
    /// That there are no more.
    End { key: StreamKey },
}

/// What the application says about a stream: a few for each, also while they are dropped, so nobody waits
#[derive(Debug)]
pub(crate) enum StreamSignal {
    /// Bytes were consumed.
    Credit { key: StreamKey, bytes: u32 },
    /// The stream is given up.
    Reset { key: StreamKey, code: Code },
    /// What the stream still delivers is not wanted; `bytes` were delivered and not consumed.
    Discard { key: StreamKey, bytes: u32 },
}

/// The way of all streams to their driver; cheap to clone
#[derive(Clone, Debug)]
pub(crate) struct StreamSender {
    inputs: mpsc::Sender<StreamInput>,
    signals: mpsc::UnboundedSender<StreamSignal>,
}

/// The driver's ends of the queues of all streams
#[derive(Debug)]
pub(crate) struct StreamQueues {
    pub(crate) inputs: mpsc::Receiver<StreamInput>,
    pub(crate) signals: mpsc::UnboundedReceiver<StreamSignal>,
}

/// Makes the queues of all streams of a driver.
pub(crate) fn queues() -> (StreamSender, StreamQueues) {
    let (inputs, inputs_end) = mpsc::channel(QUEUE);
    let (signals, signals_end) = mpsc::unbounded_channel();
    let queues = StreamQueues {
        inputs: inputs_end,
        signals: signals_end,
    };
    (StreamSender { inputs, signals }, queues)
}

impl StreamSender {
    /// Queues what the application sends, waiting for a place.
    async fn send(&self, input: StreamInput) -> Result<(), Error> {
        self.inputs.send(input).await.map_err(|_| Error::Stopped)
    }

    /// Queues a signal.
    fn signal(&self, signal: StreamSignal) {
        // A node that was stopped has failed all streams.
        _ = self.signals.send(signal);
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Reset(code) => Self::core(code, ""),
            Cause::Poisoned(error) => Self::Poisoned(error),
            Cause::Stopped => Self::Stopped,
        }
    }
}

/// An open stream
#[derive(Debug)]
pub(crate) struct Stream {
    /// Who is at the other end.
    pub(crate) peer: PeerId,
    /// For sending.
    pub(crate) outlet: Outlet,
    /// For receiving.
    pub(crate) inlet: Inlet,
}

/// The driver's end of a stream
#[derive(Debug)]
pub(crate) struct StreamEntry {
    pub(crate) key: StreamKey,
    /// `None` when the application takes no more: what arrives is granted and forgotten.
    pub(crate) inbox: Option<inbox::Sender>,
    pub(crate) credit: Arc<Semaphore>,
    pub(crate) gone: watch::Sender<Option<Cause>>,
    pub(crate) sent_end: bool,
    pub(crate) received_end: bool,
}

/// Makes both ends of a stream.
pub(crate) fn stream(key: StreamKey, peer: PeerId, driver: &StreamSender) -> (StreamEntry, Stream) {
    let (sender, inbox) = inbox::inbox();
    let (gone, was_gone) = watch::channel(None);
    let credit = Arc::new(Semaphore::new(0));
    let entry = StreamEntry {
        key,
        inbox: Some(sender),
        credit: Arc::clone(&credit),
        gone,
        sent_end: false,
        received_end: false,
    };
    let outlet = Outlet {
        key,
        driver: driver.clone(),
        credit,
        gone: was_gone,
        done: false,
        on_drop: Code::StreamRefused,
    };
    let inlet = Inlet {
        key,
        driver: driver.clone(),
        inbox,
        consumed: 0,
        done: false,
        on_drop: OnDrop::Discard,
    };
    let stream = Stream { peer, outlet, inlet };
    (entry, stream)
}

impl StreamEntry {
    /// Gives the application what arrived; whether it still takes any.
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.send(delivery))
    }

    /// Tells both ends of the application that the stream is gone.
    pub(crate) fn fail(self, cause: Cause) {
        if let Some(inbox) = &self.inbox {
            _ = inbox.send(Delivery::Gone(cause.clone()));
        }
        self.gone.send_replace(Some(cause));
        self.credit.close();
    }
}

/// Sends bytes as the peer grants credit; dropped before its end it resets the stream
#[derive(Debug)]
pub(crate) struct Outlet {
    key: StreamKey,
    driver: StreamSender,
    credit: Arc<Semaphore>,
    gone: watch::Receiver<Option<Cause>>,
    done: bool,
    on_drop: Code,
}

impl Outlet {
    /// Sends bytes, waiting for credit.
    ///
    /// # Errors
    /// Why the stream is gone.
    pub(crate) async fn send(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        while !bytes.is_empty() {
            let len = self.acquire(bytes.len().min(MAX_CHUNK)).await?;
            let data = bytes.split_to(len);
            self.driver
                .send(StreamInput::Data { key: self.key, data })
                .await?;
        }
        Ok(())
    }

    /// Says that everything was sent.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the node is.
    pub(crate) async fn end(mut self) -> Result<(), Error> {
        // In this order: dropped while it waits for a place, the outlet still resets the stream.
        self.driver.send(StreamInput::End { key: self.key }).await?;
        self.done = true;
        Ok(())
    }

    /// Sends the last bytes, which are some; what credit allows at once goes together with the end.
    ///
    /// # Errors
    /// Why the stream is gone.
    pub(crate) async fn finish(mut self, mut bytes: Bytes) -> Result<(), Error> {
        loop {
            let len = self.acquire(bytes.len().min(MAX_CHUNK)).await?;
            let data = bytes.split_to(len);
            let key = self.key;
            if bytes.is_empty() {
                self.driver.send(StreamInput::Last { key, data }).await?;
                self.done = true;
                return Ok(());
            }
            self.driver.send(StreamInput::Data { key, data }).await?;
        }
    }

    /// Sets what the peer is told when the outlet is dropped before its end.
    pub(crate) fn reset_with(&mut self, code: Code) {
        self.on_drop = code;
    }

    /// Completes when the stream is gone.
    pub(crate) fn gone(&self) -> impl Future<Output = Cause> + Send + use<> {
        let mut gone = self.gone.clone();
        async move {
            match gone.wait_for(Option::is_some).await.map(|cause| (*cause).clone()) {
                Ok(Some(cause)) => cause,
                // The driver forgets a stream in order only when both directions have ended.
                Ok(None) | Err(_) => core::future::pending().await,
            }
        }
    }

    /// Waits for credit and takes as much as there is, up to `most` bytes.
    async fn acquire(&mut self, most: usize) -> Result<usize, Error> {
        let Ok(first) = self.credit.acquire().await else {
            let cause = self.gone.borrow().clone();
            self.done = true;
            return Err(cause.map_or(Error::Stopped, Error::from));
        };
        first.forget();
        let more = self.credit.available_permits().min(most - 1);
        match u32::try_from(more).map(|more| self.credit.try_acquire_many(more)) {
            Ok(Ok(permits)) => {
                permits.forget();
                Ok(1 + more)
            }
            _ => Ok(1),
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if !self.done {
            self.driver.signal(StreamSignal::Reset {
                key: self.key,
                code: self.on_drop,
            });
        }
    }
}

/// What dropping an inlet before the end of its bytes means
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// The rest is received and forgotten: a handler need not read a request's body to answer it.
    Discard,
    /// The stream is reset with this code, such as when nobody waits for the answer any more.
    Reset(Code),
}

/// Receives bytes and grants credit for what was taken
#[derive(Debug)]
pub(crate) struct Inlet {
    key: StreamKey,
    driver: StreamSender,
    inbox: inbox::Receiver,
    consumed: u32,
    done: bool,
    on_drop: OnDrop,
}

impl Inlet {
    /// The next bytes; `None` at the end.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut core::task::Context<'_>,
    ) -> core::task::Poll<Option<Result<Bytes, Error>>> {
        if self.done {
            return core::task::Poll::Ready(None);
        }
        self.inbox.poll_recv(context).map(|delivery| self.take(delivery))
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        core::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// What tells how the peer keeps its reader waiting.
    pub(crate) fn progress(&self) -> inbox::Progress {
        self.inbox.progress()
    }

    /// Sets what dropping the inlet before the end means.
    pub(crate) fn on_drop(&mut self, on_drop: OnDrop) {
        self.on_drop = on_drop;
    }

    /// Resets the stream, also when its end was received.
    pub(crate) fn reset(mut self, code: Code) {
        self.done = true;
        let signal = StreamSignal::Reset { key: self.key, code };
        self.driver.signal(signal);
    }

    /// Whether the end was received.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    fn take(&mut self, delivery: Option<Delivery>) -> Option<Result<Bytes, Error>> {
        match delivery {
            Some(Delivery::Data(data)) => {
                self.consume(&data);
                Some(Ok(data))
            }
            Some(Delivery::End) => {
                self.done = true;
                None
            }
            Some(Delivery::Gone(cause)) => {
                self.done = true;
                Some(Err(cause.into()))
            }
            None => {
                self.done = true;
                Some(Err(Error::Stopped))
            }
        }
    }

    fn consume(&mut self, data: &Bytes) {
        // A chunk is at most MAX_CHUNK bytes, so this fits.
        self.consumed = self
            .consumed
            .saturating_add(u32::try_from(data.len()).unwrap_or(u32::MAX));
        if self.consumed >= CREDIT_STEP {
            let bytes = core::mem::take(&mut self.consumed);
            self.driver.signal(StreamSignal::Credit { key: self.key, bytes });
        }
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let signal = match self.on_drop {
            OnDrop::Discard => StreamSignal::Discard {
                key: self.key,
                bytes: self.unread(),
            },
            OnDrop::Reset(code) => StreamSignal::Reset { key: self.key, code },
        };
        self.driver.signal(signal);
    }
}

impl Inlet {
    /// Bytes that arrived and will not be read; after this the driver cannot deliver more.
    fn unread(&mut self) -> u32 {
        self.inbox.close();
        let mut bytes = self.consumed;
        while let Some(delivery) = self.inbox.try_recv() {
            if let Delivery::Data(data) = delivery {
                bytes = bytes.saturating_add(u32::try_from(data.len()).unwrap_or(u32::MAX));
            }
        }
        bytes
    }
}
