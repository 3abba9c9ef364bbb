use bench_pair::{Outcome, Task, repeat};
use snow::{Builder, HandshakeState, Keypair, TransportState};

/// The pattern and suite of libp2p's noise, the closest to ours that snow has.
const PROTOCOL: &str = "Noise_XX_25519_ChaChaPoly_SHA256";
/// Longest message of the Noise framework.
const LONGEST: usize = 65_535;
/// Longest message of the XX handshake without payloads.
const LONGEST_HANDSHAKE: usize = 128;

/// Handshakes between two peers with lasting static keys, in snow's fastest configuration.
pub(crate) fn handshakes() -> Outcome<Task> {
    let peers = Peers::new()?;
    Ok(repeat(move || {
        peers.handshake().map(drop).map_err(|error| error.to_string())
    }))
}

/// Messages of `len` bytes, each sealed by one side and opened by the other.
pub(crate) fn messages(len: usize) -> Outcome<Task> {
    let (mut sender, mut receiver) = Peers::new()?.handshake().map_err(|error| error.to_string())?;
    let payload = vec![7; len];
    let mut sealed = vec![0; LONGEST];
    let mut opened = vec![0; LONGEST];
    Ok(repeat(move || {
        let written = sender
            .write_message(&payload, &mut sealed)
            .map_err(|error| error.to_string())?;
        let read = receiver
            .read_message(&sealed[..written], &mut opened)
            .map_err(|error| error.to_string())?;
        if read == len {
            Ok(())
        } else {
            Err("a message did not arrive".into())
        }
    }))
}

struct Peers {
    initiator: Keypair,
    responder: Keypair,
}

impl Peers {
    fn new() -> Outcome<Self> {
        let pair = || builder().generate_keypair().map_err(|error| error.to_string());
        Ok(Self {
            initiator: pair()?,
            responder: pair()?,
        })
    }

    fn handshake(&self) -> Result<(TransportState, TransportState), snow::Error> {
        let mut initiator = builder()
            .local_private_key(&self.initiator.private)?
            .build_initiator()?;
        let mut responder = builder()
            .local_private_key(&self.responder.private)?
            .build_responder()?;
        pass(&mut initiator, &mut responder)?;
        pass(&mut responder, &mut initiator)?;
        pass(&mut initiator, &mut responder)?;
        Ok((initiator.into_transport_mode()?, responder.into_transport_mode()?))
    }
}

fn builder() -> Builder<'static> {
    let protocol = PROTOCOL.parse().expect("the name of a Noise protocol");
    Builder::with_resolver(
        protocol,
        Box::new(snow::resolvers::FallbackResolver::new(
            Box::new(snow::resolvers::RingResolver),
            Box::new(snow::resolvers::DefaultResolver),
        )),
    )
}

fn pass(from: &mut HandshakeState, to: &mut HandshakeState) -> Result<(), snow::Error> {
    let mut message = [0; LONGEST_HANDSHAKE];
    let mut payload = [0; LONGEST_HANDSHAKE];
    let written = from.write_message(&[], &mut message)?;
    to.read_message(&message[..written], &mut payload)?;
    Ok(())
}
