//! Fuzzes the core as native code: deterministic for a seed, along the structure of what the core takes, guided by
//! coverage. `npm run fuzz` builds it with the coverage pass and runs several of it side by side.

extern crate alloc;

mod corpus;
mod coverage;
mod engine;
mod heap;
mod hex;
mod items;
mod mutate;
mod options;
mod panics;
mod report;
mod rng;
mod targets;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Engine;
use options::{Command, Options};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Executions between two lines about how far the run is.
const PROGRESS: u64 = 1 << 14;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    panics::note_places();
    let done = match &options.command {
        Command::Run => run(&options),
        Command::Replay { file } => replay(file),
        Command::Minimise { candidates } => minimise(&options, candidates).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs what is known and then as many new inputs as were asked for.
fn run(options: &Options) -> io::Result<bool> {
    let mut engine = Engine::new(options.targets()?, options.seed);
    for lane in 0..engine.lanes.len() {
        let known = corpus::read(&options.corpus, engine.lanes[lane].target.name())?;
        engine.run_known(lane, known);
    }
    for done in 0..options.runs {
        if engine.is_broken() {
            break;
        }
        engine.run_new();
        if (done + 1) % PROGRESS == 0 {
            report::progress(done + 1, &engine);
        }
    }
    if let Some(folder) = &options.grow {
        for lane in &engine.lanes {
            corpus::write(folder, lane.target.name(), &lane.point_finders)?;
        }
    }
    report::end(&engine);
    Ok(engine.failures.is_empty())
}

/// Runs one input and prints what comes of it.
fn replay(file: &Path) -> io::Result<bool> {
    let (target, input) = corpus::read_one(file)?;
    let options = Options {
        names: vec![target],
        ..Options::default()
    };
    let mut engine = Engine::new(options.targets()?, options.seed);
    engine.run_one(0, &input);
    report::end(&engine);
    Ok(engine.failures.is_empty())
}

/// Replaces the corpus by the smallest inputs, of its own and of the candidates, that together reach as many points.
fn minimise(options: &Options, candidates: &[PathBuf]) -> io::Result<()> {
    let mut engine = Engine::new(options.targets()?, options.seed);
    // What the targets' own inputs reach needs no line.
    for lane in 0..engine.lanes.len() {
        engine.run_known(lane, Vec::new());
    }
    for lane in 0..engine.lanes.len() {
        let name = engine.lanes[lane].target.name();
        let mut inputs = corpus::read(&options.corpus, name)?;
        for folder in candidates {
            inputs.extend(corpus::read(folder, name)?);
        }
        inputs.retain(|input| input.len() <= corpus::MAX_KEPT_BYTES);
        inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        inputs.dedup();
        engine.lanes[lane].point_finders.clear();
        for input in inputs {
            engine.run_one(lane, &input);
        }
        corpus::write(&options.corpus, name, &engine.lanes[lane].point_finders)?;
    }
    report::end(&engine);
    Ok(())
}
