use bench_pair::{Core, Outcome, Pair, Task, configuration, repeat};
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

/// The core as native code
struct Native(Node);

impl Core for Native {
    fn step(&mut self, batch: &[u8]) -> Outcome<&[u8]> {
        Ok(self.0.step(batch))
    }
}

/// Handshakes between two cores.
pub(crate) fn handshakes() -> Outcome<Task> {
    let mut pair = pair()?;
    Ok(repeat(move || pair.handshake()))
}

/// Messages of `len` bytes, each sealed by one core and opened by the other.
pub(crate) fn messages(len: usize) -> Outcome<Task> {
    let mut pair = pair()?;
    pair.open_stream()?;
    Ok(repeat(move || pair.message(len)))
}

fn pair() -> Outcome<Pair<Native>> {
    Pair::new(node(1)?, node(2)?)
}

fn node(number: u8) -> Outcome<Native> {
    Node::new(&configuration(number)?.encode(), &Parameters::DEFAULT)
        .map(Native)
        .map_err(|code| code.to_string())
}
