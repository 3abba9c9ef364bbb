//! Plays a scenario and prints what came of it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use selfsame_sim::attack::{Kind, Lie};
use selfsame_sim::scenario::{Fault, Plan, Scenario, play};

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

    /// How many nodes take part; of faults, how many at most at a time (40); of hops, in the largest ring
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Option<u32>,

    /// What everything follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many schedules of faults are played, one for each seed from the first on
    #[arg(long, default_value_t = 1000)]
    schedules: u32,

    /// What happens in schedules while members join: churn, restore, clone, duplicate, move, hour-ahead, all-ahead, days-ahead,
    /// readdress, or all
    #[arg(long, default_value = "all", value_parser = Chosen::<Fault>::parse)]
    fault: Chosen<Fault>,

    /// What attackers do: drop, misroute, forge, replay, eclipse, ghost, hide, leave, grind, or all, one after the other
    #[arg(long, default_value = "all", value_parser = Chosen::<Kind>::parse)]
    kind: Chosen<Kind>,

    /// What liars do: drop, misroute, forge, collude, frame, flood, replay, cycle, equivocate, or all, one after the other
    #[arg(long, default_value = "all", value_parser = Chosen::<Lie>::parse)]
    lie: Chosen<Lie>,

    /// How many of a hundred members attack
    #[arg(long, visible_alias = "fraction", default_value_t = 5.0)]
    share: f64,

    /// How many rings with liars are played, one for each seed from the first on
    #[arg(long, default_value_t = 1)]
    seeds: u32,

    /// Plays up to five rings with liars for each share from none to 30 %, too, and draws the curve to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Writes the figures as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One of several kinds, or all
#[derive(Clone, Copy, Debug)]
struct Chosen<T>(Option<T>);

impl<T: ValueEnum> Chosen<T> {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(None));
        }
        T::from_str(text, false).map(|kind| Self(Some(kind)))
    }
}

/// How many nodes take part in a scenario unless the command says.
fn usual_nodes(scenario: Scenario) -> u32 {
    match scenario {
        Scenario::Faults => 40,
        Scenario::Hops => 4096,
        Scenario::Liars => 128,
        _ => 1000,
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let start = Instant::now();
    let mut progress = |text: &str| {
        let seconds = start.elapsed().as_secs();
        // Nobody can be told when this fails.
        _ = writeln!(std::io::stderr(), "{seconds:5} s  {text}");
    };
    let nodes = arguments.nodes.unwrap_or_else(|| usual_nodes(arguments.scenario));
    let plan = Plan {
        schedules: arguments.schedules as usize,
        fault: arguments.fault.0,
        kind: arguments.kind.0,
        lie: arguments.lie.0,
        share: arguments.share,
        seeds: arguments.seeds as usize,
        draws_curve: arguments.svg.is_some() && arguments.scenario == Scenario::Liars,
        ..Plan::new(arguments.scenario, nodes as usize, arguments.seed)
    };
    let report = play(&plan, &mut progress);
    print!("{}", report.table());
    let json = format!("{:#}\n", report.json());
    let figure = report.figure.clone();
    for (file, content) in [(arguments.json, Some(json)), (arguments.svg, figure)] {
        if let (Some(file), Some(content)) = (file, content)
            && let Err(error) = std::fs::write(&file, content)
        {
            eprintln!("cannot write {}: {error}", file.display());
            return ExitCode::from(2);
        }
    }
    if report.is_met() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
