//! The engines without a seal, with memory in place of sockets and threads.

use bench_pair::Outcome;
use selfsame_codec::BatchReader;
use selfsame_codec::rpc::{ENDPOINT_BYTES, IDEMPOTENT, Input, Output};

use super::engine::Engine;
use crate::echo::{Echo, four};

const CLIENT: [u8; ENDPOINT_BYTES] = [1; _];
const SERVER: [u8; ENDPOINT_BYTES] = [2; _];

/// A client's and a server's engine
pub(crate) struct Alone {
    client: Engine,
    server: Engine,
    last_call: u32,
}

impl Alone {
    pub(crate) async fn start() -> Outcome<Self> {
        Ok(Self {
            client: Engine::client(),
            server: Engine::server(),
            last_call: 0,
        })
    }

    fn step_client(&mut self) -> Outcome<Option<[u8; 4]>> {
        let mut answer = None;
        for item in BatchReader::new(&step(&mut self.client)?).map_err(|error| error.to_string())? {
            match Output::decode(item).map_err(|error| error.to_string())? {
                Output::Send { bytes, .. } => self.server.give(&Input::Datagram {
                    source: CLIENT,
                    bytes,
                }),
                Output::Done { payload, .. } => answer = Some(four(payload)?),
                _ => {}
            }
        }
        Ok(answer)
    }

    fn step_server(&mut self) -> Outcome<()> {
        for item in BatchReader::new(&step(&mut self.server)?).map_err(|error| error.to_string())? {
            match Output::decode(item).map_err(|error| error.to_string())? {
                Output::Send { bytes, .. } => self.client.give(&Input::Datagram {
                    source: SERVER,
                    bytes,
                }),
                Output::Serve { call, payload, .. } => self.server.give(&Input::Answer { call, payload }),
                _ => {}
            }
        }
        Ok(())
    }
}

fn step(engine: &mut Engine) -> Outcome<Vec<u8>> {
    engine.step().map_err(|error| error.to_string())
}

impl Echo for Alone {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        self.last_call = self.last_call.wrapping_add(1);
        self.client.give(&Input::Call {
            call: self.last_call,
            service: 0,
            target: SERVER,
            options: IDEMPOTENT,
            timeout_ms: 0,
            payload: &payload,
        });
        self.step_client()?;
        self.step_server()?;
        self.step_server()?;
        self.step_client()?.ok_or_else(|| "a call is not answered".into())
    }
}
