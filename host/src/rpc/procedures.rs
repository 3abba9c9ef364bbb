//! Typed procedures above the bytes of the RPC (docs/specification/rpc.md, "Procedures").

use alloc::sync::Arc;
use core::marker::PhantomData;
use core::net::SocketAddr;
use std::collections::HashMap;
use std::time::Instant;

use futures_util::{Stream, StreamExt as _};
use selfsame_codec::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answering::{AnswerFuture, Outcome, RpcRefusal, RpcRequest};
use crate::id::PeerId;

mod limits;

mod json;

mod wire;
pub(super) use wire::{Answer, Batch, Failure, Request, StreamId};

mod batches;
pub(super) use batches::{ItemFormat, ItemStream};

mod streams;
pub(super) use streams::StreamTable;

mod client;
pub use client::RpcStream;

/// A procedure that answers once: its name, the types of its input and output, and whether it is idempotent.
#[derive(Debug)]
pub struct RpcProcedure<I, O> {
    name: &'static str,
    is_idempotent: bool,
    types: PhantomData<fn(I) -> O>,
}

/// A procedure that answers with a stream: its name, the types of its input and items, and whether it is idempotent.
#[derive(Debug)]
pub struct RpcStreamProcedure<I, T> {
    name: &'static str,
    is_idempotent: bool,
    types: PhantomData<fn(I) -> T>,
}

macro_rules! declared_by_name {
    ($procedure:ident) => {
        impl<I, O> $procedure<I, O> {
            /// A procedure that is begun once: a letter, then letters, digits, `_`, `-` and `.`, at most 63 together.
            #[must_use]
            pub const fn new(name: &'static str) -> Self {
                Self {
                    name,
                    is_idempotent: false,
                    types: PhantomData,
                }
            }

            /// Beginning it twice does no harm.
            #[must_use]
            pub const fn idempotent(mut self) -> Self {
                self.is_idempotent = true;
                self
            }
        }

        impl<I, O> From<&'static str> for $procedure<I, O> {
            fn from(name: &'static str) -> Self {
                Self::new(name)
            }
        }
    };
}

declared_by_name!(RpcProcedure);
declared_by_name!(RpcStreamProcedure);

/// The caller of a procedure, and how long it waits: a request without its bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RpcContext {
    /// Whom the ticket was issued to.
    pub caller: PeerId,
    /// Where the request came from.
    pub source: SocketAddr,
    /// When the caller gives up; for a stream, when it gives up waiting for the first items.
    pub deadline: Instant,
}

type Begin = Box<dyn Fn(Vec<u8>, RpcContext, Arc<StreamTable>) -> AnswerFuture + Send + Sync>;

struct Served {
    is_idempotent: bool,
    begin: Begin,
}

/// The procedures that a server carries out.
///
/// ```no_run
/// # async fn example(client: selfsame_host::rpc::RpcClient) -> Result<(), Box<dyn core::error::Error>> {
/// use futures_util::{StreamExt as _, stream};
/// use selfsame_host::Seed;
/// use selfsame_host::rpc::{RpcOptions, RpcProcedure, RpcProcedures, RpcServer, RpcStreamProcedure};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Check {
///     url: String,
/// }
///
/// // What servers and clients share.
/// const CHECK: RpcProcedure<Check, bool> = RpcProcedure::new("check").idempotent();
/// const COUNT: RpcStreamProcedure<u32, u32> = RpcStreamProcedure::new("count");
///
/// let procedures = RpcProcedures::new()
///     .procedure(CHECK, async |input: Check, _| Ok(input.url.starts_with("https:")))
///     .stream(COUNT, |input, _| stream::iter(0..input).map(Ok));
/// let server = RpcServer::builder("twiitr", "links", Seed::generate()?)
///     .idempotent()
///     .start("0.0.0.0:7400".parse()?, procedures.into_handler())?;
///
/// let input = Check { url: "https://example.com".into() };
/// let is_safe = client.procedure("links", CHECK, &input, RpcOptions::new()).await?;
/// let mut numbers = client.stream("links", COUNT, &10, RpcOptions::new()).await?;
/// while let Some(number) = numbers.next().await {
///     println!("{}", number?);
/// }
/// # drop((server, is_safe));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct RpcProcedures {
    served: HashMap<&'static str, Served>,
}

impl RpcProcedures {
    /// No procedures.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a procedure that answers once. A refusal reaches the caller; an input of another type reaches no handler.
    ///
    /// # Panics
    /// When the name is not usable, or taken.
    #[must_use]
    pub fn procedure<I, O, H, F>(self, procedure: impl Into<RpcProcedure<I, O>>, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        H: Fn(I, RpcContext) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O, RpcRefusal>> + Send + 'static,
    {
        let RpcProcedure {
            name, is_idempotent, ..
        } = procedure.into();
        let handler = Arc::new(handler);
        let begin: Begin = Box::new(move |input, context, _| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let input = match json::read_input(&input) {
                    Ok(input) => input,
                    Err(failure) => return Ok(Answer::Failure(&failure).encode()),
                };
                let output = handler(input, context).await?;
                Ok(Answer::Output(&json::write(&output)?).encode())
            })
        });
        self.serve(name, Served { is_idempotent, begin })
    }

    /// Adds a procedure that answers with a stream, which is dropped when its caller stops. A refusal ends it, after the items before.
    ///
    /// # Panics
    /// When the name is not usable, or taken.
    #[must_use]
    pub fn stream<I, T, H, S>(self, procedure: impl Into<RpcStreamProcedure<I, T>>, handler: H) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        T: Serialize + 'static,
        H: Fn(I, RpcContext) -> S + Send + Sync + 'static,
        S: Stream<Item = Result<T, RpcRefusal>> + Send + 'static,
    {
        let RpcStreamProcedure {
            name, is_idempotent, ..
        } = procedure.into();
        let handler = Arc::new(handler);
        let begin: Begin = Box::new(move |input, context, streams| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let input = match json::read_input(&input) {
                    Ok(input) => input,
                    Err(failure) => return Ok(Answer::Failure(&failure).encode()),
                };
                let items: ItemStream =
                    Box::pin(handler(input, context).map(|item| json::write_item(&item?)));
                streams.begin(context, items).await
            })
        });
        self.serve(name, Served { is_idempotent, begin })
    }

    /// The handler of a server.
    pub fn into_handler(self) -> impl Fn(RpcRequest) -> AnswerFuture + Send + Sync + 'static {
        let served = self.served;
        let streams = StreamTable::new(ItemFormat::Json);
        move |request| answer(&served, &streams, request)
    }

    fn serve(mut self, name: &'static str, served: Served) -> Self {
        assert!(
            wire::is_name(name),
            "{name:?}: a procedure has a letter and letters, digits, `_`, `-` and `.`, at most 63 together"
        );
        let before = self.served.insert(name, served);
        assert!(
            before.is_none(),
            "{name}: there is another procedure of this name"
        );
        self
    }
}

impl core::fmt::Debug for RpcProcedures {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.served.keys()).finish()
    }
}

fn answer(
    served: &HashMap<&'static str, Served>,
    streams: &Arc<StreamTable>,
    request: RpcRequest,
) -> AnswerFuture {
    let is_idempotent = request.is_idempotent;
    answer_with(streams, request, |name, value, context| {
        find(served, name, is_idempotent)
            .map(|found| (found.begin)(value.to_vec(), context, Arc::clone(streams)))
    })
}

/// Answers a request about streams, and one that begins something by `begin`.
pub(super) fn answer_with(
    streams: &Arc<StreamTable>,
    request: RpcRequest,
    begin: impl FnOnce(&[u8], &[u8], RpcContext) -> Result<AnswerFuture, Failure>,
) -> AnswerFuture {
    let context = RpcContext {
        caller: request.caller,
        source: request.source,
        deadline: request.deadline,
    };
    let answering: AnswerFuture = match Request::decode(&request.payload) {
        Err(refusal) => return ready(Err(refusal)),
        Ok(Request::Begin { name, value }) => match begin(name, value, context) {
            Ok(answering) => answering,
            Err(failure) => return ready(Ok(Answer::Failure(&failure).encode())),
        },
        Ok(Request::Ask { stream, number }) => {
            let streams = Arc::clone(streams);
            Box::pin(async move { streams.ask(context, stream, number).await })
        }
        Ok(Request::End { stream }) => {
            streams.end(context.caller, stream);
            return ready(Ok(Answer::Output(&[]).encode()));
        }
    };
    Box::pin(async move { told(answering.await) })
}

/// Returns the answer that tells a refusal.
fn told(outcome: Outcome) -> Outcome {
    match outcome {
        // The handler of a server tells what failed from what was refused.
        Err(RpcRefusal(Code::HandlerFailed)) | Ok(_) => outcome,
        Err(RpcRefusal(code)) => Ok(Answer::Failure(&Failure::of(code, "")).encode()),
    }
}

fn find<'a>(
    served: &'a HashMap<&'static str, Served>,
    name: &[u8],
    is_idempotent: bool,
) -> Result<&'a Served, Failure> {
    let found = core::str::from_utf8(name).ok().and_then(|name| served.get(name));
    let found =
        found.ok_or_else(|| Failure::of(Code::NoService, "the service has no procedure of this name"))?;
    if is_idempotent && !found.is_idempotent {
        let text = "the service does not declare the procedure idempotent";
        return Err(Failure::of(Code::BadMessage, text));
    }
    Ok(found)
}

fn ready(outcome: Outcome) -> AnswerFuture {
    Box::pin(core::future::ready(outcome))
}

#[cfg(test)]
mod tests;
