//! Calls from many sockets in one thread: a load that threads of a thousand clients could not offer to a server on the same machine.
//!
//! One instance of `rpc.wasm` is the client of all sockets. Each has a service of its own, and so a ticket and a session of its own.

use core::time::Duration;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::time::{SystemTime, UNIX_EPOCH};

use bench_pair::Outcome;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use selfsame_codec::rpc::{ClientConfig, ENDPOINT_BYTES, IDEMPOTENT, Input, Output};
use selfsame_codec::{BatchReader, BatchWriter};
use selfsame_host::{Core, CoreModule, Node};

use crate::echo::{LONGEST, four};
use crate::sealed::{Grant, grant, told};

const DATAGRAM_BYTES: u32 = 1200;
const KEPT_BYTES: usize = 1 << 20;
const EVENTS: usize = 1024;

/// Clients in one thread
pub(crate) struct Sources {
    core: Core,
    inputs: BatchWriter,
    sockets: Vec<UdpSocket>,
    poll: Poll,
    events: Events,
    last_call: u32,
    wake_us: u64,
}

/// What a loop of calls has to do yet
struct Loop {
    begun: u64,
    done: u64,
    count: u64,
}

impl Sources {
    /// Sockets with a ticket each, which the mesh of a node gives.
    pub(crate) async fn start(node: &Node, count: usize) -> Outcome<Self> {
        let config = ClientConfig {
            datagram_bytes: DATAGRAM_BYTES,
        };
        let mut core = CoreModule::rpc()
            .and_then(|module| module.instantiate())
            .map_err(told)?;
        core.create_encoded(config.encode()).map_err(told)?;
        let mut sources = Self {
            core,
            inputs: BatchWriter::new(),
            sockets: Vec::new(),
            poll: Poll::new().map_err(told)?,
            events: Events::with_capacity(EVENTS),
            last_call: 0,
            wake_us: u64::MAX,
        };
        for _ in 0..count {
            sources.add(grant(node).await?).map_err(told)?;
        }
        Ok(sources)
    }

    fn add(&mut self, Grant { bytes, address }: Grant) -> std::io::Result<()> {
        let socket = StdSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        let mut socket = UdpSocket::from_std(socket);
        let index = self.sockets.len();
        self.poll
            .registry()
            .register(&mut socket, Token(index), Interest::READABLE)?;
        Input::UseTicket {
            service: index as u32,
            grant: &bytes,
        }
        .encode(&mut self.inputs);
        self.sockets.push(socket);
        Ok(())
    }

    /// Calls `count` times in all, each socket `window` times at once.
    pub(crate) fn repeat(&mut self, window: usize, count: u64) -> Outcome<()> {
        let mut work = Loop {
            begun: 0,
            done: 0,
            count,
        };
        for _ in 0..window {
            for source in 0..self.sockets.len() {
                self.call(source, &mut work);
            }
        }
        while work.done < count {
            if !self.inputs.is_empty() || unix_us() >= self.wake_us {
                self.step(&mut work)?;
            } else {
                self.receive()?;
            }
        }
        Ok(())
    }

    fn call(&mut self, source: usize, work: &mut Loop) {
        if work.begun == work.count {
            return;
        }
        work.begun += 1;
        self.last_call = self.last_call.wrapping_add(1);
        Input::Call {
            call: self.last_call,
            service: source as u32,
            target: endpoint_of(source),
            options: IDEMPOTENT,
            timeout_ms: LONGEST.as_millis() as u32,
            payload: &self.last_call.to_le_bytes(),
        }
        .encode(&mut self.inputs);
    }

    fn step(&mut self, work: &mut Loop) -> Outcome<()> {
        let outputs = self.core.step(unix_us(), self.inputs.as_bytes());
        self.inputs.clear(KEPT_BYTES);
        for item in BatchReader::new(&outputs.map_err(told)?).map_err(told)? {
            match Output::decode(item).map_err(told)? {
                Output::Send { target, bytes } => {
                    // A datagram that does not leave is lost, and sent again later.
                    _ = self.sockets[source_of(&target)].send(bytes);
                }
                Output::Wake { unix_us } => self.wake_us = unix_us,
                Output::Done {
                    call,
                    source,
                    payload,
                } => {
                    if four(payload)? != call.to_le_bytes() {
                        return Err("another echo came back".into());
                    }
                    work.done += 1;
                    self.call(source_of(&source), work);
                }
                other => return Err(format!("a call did not succeed: {other:?}")),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Outcome<()> {
        let longest = self.wake_us.saturating_sub(unix_us()).max(1);
        match self.poll.poll(
            &mut self.events,
            Some(Duration::from_micros(longest).min(LONGEST)),
        ) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.to_string()),
            Ok(()) | Err(_) => {}
        }
        let mut buffer = [0; DATAGRAM_BYTES as usize];
        for event in &self.events {
            let Token(source) = event.token();
            while let Ok(len) = self.sockets[source].recv(&mut buffer) {
                Input::Datagram {
                    source: endpoint_of(source),
                    bytes: &buffer[..len],
                }
                .encode(&mut self.inputs);
            }
        }
        Ok(())
    }
}

/// Returns an endpoint that says which socket is meant; all of them send to the same server.
fn endpoint_of(source: usize) -> [u8; ENDPOINT_BYTES] {
    let mut endpoint = [0xfd; ENDPOINT_BYTES];
    endpoint[..4].copy_from_slice(&(source as u32).to_le_bytes());
    endpoint
}

fn source_of(endpoint: &[u8; ENDPOINT_BYTES]) -> usize {
    u32::from_le_bytes([endpoint[0], endpoint[1], endpoint[2], endpoint[3]]) as usize
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
