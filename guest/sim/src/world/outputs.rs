//! One step of a core, and what its host does about it.

use selfsame_codec::{BatchReader, BatchWriter, Code, EventKind, Input, Output};

use super::{End, World};
use crate::host::{Answer, Opened, Outcome};
use crate::machine::Machine;
use crate::queue::Event;

/// What a host has for its core at once
enum Next {
    Read { tag: u32, entries: Vec<u8> },
    Committed { tag: u32 },
    Entropy { bytes: [u8; 32] },
    Closed { path: u32 },
}

impl Next {
    fn input(&self) -> Input<'_> {
        match self {
            Self::Read { tag, entries } => Input::StoreRead {
                tag: *tag,
                ok: true,
                entries,
            },
            Self::Committed { tag } => Input::StoreCommitted { tag: *tag, ok: true },
            Self::Entropy { bytes } => Input::Entropy { bytes: *bytes },
            Self::Closed { path } => Input::PathClosed { path: *path },
        }
    }
}

impl<M: Machine> World<M> {
    /// Steps a core, and again with what its host answers at once. A node that cannot go on is ended.
    pub(super) fn step(&mut self, host: usize, inputs: &[Input<'_>]) {
        let mut next = self.step_once(host, inputs);
        while !next.is_empty() {
            let inputs: Vec<Input<'_>> = next.iter().map(Next::input).collect();
            next = self.step_once(host, &inputs);
        }
        if self.hosts[host].fatal.is_some() {
            self.end(host, End::Killed);
        }
    }

    fn step_once(&mut self, host: usize, inputs: &[Input<'_>]) -> Vec<Next> {
        let Some(core) = self.hosts[host].core else {
            return Vec::new();
        };
        let mut items = BatchWriter::new();
        inputs.iter().for_each(|input| input.encode(&mut items));
        let mut batch = self.clock_ms(host).to_le_bytes().to_vec();
        batch.extend_from_slice(items.as_bytes());
        let outputs = self.machine.step(core, &batch).to_vec();
        self.steps += 1;
        self.record(host, &outputs);
        let mut next = Vec::new();
        for item in BatchReader::new(&outputs).expect("a core encodes its outputs") {
            let output = Output::decode(item).expect("a core encodes its outputs");
            self.take(host, output, &mut next);
        }
        next
    }

    fn take(&mut self, host: usize, output: Output<'_>, next: &mut Vec<Next>) {
        match output {
            Output::Transmit { path, frame } => self.transmit(host, path, frame),
            Output::Dial { dial, address } => self.dial(host, dial, address),
            Output::ClosePath { path } => {
                if let Some(end) = self.hosts[host].paths.remove(&path) {
                    self.abandon(end, true);
                    next.push(Next::Closed { path });
                } else if self.hosts[host].outside.remove(&path).is_some() {
                    next.push(Next::Closed { path });
                }
            }
            Output::NeedEntropy {} => {
                let bytes = self.entropy();
                next.push(Next::Entropy { bytes });
            }
            Output::StoreGet { tag, key } => {
                let entries = self.hosts[host].disk.get(key);
                next.push(Next::Read { tag, entries });
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let entries = self.hosts[host].disk.scan(start, end, limit);
                next.push(Next::Read { tag, entries });
            }
            Output::StoreCommit {
                tag,
                durable,
                operations,
            } => {
                self.hosts[host].disk.commit(operations, durable);
                next.push(Next::Committed { tag });
            }
            Output::Wake { at_ms } => self.wake_at(host, at_ms),
            told => self.hear(host, told),
        }
    }

    /// Sets when a core is stepped again though nothing happens to it.
    ///
    /// # Panics
    /// When that is not later than now: a real host would step such a core without end.
    fn wake_at(&mut self, host: usize, at_ms: u64) {
        let clock_ms = self.clock_ms(host);
        assert!(
            at_ms > clock_ms,
            "host {host} wants to be woken {} ms ago, which never ends (seed {})",
            clock_ms - at_ms,
            self.seed
        );
        let at_ms = match at_ms {
            u64::MAX => u64::MAX,
            at_ms => self.now_ms + (at_ms - clock_ms),
        };
        // An event that stands for an earlier time than is wanted now is passed over when it comes.
        if self.hosts[host].wake_ms != at_ms && at_ms != u64::MAX {
            self.queue.add(at_ms, Event::Wake { host });
        }
        self.hosts[host].wake_ms = at_ms;
    }

    /// Takes note of what a core tells its application.
    fn hear(&mut self, host: usize, output: Output<'_>) {
        let at_ms = self.now_ms;
        let told = &mut self.hosts[host];
        match output {
            Output::Reply { tag, body } => {
                let outcome = Outcome::Reply(body.to_vec());
                told.answers.insert(tag, Answer { at_ms, outcome });
            }
            Output::Failed { tag: 0, code, .. } => told.fatal = Code::from_u16(code),
            Output::Failed { tag, code, .. } => {
                let outcome = Outcome::Failed(code);
                told.answers.insert(tag, Answer { at_ms, outcome });
            }
            Output::Event {
                event: EventKind::Convicted,
                body,
            } => told.convicted.push((at_ms, body.to_vec())),
            Output::StreamOpened {
                stream,
                tag,
                peer,
                service,
                ..
            } => {
                if tag != 0 {
                    let outcome = Outcome::Opened(peer);
                    told.answers.insert(tag, Answer { at_ms, outcome });
                }
                told.opened.push(Opened {
                    stream,
                    tag,
                    peer,
                    service: service.into(),
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use selfsame_codec::{Config, Role};

    use super::*;
    use crate::machine::{Handle, Native};

    /// Cores that always want to be stepped again at once
    #[derive(Default)]
    struct Restless {
        native: Native,
        outputs: Vec<u8>,
    }

    impl Machine for Restless {
        fn create(&mut self, config: &Config) -> Handle {
            self.native.create(config)
        }

        fn step(&mut self, core: Handle, batch: &[u8]) -> &[u8] {
            let (now_ms, _) = batch.split_first_chunk().expect("a batch begins with the time");
            let at_ms = u64::from_le_bytes(*now_ms);
            let mut items = BatchWriter::new();
            for item in BatchReader::new(self.native.step(core, batch)).expect("a core encodes its outputs") {
                match Output::decode(item).expect("a core encodes its outputs") {
                    Output::Wake { .. } => Output::Wake { at_ms }.encode(&mut items),
                    output => output.encode(&mut items),
                }
            }
            self.outputs = items.as_bytes().to_vec();
            &self.outputs
        }

        fn destroy(&mut self, core: Handle) {
            self.native.destroy(core);
        }
    }

    #[test]
    #[should_panic(expected = "host 1 wants to be woken 0 ms ago, which never ends (seed 5)")]
    fn a_core_that_would_be_stepped_without_end_is_refused() {
        let mut world = World::new(Restless::default(), 5);
        world.add(Role::Member, &[]);
        let host = world.add(Role::Member, &[]);
        world.start(host);
    }
}
