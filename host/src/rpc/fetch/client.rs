//! Requests of HTTP that a client sends by RPC.

use core::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use selfsame_codec::Code;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{EXCHANGE, message};
use crate::body::{AnyBody, Body, any_body};
use crate::error::{BoxError, Error};
use crate::exchange::answer_on;
use crate::id::PeerId;
use crate::inbox::{Cause, Delivery};
use crate::length;
use crate::message::{encode_request, is_bodiless, name_of};
use crate::rpc::procedures::{Answer, Batch, Request as Asked, StreamId};
use crate::rpc::{RpcAnswer, RpcClient, RpcOptions};
use crate::stream::{StreamEntry, StreamKey, StreamQueues, StreamSignal, queues, stream};
use crate::task::Task;
use crate::upgrade;

/// Bytes that an answer may be ahead of its reader: with a batch on its way what a session allows.
const AHEAD_BYTES: u64 = 128 * 1024;
/// How long a replica may take to give a batch: it waits half of that for the body to go on.
const BATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a replica hears of a reader that takes nothing: half of the time for which it keeps a stream that nobody asks.
const KEEP: Duration = Duration::from_secs(15);
/// How long a server may take to hear that an answer is given up.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The one stream of its queues.
const KEY: StreamKey = StreamKey { stream: 0, serial: 0 };

impl RpcClient {
    /// Sends a request to `https://NAME.mesh/path` by RPC. The time of the options is that until the answer begins; its method says
    /// whether the call is idempotent.
    ///
    /// # Errors
    /// [`Error::Input`] for what is no such request; `NoService` from a service whose tickets are not for HTTP; and as [`Self::call`].
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub async fn fetch<B>(&self, request: Request<B>, options: RpcOptions) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let (head, body) = request.map(any_body).into_parts();
        let service = name_of(&head.uri)?;
        if upgrade::is_asked(&head.method, &head.headers) {
            let text = "a WebSocket needs a session of the mesh: use Node::fetch";
            return Err(Error::Input(text.into()));
        }
        if is_bodiless(&head.method) && !body.is_end_stream() {
            let text = format!("a {} has no body: use POST or PUT", head.method);
            return Err(Error::Input(text));
        }
        let known = body.size_hint().exact();
        let declared = length::declared(&head.headers, known)?;
        // Servers of HTTP/1.1 expect a length of these methods (RFC 9110, section 8.6).
        let is_expected = matches!(head.method, Method::POST | Method::PUT);
        let length = known.filter(|length| *length > 0 || is_expected);
        let encoded = encode_request(&head, length)?;
        let deadline = Instant::now() + options.longest();
        let reading = timeout_at(deadline, read(length::held_to(declared, body))).await;
        let body = reading.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))?;
        if !self.carries_http(&service, deadline).await? {
            let text = format!("{service} carries no HTTP by RPC: use Node::fetch");
            return Err(Error::core(Code::NoService.as_u16(), &text));
        }
        let value = message::write(&encoded, &body);
        let begin = Asked::Begin {
            name: EXCHANGE.as_bytes(),
            value: &value,
        };
        let options = options.timeout(deadline.saturating_duration_since(Instant::now()));
        let options = if message::is_idempotent(&head.method) {
            options.idempotent()
        } else {
            options
        };
        let first = self
            .call(&service, &begin.encode(), options.names_replica())
            .await?;
        self.answer_of(service, &head.method, &first).await
    }

    /// Reads the answer whose first batch has come; the others are pulled as it is consumed.
    async fn answer_of(
        &self,
        service: String,
        method: &Method,
        first: &RpcAnswer,
    ) -> Result<Response<Body>, Error> {
        let (sender, queues) = queues();
        // Whose answer it is only the ticket's key tells.
        let (entry, local) = stream(KEY, PeerId([0; 32]), &sender);
        let mut pull = Pull {
            client: self.clone(),
            service,
            options: RpcOptions::new()
                .idempotent()
                .timeout(BATCH_TIMEOUT)
                .server(first.server.clone()),
            queues,
            entry: Some(entry),
            open: None,
            ahead_bytes: 0,
        };
        if pull.take(first, 0).map_err(in_session)? == 0 && pull.open.is_some() {
            // Its time is over when the service says that it has not begun.
            return Err(Error::from_code(Code::Deadline));
        }
        drop(local.outlet);
        let pulling = Task::spawn(pull.run());
        answer_on(local.inlet, method, pulling).await
    }
}

async fn read(body: AnyBody) -> Result<Bytes, Error> {
    let read = Limited::new(body, message::MAX_BODY_BYTES).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if !error.is::<LengthLimitError>() {
            return Error::Body(error);
        }
        let text = format!(
            "the body of a request by RPC has at most {} bytes: use Node::fetch",
            message::MAX_BODY_BYTES
        );
        Error::core(Code::TooLarge.as_u16(), &text)
    })
}

/// The rest of an answer, which is pulled as its reader takes it.
struct Pull {
    client: RpcClient,
    service: String,
    options: RpcOptions,
    queues: StreamQueues,
    /// `None` when the answer has ended.
    entry: Option<StreamEntry>,
    /// The stream at the replica, and its latest batch, until the last one came.
    open: Option<(StreamId, u32)>,
    ahead_bytes: u64,
}

impl Pull {
    async fn run(mut self) {
        if let Err(error) = self.follow().await
            && let Some(entry) = self.entry.take()
        {
            let code = in_session(error).code().unwrap_or(Code::Disconnected);
            entry.fail(Cause::Reset(code.as_u16()));
        }
    }

    async fn follow(&mut self) -> Result<(), Error> {
        while let Some((_, number)) = self.open {
            if !self.wait_for_room().await? {
                return Ok(());
            }
            let number = number.wrapping_add(1);
            let answer = self.ask(number).await?;
            self.take(&answer, number)?;
        }
        Ok(())
    }

    /// Waits until the reader has taken enough; whether it wants more.
    async fn wait_for_room(&mut self) -> Result<bool, Error> {
        let mut keep = Instant::now() + KEEP;
        loop {
            let signal = if self.ahead_bytes <= AHEAD_BYTES {
                match self.queues.signals.try_recv() {
                    Ok(signal) => signal,
                    Err(_) => return Ok(true),
                }
            } else {
                tokio::select! {
                    signal = self.queues.signals.recv() => match signal {
                        Some(signal) => signal,
                        None => return Ok(false),
                    },
                    () = sleep_until(keep) => {
                        if let Some((_, number)) = self.open {
                            self.ask(number).await?;
                        }
                        keep = Instant::now() + KEEP;
                        continue;
                    }
                }
            };
            match signal {
                StreamSignal::Credit { bytes, .. } => {
                    self.ahead_bytes = self.ahead_bytes.saturating_sub(bytes.into());
                }
                // That of the outlet, whose request was sent as a whole.
                StreamSignal::Reset {
                    code: Code::StreamRefused,
                    ..
                } => {}
                StreamSignal::Reset { .. } | StreamSignal::Discard { .. } => return Ok(false),
            }
        }
    }

    async fn ask(&self, number: u32) -> Result<RpcAnswer, Error> {
        let Some((stream, _)) = self.open else {
            return Err(Error::from_code(Code::Disconnected));
        };
        let request = Asked::Ask { stream, number }.encode();
        self.client
            .call(&self.service, &request, self.options.clone())
            .await
    }

    /// Gives the reader a batch; how many bytes it has.
    fn take(&mut self, answer: &RpcAnswer, number: u32) -> Result<usize, Error> {
        let Answer::Batch(batch @ Batch { items, .. }) = Answer::decode(&answer.payload)? else {
            return Err(Error::from_code(Code::BadMessage));
        };
        let is_expected = self.open.is_none_or(|(stream, _)| stream == batch.stream);
        if batch.number != number || !is_expected {
            return Err(Error::from_code(Code::BadMessage));
        }
        self.ahead_bytes += items.len() as u64;
        self.open = (!batch.is_last).then_some((batch.stream, number));
        if let Some(entry) = &self.entry {
            if !items.is_empty() {
                entry.deliver(Delivery::Data(Bytes::copy_from_slice(items)));
            }
            if batch.is_last {
                entry.deliver(Delivery::End);
            }
        }
        if batch.is_last {
            self.entry = None;
        }
        Ok(items.len())
    }
}

impl Drop for Pull {
    /// Tells the server that nobody wants more.
    fn drop(&mut self) {
        let (Some((stream, _)), Ok(runtime)) = (self.open, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let request = Asked::End { stream }.encode();
        let (client, service) = (self.client.clone(), core::mem::take(&mut self.service));
        let options = self.options.clone().timeout(END_TIMEOUT);
        runtime.spawn(async move {
            // One that does not hear of it stops by itself.
            _ = client.call(&service, &request, options).await;
        });
    }
}

/// Returns the error that a session gives for what a provider says: it is told the class alone, and a replica that is gone ends it.
fn in_session(error: Error) -> Error {
    match error.code() {
        Some(Code::UnknownStream) => Error::from_code(Code::Disconnected),
        _ => error,
    }
}
