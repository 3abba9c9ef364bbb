//! What is fuzzed. Each target checks what must hold for every input; a check that fails is a panic like any other.

mod answer;
mod capsule;
mod client;
mod decode;
mod dns;
mod exchange;
mod family;
mod handshake;
mod lab;
mod pair;
mod peer;
mod replica;
mod ring;
mod rpc;
mod session;
mod signed;
#[path = "../../../capsule/tests/common/single.rs"]
mod single;
mod step;
mod streams;

use crate::mutate::Shape;

/// One way to feed the core
pub(crate) trait Target {
    /// Its name on the command line and in the corpus.
    fn name(&self) -> &'static str;

    /// Its share of the executions relative to the other targets: cheap ones run more often.
    fn weight(&self) -> usize;

    /// How its inputs are built.
    fn shape(&self) -> Shape;

    /// Longest input.
    fn max_len(&self) -> usize {
        4096
    }

    /// Whether something lasts from one execution to the next on purpose.
    fn keeps_state(&self) -> bool {
        false
    }

    /// Sound inputs to start from.
    fn seeds(&mut self) -> Vec<Vec<u8>>;

    /// Runs one input.
    fn run(&mut self, input: &[u8]);
}

/// Every target.
pub(crate) fn all() -> Vec<Box<dyn Target>> {
    let mut all = decode::targets();
    all.extend(signed::targets());
    all.extend(capsule::targets());
    all.extend(replica::targets());
    all.extend(exchange::targets());
    all.extend(client::targets());
    all.extend(rpc::targets());
    all.extend(dns::targets());
    all.push(Box::new(family::Family));
    all.push(Box::new(handshake::Handshake::new()));
    all.push(Box::new(session::Packets::new()));
    all.push(Box::new(session::Snapshots::new()));
    all.push(Box::new(streams::StreamPair));
    all.push(Box::new(ring::Rings::new()));
    all.push(Box::new(step::Step));
    all.push(Box::new(peer::Attacker::new()));
    all.push(Box::new(answer::Answer));
    all.push(Box::new(pair::Pair));
    all.push(Box::new(pair::Soak::new()));
    all
}
