//! A client and a server of calls without a seal.

use core::net::SocketAddr;
use std::collections::HashMap;

use bench_pair::Outcome;
use selfsame_codec::Malformed;
use selfsame_codec::rpc::{IDEMPOTENT, Input, Output};
use tokio::sync::oneshot;

use super::endpoint::endpoint_of;
use super::engine::Engine;
use super::socket::Socket;
use super::thread::{Role, RpcThread};
use crate::echo::{Echo, four, within};

const TIMEOUT_MS: u32 = 30_000;

/// A server that echoes and a client, each with a thread and a socket
pub(crate) struct Plain {
    client: RpcThread<NewCall>,
    _server: RpcThread<()>,
    target: SocketAddr,
    last_call: u32,
}

impl Plain {
    /// In a Tokio runtime, as the threads take the one that they are started in.
    pub(crate) async fn start(like_sealed: bool) -> Outcome<Self> {
        let engine = |engine: Engine| if like_sealed { engine.like_sealed() } else { engine };
        let failed = |error: std::io::Error| error.to_string();
        let socket = Socket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).map_err(failed)?;
        let target = socket.local_addr().map_err(failed)?;
        let server = RpcThread::start(socket, engine(Engine::server()), |_| Echoing).map_err(failed)?;
        let socket = Socket::bind_any().map_err(failed)?;
        let client = RpcThread::start(socket, engine(Engine::client()), |_| Calling::default());
        Ok(Self {
            client: client.map_err(failed)?,
            _server: server,
            target,
            last_call: 0,
        })
    }
}

impl Echo for Plain {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        self.last_call = self.last_call.wrapping_add(1);
        let (answer, answered) = oneshot::channel();
        self.client.sender().send(NewCall {
            call: self.last_call,
            target: self.target,
            payload: payload.to_vec(),
            answer,
        });
        let answer = within(answered).await?;
        four(&answer.map_err(|_| "a thread has ended")?)
    }
}

struct NewCall {
    call: u32,
    target: SocketAddr,
    payload: Vec<u8>,
    answer: oneshot::Sender<Vec<u8>>,
}

#[derive(Default)]
struct Calling {
    waiting: HashMap<u32, oneshot::Sender<Vec<u8>>>,
}

impl Role for Calling {
    type Order = NewCall;

    fn take(&mut self, new: NewCall, engine: &mut Engine) {
        engine.give(&Input::Call {
            call: new.call,
            service: 0,
            target: endpoint_of(new.target),
            options: IDEMPOTENT,
            timeout_ms: TIMEOUT_MS,
            payload: &new.payload,
        });
        self.waiting.insert(new.call, new.answer);
    }

    fn follow(&mut self, output: &Output<'_>, _: &mut Engine) -> Result<(), Malformed> {
        let Output::Done { call, payload, .. } = *output else {
            return Err(Malformed);
        };
        if let Some(answer) = self.waiting.remove(&call) {
            // The caller may have given up.
            _ = answer.send(payload.to_vec());
        }
        Ok(())
    }
}

struct Echoing;

impl Role for Echoing {
    type Order = ();

    fn take(&mut self, (): (), _: &mut Engine) {}

    fn follow(&mut self, output: &Output<'_>, engine: &mut Engine) -> Result<(), Malformed> {
        let Output::Serve { call, payload, .. } = *output else {
            return Err(Malformed);
        };
        engine.give(&Input::Answer { call, payload });
        Ok(())
    }
}
