//! What an echo of the RPC is made of, part by part.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bench_pair::{Outcome, Task};
use selfsame_codec::rpc::{ClientConfig, ENDPOINT_BYTES, IDEMPOTENT, Input, Output, ServerConfig};
use selfsame_codec::{BatchReader, BatchWriter};
use selfsame_host::{Core, CoreModule};
use wasmtime::{Config, Engine, Instance, Module, OptLevel, Store};

use crate::clock::cpu_time;
use crate::echo::{Echo, four};
use crate::sealed::told;

const DATAGRAM_BYTES: u32 = 1200;
const TICKET_LIFE_S: u32 = 3600;
const TIMEOUT_MS: u32 = 30_000;
const KEPT_BYTES: usize = 1 << 20;
const CLIENT: [u8; ENDPOINT_BYTES] = [1; _];
const SERVER: [u8; ENDPOINT_BYTES] = [2; _];
/// Steps of an echo: the call, the request, the handler's answer, the response.
const STEPS: u64 = 4;

/// Client and server of the RPC, with memory in place of sockets and threads
pub(crate) struct Exchange {
    client: Side,
    server: Side,
    last_call: u32,
}

struct Side {
    core: Core,
    inputs: BatchWriter,
}

impl Side {
    fn new(config: Vec<u8>) -> Outcome<Self> {
        let core = CoreModule::rpc().and_then(|module| module.instantiate());
        let mut core = core.map_err(told)?;
        core.create_encoded(config).map_err(told)?;
        Ok(Self {
            core,
            inputs: BatchWriter::new(),
        })
    }

    fn step(&mut self) -> Outcome<Vec<u8>> {
        let outputs = self.core.step(unix_us(), self.inputs.as_bytes());
        self.inputs.clear(KEPT_BYTES);
        outputs.map_err(told)
    }
}

impl Exchange {
    pub(crate) async fn start() -> Outcome<Self> {
        let config = ServerConfig {
            network: b"bench",
            service: b"echo",
            ticket_secrets: &[7; 32],
            entropy: [8; 32],
            datagram_bytes: DATAGRAM_BYTES,
            streams: false,
            ticket_life_s: TICKET_LIFE_S,
            replay: 1,
            not_before_ms: 0,
            router_secret: &[],
        };
        let config_of_client = ClientConfig {
            datagram_bytes: DATAGRAM_BYTES,
        };
        let mut exchange = Self {
            client: Side::new(config_of_client.encode())?,
            server: Side::new(config.encode())?,
            last_call: 0,
        };
        Input::IssueTicket {
            tag: 0,
            caller: [9; 32],
            endpoint: [0; _],
        }
        .encode(&mut exchange.server.inputs);
        exchange.step_server()?;
        exchange.step_client()?;
        Ok(exchange)
    }

    /// Steps the client; the answer, if there is one.
    fn step_client(&mut self) -> Outcome<Option<[u8; 4]>> {
        let mut answer = None;
        for item in BatchReader::new(&self.client.step()?).map_err(told)? {
            match Output::decode(item).map_err(told)? {
                Output::Send { bytes, .. } => Input::Datagram {
                    source: CLIENT,
                    bytes,
                }
                .encode(&mut self.server.inputs),
                Output::Done { payload, .. } => answer = Some(four(payload)?),
                Output::Wake { .. } => {}
                other => return Err(format!("a call did not succeed: {other:?}")),
            }
        }
        Ok(answer)
    }

    fn step_server(&mut self) -> Outcome<()> {
        for item in BatchReader::new(&self.server.step()?).map_err(told)? {
            match Output::decode(item).map_err(told)? {
                Output::Send { bytes, .. } => Input::Datagram {
                    source: SERVER,
                    bytes,
                }
                .encode(&mut self.client.inputs),
                Output::Serve { call, payload, .. } => {
                    Input::Answer { call, payload }.encode(&mut self.server.inputs)
                }
                Output::Issued { grant, .. } => {
                    Input::UseTicket { service: 0, grant }.encode(&mut self.client.inputs)
                }
                Output::Wake { .. } => {}
                other => return Err(format!("a call was not carried out: {other:?}")),
            }
        }
        Ok(())
    }
}

impl Echo for Exchange {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        self.last_call = self.last_call.wrapping_add(1);
        Input::Call {
            call: self.last_call,
            service: 0,
            target: SERVER,
            options: IDEMPOTENT,
            timeout_ms: TIMEOUT_MS,
            payload: &payload,
        }
        .encode(&mut self.client.inputs);
        self.step_client()?;
        self.step_server()?;
        self.step_server()?;
        self.step_client()?
            .ok_or_else(|| "a call is not answered at once".into())
    }
}

/// Steps with nothing to do: what entering and leaving the module costs.
pub(crate) fn steps() -> Outcome<Task> {
    let config = ClientConfig {
        datagram_bytes: DATAGRAM_BYTES,
    };
    let mut side = Side::new(config.encode())?;
    Ok(Box::new(move |count| {
        let before = cpu_time();
        for _ in 0..count * STEPS {
            side.step()?;
        }
        Ok(cost((cpu_time() - before).as_nanos(), count))
    }))
}

/// The packets of an echo sealed and opened in WebAssembly, and nothing else.
pub(crate) fn packets(module: &Path) -> Outcome<Task> {
    let mut config = Config::new();
    // As the host has it.
    config
        .wasm_relaxed_simd(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed);
    let engine = Engine::new(&config).map_err(told)?;
    let module = Module::from_file(&engine, module).map_err(told)?;
    let mut store = Store::new(&engine, ());
    store.set_epoch_deadline(1);
    let instance = Instance::new(&mut store, &module, &[]).map_err(told)?;
    let work = instance
        .get_typed_func::<u32, u32>(&mut store, "packets")
        .map_err(told)?;
    Ok(Box::new(move |count| {
        let before = cpu_time();
        work.call(&mut store, u32::try_from(count).map_err(told)?)
            .map_err(told)?;
        Ok(cost((cpu_time() - before).as_nanos(), count))
    }))
}

fn cost(ns: u128, count: u64) -> String {
    let cpu_ns = ns as f64 / count.max(1) as f64;
    format!(r#"{{"cpu_ns":{cpu_ns},"took":[]}}"#)
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
