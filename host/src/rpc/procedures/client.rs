//! Calls of procedures.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::vec;

use futures_util::Stream;
use selfsame_codec::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle as Runtime;
use tokio::task::JoinHandle;

use super::limits::MAX_INPUT;
use super::wire::{Answer, Request, StreamId};
use super::{RpcProcedure, RpcStreamProcedure, json};
use crate::error::Error;
use crate::rpc::{RpcAnswer, RpcClient, RpcOptions};

/// How long a server may take to hear that a stream is ended, which it also ends when nobody asks.
const END_TIMEOUT: Duration = Duration::from_secs(5);

impl RpcClient {
    /// Calls a procedure of a service. The procedure says whether that is idempotent.
    ///
    /// # Errors
    /// What the procedure refuses, as [`Self::call`], and `BadMessage` for an output of another type.
    pub async fn procedure<I: Serialize, O: DeserializeOwned>(
        &self,
        service: &str,
        procedure: impl Into<RpcProcedure<I, O>>,
        input: &I,
        options: RpcOptions,
    ) -> Result<O, Error> {
        let procedure = procedure.into();
        let request = begin(procedure.name, input)?;
        let options = declared(options, procedure.is_idempotent);
        let answer = self.call(service, &request, options).await?;
        match Answer::decode(&answer.payload)? {
            Answer::Output(output) => json::read(output).map_err(|error| mistyped("the output", &error)),
            _ => Err(malformed("the procedure answers with a stream")),
        }
    }

    /// Begins a stream of a service. The time of the options is that of each call for its items.
    ///
    /// # Errors
    /// What the procedure refuses, and as [`Self::call`].
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub async fn stream<I: Serialize, T: DeserializeOwned>(
        &self,
        service: &str,
        procedure: impl Into<RpcStreamProcedure<I, T>>,
        input: &I,
        options: RpcOptions,
    ) -> Result<RpcStream<T>, Error> {
        let procedure = procedure.into();
        let request = begin(procedure.name, input)?;
        let first = self
            .call(
                service,
                &request,
                // The replica that begins a stream has the rest of it.
                declared(options.clone(), procedure.is_idempotent).names_replica(),
            )
            .await?;
        let mut stream = RpcStream {
            client: self.clone(),
            service: service.into(),
            // A batch that is asked for again is the same one.
            options: options.idempotent().server(first.server.clone()),
            runtime: Runtime::current(),
            items: Vec::new().into_iter(),
            next: None,
        };
        stream.take(&first, 0)?;
        Ok(stream)
    }
}

/// The items of a procedure that answers with a stream: the next batch is asked for while this one is taken. It ends at the server when it
/// is dropped, and with its first error.
#[derive(Debug)]
pub struct RpcStream<T> {
    client: RpcClient,
    service: String,
    options: RpcOptions,
    runtime: Runtime,
    items: vec::IntoIter<T>,
    next: Option<NextBatch>,
}

#[derive(Debug)]
struct NextBatch {
    stream: StreamId,
    number: u32,
    answer: JoinHandle<Result<RpcAnswer, Error>>,
}

impl<T: DeserializeOwned> RpcStream<T> {
    /// Takes a batch, and asks for the one after it.
    fn take(&mut self, answer: &RpcAnswer, number: u32) -> Result<(), Error> {
        let batch = match Answer::decode(&answer.payload)? {
            Answer::Batch(batch) if batch.number == number => batch,
            _ => {
                return Err(malformed(
                    "the service answers with what is not the batch that was asked for",
                ));
            }
        };
        if !batch.is_last {
            self.next = Some(self.ask(batch.stream, number.wrapping_add(1)));
        }
        let items: Vec<T> = json::read(batch.items).map_err(|error| mistyped("a batch", &error))?;
        self.items = items.into_iter();
        Ok(())
    }

    fn ask(&self, stream: StreamId, number: u32) -> NextBatch {
        let request = Request::Ask { stream, number }.encode();
        let (client, service, options) = (self.client.clone(), self.service.clone(), self.options.clone());
        let asking = async move { client.call(&service, &request, options).await };
        NextBatch {
            stream,
            number,
            answer: self.runtime.spawn(asking),
        }
    }
}

impl<T> RpcStream<T> {
    /// Tells the server that nobody wants more.
    fn end(&mut self) {
        let Some(NextBatch { stream, answer, .. }) = self.next.take() else {
            return;
        };
        answer.abort();
        let request = Request::End { stream }.encode();
        let (client, service) = (self.client.clone(), core::mem::take(&mut self.service));
        let options = self.options.clone().timeout(END_TIMEOUT);
        self.runtime.spawn(async move {
            // One that does not hear of it stops by itself.
            _ = client.call(&service, &request, options).await;
        });
    }
}

impl<T: DeserializeOwned + Unpin> Stream for RpcStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(NextBatch { number, answer, .. }) = &mut self.next else {
                return Poll::Ready(None);
            };
            let number = *number;
            let answered = ready!(Pin::new(answer).poll(context));
            self.next = None;
            // The runtime has ended.
            let answered = answered.unwrap_or_else(|_| Err(Error::Stopped));
            if let Err(error) = answered.and_then(|answer| self.take(&answer, number)) {
                self.end();
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl<T> Drop for RpcStream<T> {
    fn drop(&mut self) {
        self.end();
    }
}

fn begin<I: Serialize>(name: &str, input: &I) -> Result<Vec<u8>, Error> {
    let value = json::write(input).map_err(|_| malformed("the input has no JSON"))?;
    if value.len() > MAX_INPUT {
        let text = format!(
            "an input has at most {MAX_INPUT} bytes of JSON (got {})",
            value.len()
        );
        return Err(Error::core(Code::TooLarge.as_u16(), &text));
    }
    let name = name.as_bytes();
    Ok(Request::Begin { name, value: &value }.encode())
}

fn declared(options: RpcOptions, is_idempotent: bool) -> RpcOptions {
    if is_idempotent {
        options.idempotent()
    } else {
        options
    }
}

fn mistyped(what: &str, error: &serde_json::Error) -> Error {
    malformed(&format!("{what} is not what the contract says: {error}"))
}

fn malformed(text: &str) -> Error {
    Error::core(Code::BadMessage.as_u16(), text)
}
