//! Plays a scenario and prints what came of it.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use selfsame_sim::scenario::{Scenario, play};

const EXIT_CODES: &str = "Exit codes:
  0  every bar is met
  1  a bar is missed
  2  an option is not usable, or the JSON cannot be written";

/// Many selfsame nodes in one thread, on a virtual clock; the same seed gives the same run
#[derive(Debug, Parser)]
#[command(name = "selfsame-sim", version, after_help = EXIT_CODES)]
struct Arguments {
    /// What is played
    #[arg(default_value = "settle")]
    scenario: Scenario,

    /// How many nodes take part; of faults, how many schedules are played
    #[arg(long, visible_alias = "nodes", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,

    /// What everything follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes the figures as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let is_terminal = std::io::stderr().is_terminal();
    let mut progress = |text: &str| {
        let seconds = start.elapsed().as_secs();
        if is_terminal {
            // Nobody can be told when this fails.
            _ = writeln!(std::io::stderr(), "{seconds:5} s  {text}");
        }
    };
    let count = arguments.count as usize;
    let report = play(arguments.scenario, count, arguments.seed, &mut progress);
    print!("{}", report.table());
    if let Some(file) = arguments.json
        && let Err(error) = std::fs::write(&file, format!("{:#}\n", report.json()))
    {
        eprintln!("cannot write {}: {error}", file.display());
        return ExitCode::from(2);
    }
    if report.is_met() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
