//! The loop: choose a target, make an input, run it, look at what it did.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic;
use std::time::Instant;

use crate::coverage::{self, Seen};
use crate::heap;
use crate::mutate::mutate;
use crate::rng::Rng;
use crate::targets::Target;

/// Most that one execution may hold at once beyond what was there before: a few of the largest frames on their way
/// through a few nodes.
const MAX_EXECUTION_BYTES: isize = 16 * 1024 * 1024;
/// Most inputs kept of a target; beyond it new ones take the place of old ones.
const MAX_KEPT: usize = 4096;
/// A run that found so many failures has told enough.
const MAX_FAILURES: usize = 20;

/// Executions after which what lasts from one to the next has filled all tables that hostile frames can fill.
const WARM_UP: u64 = 1_000;
/// What it may still grow by after that: tables are bounded, but their last entries come late.
const MAX_GROWTH: isize = 64 * 1024;

/// What is wrong with the core, and the input that shows it
#[derive(Debug)]
pub(crate) struct Failure {
    /// The target.
    pub(crate) target: &'static str,
    /// What happened.
    pub(crate) message: String,
    /// The input.
    pub(crate) input: Vec<u8>,
}

/// A target with what was found for it
pub(crate) struct Lane {
    pub(crate) target: Box<dyn Target>,
    /// Inputs that did something new, from which others are made.
    pub(crate) inputs: Vec<Vec<u8>>,
    /// Those of them that reached a new point.
    pub(crate) point_finders: Vec<Vec<u8>>,
    pub(crate) executions: u64,
    /// How long they took together: by it whoever writes a target chooses its weight.
    pub(crate) time: Duration,
    pub(crate) heap: LastingHeap,
}

/// What a target that keeps state has on the heap, counted from its creation on
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastingHeap {
    /// Now.
    pub(crate) now: isize,
    /// The most of it while it warmed up.
    pub(crate) warm: isize,
}

/// All targets and what was seen of the core
pub(crate) struct Engine {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) seen: Seen,
    pub(crate) failures: Vec<Failure>,
    /// Most that one execution held at once.
    pub(crate) largest_execution: isize,
    rng: Rng,
}

impl Engine {
    /// An engine that has run nothing yet.
    pub(crate) fn new(targets: Vec<Box<dyn Target>>, seed: u64) -> Self {
        Self {
            lanes: targets
                .into_iter()
                .map(|target| Lane {
                    target,
                    inputs: Vec::new(),
                    point_finders: Vec::new(),
                    executions: 0,
                    time: Duration::ZERO,
                    heap: LastingHeap::default(),
                })
                .collect(),
            seen: Seen::new(),
            failures: Vec::new(),
            largest_execution: 0,
            rng: Rng::new(seed),
        }
    }

    /// Runs inputs that are known: a target's own, and those of the corpus. All of them are kept.
    pub(crate) fn run_known(&mut self, lane: usize, corpus: Vec<Vec<u8>>) {
        let mut known = self.lanes[lane].target.seeds();
        known.extend(corpus);
        for input in known {
            let is_new = self.execute(lane, &input);
            if !is_new {
                self.lanes[lane].inputs.push(input);
            }
        }
    }

    /// Runs one new input of a target that is chosen by weight.
    pub(crate) fn run_new(&mut self) {
        let lane = self.choose_lane();
        let Lane { target, inputs, .. } = &self.lanes[lane];
        let rng = &mut self.rng;
        let empty = Vec::new();
        // The newest inputs have been tried least.
        let newest = inputs.len().saturating_sub(32);
        let base = if rng.one_in(4) {
            rng.pick(&inputs[newest..])
        } else {
            rng.pick(inputs)
        };
        let other = rng.pick(inputs).unwrap_or(&empty);
        let base = base.unwrap_or(&empty);
        let input = mutate(rng, base, other, target.shape(), target.max_len());
        self.execute(lane, &input);
    }

    /// Runs one input and nothing else.
    pub(crate) fn run_one(&mut self, lane: usize, input: &[u8]) {
        self.execute(lane, input);
    }

    /// Whether there is no point in going on.
    pub(crate) fn is_broken(&self) -> bool {
        self.failures.len() >= MAX_FAILURES
    }

    fn choose_lane(&mut self) -> usize {
        let total: usize = self.lanes.iter().map(|lane| lane.target.weight()).sum();
        let mut at = self.rng.below(total);
        self.lanes
            .iter()
            .position(|lane| {
                let found = at < lane.target.weight();
                at = at.wrapping_sub(lane.target.weight());
                found
            })
            .unwrap_or(0)
    }

    /// Runs an input and keeps it if it did something new.
    fn execute(&mut self, lane: usize, input: &[u8]) -> bool {
        let target = &mut self.lanes[lane].target;
        coverage::reset();
        let started = Instant::now();
        let mut outcome = observe(target.as_mut(), input);
        let novelty = self.seen.add();
        if outcome.kept != 0 && outcome.message.is_none() && !target.keeps_state() {
            // The first execution may have filled something that is made once; a leak is there again.
            outcome = observe(target.as_mut(), input);
            if outcome.kept > 0 && outcome.message.is_none() {
                outcome.message = Some(format!("{} bytes are left on the heap", outcome.kept));
            }
        }
        self.largest_execution = self.largest_execution.max(outcome.held);
        if outcome.held > MAX_EXECUTION_BYTES && outcome.message.is_none() {
            outcome.message = Some(format!("{} bytes were held at once", outcome.held));
        }
        let lane = &mut self.lanes[lane];
        lane.executions += 1;
        lane.time += started.elapsed();
        if lane.target.keeps_state() {
            let growth = lane.lasting(outcome.kept);
            outcome.message = outcome.message.or(growth);
        }
        if let Some(message) = outcome.message {
            self.failures.push(Failure {
                target: lane.target.name(),
                message,
                input: input.to_vec(),
            });
            return false;
        }
        if novelty.points > 0 {
            lane.point_finders.push(input.to_vec());
        }
        if novelty.frequencies == 0 {
            return false;
        }
        if lane.inputs.len() < MAX_KEPT {
            lane.inputs.push(input.to_vec());
        } else {
            let at = self.rng.below(MAX_KEPT);
            lane.inputs[at] = input.to_vec();
        }
        true
    }
}

impl Lane {
    /// Counts what an execution left on the heap, and says when that is too much.
    fn lasting(&mut self, kept: isize) -> Option<String> {
        let LastingHeap { now, warm } = &mut self.heap;
        *now += kept;
        if self.executions <= WARM_UP {
            *warm = (*warm).max(*now);
            return None;
        }
        let growth = *now - *warm;
        (growth > MAX_GROWTH).then(|| format!("{growth} bytes more than after {WARM_UP} executions are held"))
    }
}

/// What one execution did to the heap, and what went wrong
struct Outcome {
    kept: isize,
    held: isize,
    message: Option<String>,
}

fn observe(target: &mut dyn Target, input: &[u8]) -> Outcome {
    let before = heap::mark();
    let result = panic::catch_unwind(AssertUnwindSafe(|| target.run(input)));
    let held = heap::peak() - before;
    let message = result.err().map(|cause| reason(cause.as_ref()));
    Outcome {
        kept: heap::live() - before,
        held,
        message,
    }
}

/// What a panic said, with its place; see `note_panics`.
fn reason(cause: &dyn Any) -> String {
    let text = cause
        .downcast_ref::<&str>()
        .map(|text| String::from(*text))
        .or_else(|| cause.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    format!("panicked: {text}{}", crate::panics::take_place())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::Shape;

    struct Faulty(Vec<u8>);

    impl Target for Faulty {
        fn name(&self) -> &'static str {
            "faulty"
        }

        fn weight(&self) -> usize {
            1
        }

        fn shape(&self) -> Shape {
            Shape::Bytes
        }

        fn seeds(&mut self) -> Vec<Vec<u8>> {
            vec![vec![0], vec![1], vec![2], vec![3]]
        }

        fn run(&mut self, input: &[u8]) {
            match input {
                [1] => panic!("one"),
                [2] => self.0.extend_from_slice(&[0; 5000]),
                [3] => _ = core::hint::black_box(vec![0_u8; MAX_EXECUTION_BYTES.unsigned_abs() + 1]),
                _ => {}
            }
        }
    }

    #[test]
    fn a_panic_a_leak_and_too_much_memory_are_failures() {
        let mut engine = Engine::new(vec![Box::new(Faulty(Vec::new()))], 1);
        engine.run_known(0, vec![vec![0]]);
        let found: Vec<(&[u8], &str)> = engine
            .failures
            .iter()
            .map(|failure| (&failure.input[..], failure.message.as_str()))
            .collect();
        let [(first, panicked), (second, leaked), (third, held)] = found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((first, second, third), (&[1][..], &[2][..], &[3][..]));
        assert!(panicked.starts_with("panicked: one"), "{panicked}");
        assert!(leaked.ends_with("left on the heap"), "{leaked}");
        assert!(held.ends_with("held at once"), "{held}");
    }
}
