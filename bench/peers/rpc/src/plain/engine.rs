//! An engine that frames calls and seals nothing: a number of four bytes, then the payload.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_codec::BatchWriter;
use selfsame_codec::rpc::{IDEMPOTENT, Input, Output};

use super::endpoint::Endpoint;
use crate::error::Error;

const KEPT_BYTES: usize = 1 << 20;
const NUMBER_BYTES: usize = 4;
/// What a seal adds to the four bytes: the session, counter and head of a request, its payload's head and tag, and those of an answer.
const REQUEST_PADDING: [u8; 40] = [0; _];
const ANSWER_PADDING: [u8; 24] = [0; _];
/// When a client with calls under way, and a server with sessions, have to be stepped next.
const WAKE_US: u64 = 1_000_000;
const TIMEOUT_MS: u32 = 30_000;

/// A client or server without a seal
pub(super) struct Engine {
    outputs: BatchWriter,
    /// Calls that a server has not answered yet; `None` in a client.
    serving: Option<Serving>,
    framed: Vec<u8>,
    /// Whether datagrams are as long as sealed ones, and threads wait for a time.
    like_sealed: bool,
}

#[derive(Default)]
struct Serving {
    last: u32,
    calls: HashMap<u32, ([u8; NUMBER_BYTES], Endpoint)>,
}

impl Engine {
    pub(super) fn client() -> Self {
        Self {
            outputs: BatchWriter::new(),
            serving: None,
            framed: Vec::new(),
            like_sealed: false,
        }
    }

    pub(super) fn server() -> Self {
        Self {
            serving: Some(Serving::default()),
            ..Self::client()
        }
    }

    /// Gives the kernel what the sealed RPC gives it.
    pub(super) fn like_sealed(self) -> Self {
        Self {
            like_sealed: true,
            ..self
        }
    }

    /// Turns an input into outputs at once, for the next step to give.
    pub(super) fn give(&mut self, input: &Input<'_>) {
        match *input {
            Input::Call {
                call,
                target,
                payload,
                ..
            } => self.send(target, call.to_le_bytes(), payload),
            Input::Datagram { source, bytes } => self.receive(source, bytes),
            Input::Answer { call, payload } => {
                let calls = self.serving.as_mut().map(|serving| &mut serving.calls);
                if let Some((number, source)) = calls.and_then(|calls| calls.remove(&call)) {
                    self.send(source, number, payload);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, target: Endpoint, number: [u8; NUMBER_BYTES], payload: &[u8]) {
        self.framed.clear();
        self.framed.extend_from_slice(&number);
        self.framed.extend_from_slice(payload);
        if self.like_sealed {
            let padding = if self.serving.is_some() {
                &ANSWER_PADDING[..]
            } else {
                &REQUEST_PADDING
            };
            self.framed.extend_from_slice(padding);
        }
        Output::Send {
            target,
            bytes: &self.framed,
        }
        .encode(&mut self.outputs);
    }

    fn receive(&mut self, source: Endpoint, bytes: &[u8]) {
        let padding = match (self.like_sealed, &self.serving) {
            (false, _) => 0,
            (true, Some(_)) => REQUEST_PADDING.len(),
            (true, None) => ANSWER_PADDING.len(),
        };
        let bytes = &bytes[..bytes.len().saturating_sub(padding)];
        let Some((number, payload)) = bytes.split_first_chunk() else {
            return;
        };
        let Some(serving) = &mut self.serving else {
            let call = u32::from_le_bytes(*number);
            Output::Done {
                call,
                source,
                payload,
            }
            .encode(&mut self.outputs);
            return;
        };
        serving.last = serving.last.wrapping_add(1);
        serving.calls.insert(serving.last, (*number, source));
        Output::Serve {
            call: serving.last,
            caller: [0; 32],
            source,
            options: IDEMPOTENT,
            timeout_ms: TIMEOUT_MS,
            payload,
        }
        .encode(&mut self.outputs);
    }

    pub(super) fn has_inputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(super) fn step(&mut self) -> Result<Vec<u8>, Error> {
        let unix_us = if self.like_sealed {
            unix_us() + WAKE_US
        } else {
            u64::MAX
        };
        Output::Wake { unix_us }.encode(&mut self.outputs);
        let outputs = self.outputs.as_bytes().to_vec();
        self.outputs.clear(KEPT_BYTES);
        Ok(outputs)
    }
}

/// Returns the time, in microseconds since 1970.
pub(super) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
