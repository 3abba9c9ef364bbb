//! Two peers on one machine that ping each other over UDP, with messages that are not authenticated, sealed by the channel, or signed.
//!
//! The product has neither the first nor the last.

use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Instant;

use bench_pair::{Outcome, Task};
use selfsame_core::admission::Gate;
use selfsame_core::channel::{Session, Side};
use selfsame_core::handshake::{Initiator, Responder};
use selfsame_core::identity::{Identity, NetworkId};
use selfsame_core::random::Random;
use selfsame_sodium::sign::{SigningKey, verify};

/// Bytes of a ping and of its echo.
const PING_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// How long an echo may take; loopback loses none.
const LONGEST: Duration = Duration::from_secs(10);
/// Longest datagram.
const DATAGRAM: usize = 256;

/// How one peer protects and checks messages
enum Guard {
    None,
    Mac(Box<Session>),
    Ed25519 { key: SigningKey, peer: [u8; 32] },
}

impl Guard {
    fn wrap(&mut self, message: &[u8], out: &mut Vec<u8>) -> Outcome<()> {
        out.clear();
        match self {
            Self::None => out.extend_from_slice(message),
            Self::Mac(session) => session
                .seal(0, out, |out| out.extend_from_slice(message))
                .map_err(|code| code.to_string())?,
            Self::Ed25519 { key, .. } => {
                out.extend_from_slice(message);
                out.extend_from_slice(&key.sign(message));
            }
        }
        Ok(())
    }

    fn unwrap<'a>(&mut self, datagram: &'a mut [u8]) -> Outcome<&'a [u8]> {
        match self {
            Self::None => Ok(datagram),
            Self::Mac(session) => session.open(0, datagram).map_err(|code| code.to_string()),
            Self::Ed25519 { peer, .. } => {
                let (message, signature) = datagram
                    .split_last_chunk::<SIGNATURE_BYTES>()
                    .ok_or("a message without a signature")?;
                if !verify(signature, message, peer) {
                    return Err("a signature does not verify".into());
                }
                Ok(message)
            }
        }
    }
}

/// Pings the peer as often as it is told; tells the nanoseconds of one round trip.
pub(crate) fn task(how: &str) -> Outcome<Task> {
    let (mut ours, theirs) = guards(how)?;
    let socket = bind()?;
    let peer = bind()?;
    let (here, there) = (address(&socket)?, address(&peer)?);
    socket.connect(there).map_err(told)?;
    peer.connect(here).map_err(told)?;
    thread::spawn(move || echo(&peer, theirs));
    Ok(Box::new(move |count| {
        let (mut out, mut datagram) = (Vec::new(), [0; DATAGRAM]);
        let begin = Instant::now();
        for number in 0..count {
            let mut ping = [0; PING_BYTES];
            ping[..8].copy_from_slice(&number.to_le_bytes());
            ours.wrap(&ping, &mut out)?;
            socket.send(&out).map_err(told)?;
            let len = socket.recv(&mut datagram).map_err(told)?;
            if ours.unwrap(&mut datagram[..len])? != ping {
                return Err("another echo came back".into());
            }
        }
        Ok((begin.elapsed().as_nanos() as f64 / count.max(1) as f64).to_string())
    }))
}

/// Answers pings until the process ends.
fn echo(socket: &UdpSocket, mut guard: Guard) {
    let (mut out, mut datagram) = (Vec::new(), [0; DATAGRAM]);
    loop {
        let Ok(len) = socket.recv(&mut datagram) else {
            continue;
        };
        let echoed = guard
            .unwrap(&mut datagram[..len])
            .map(<[u8]>::to_vec)
            .and_then(|message| guard.wrap(&message, &mut out));
        if let Err(error) = echoed.and_then(|()| socket.send(&out).map_err(told)) {
            eprintln!("a ping was not answered: {error}");
        }
    }
}

fn guards(how: &str) -> Outcome<(Guard, Guard)> {
    match how {
        "none" => Ok((Guard::None, Guard::None)),
        "mac" => {
            let (one, other) = sessions()?;
            Ok((Guard::Mac(Box::new(one)), Guard::Mac(Box::new(other))))
        }
        "ed25519" => {
            let [one, other] = [1, 2].map(|seed| SigningKey::from_seed(&[seed; 32]));
            let keys = [one.public(), other.public()];
            let guard = |key, peer| Guard::Ed25519 { key, peer };
            Ok((guard(one, keys[1]), guard(other, keys[0])))
        }
        _ => Err(format!("no way {how} to authenticate messages")),
    }
}

/// Both ends of a session out of a handshake.
fn sessions() -> Outcome<(Session, Session)> {
    let network = NetworkId::open("bench");
    let [one, other] = [1, 2].map(|seed| Identity::recall(&[seed; 32], network, &[]));
    let mut random = Random::new(&[3; 32]);
    let mut gate = Gate::new(network, None);
    let code = |code: selfsame_host::Code| code.to_string();
    let initiator = Initiator::new(&one, &mut random, Some(other.id()), 1);
    let initiation = initiator
        .initiation()
        .try_into()
        .map_err(|_| "m1 has another length")?;
    let responder = Responder::new(&other, &mut random, initiation, 2).map_err(code)?;
    let finished = initiator.finish(&one, (&mut gate, 0), responder.response());
    let (secrets, confirmation) = finished.map_err(code)?;
    let sealed = confirmation.seal(&one, &[]);
    let confirmed = responder.finish(&other, (&mut gate, 0), &sealed).map_err(code)?;
    Ok((
        Session::new(secrets, Side::Initiator, 2, 0),
        Session::new(confirmed.secrets, Side::Responder, 1, 0),
    ))
}

fn bind() -> Outcome<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(told)?;
    socket.set_read_timeout(Some(LONGEST)).map_err(told)?;
    Ok(socket)
}

fn address(socket: &UdpSocket) -> Outcome<SocketAddr> {
    socket.local_addr().map_err(told)
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
