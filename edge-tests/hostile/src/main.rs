//! Plays attacks against the modules that ship and prints what each gains.

mod attacks;
mod capsules;
mod figure;
mod hand;
mod mesh;
mod module;
mod report;
#[path = "../../../guest/capsule/tests/common/single.rs"]
mod single;
mod statement;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use attacks::{ATTACKS, Arena, Attack};
use module::Backend;
use report::{Before, Report};

const EXIT_CODES: &str = "Exit codes:
  0  every figure is within its bound
  1  a figure is outside its bound
  2  an option is not usable, or a file cannot be written";

/// Attacks against core.wasm and capsule.wasm; the same seed gives the same run
#[derive(Debug, Parser)]
#[command(name = "test:hostile", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Only attacks whose names contain this
    #[arg(long, default_value = "")]
    attack: String,

    /// Only in this back end; wasmtime and node unless it is given
    #[arg(long)]
    backend: Option<Backend>,

    /// What everything follows from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Leaves out the attacks that take long
    #[arg(long)]
    quick: bool,

    /// Writes the figures as JSON to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| attack.name.contains(&arguments.attack))
        .filter(|attack| !arguments.quick || attack.is_quick)
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
        eprintln!(
            "no attack is called {:?}; there are: {}",
            arguments.attack,
            names.join(", ")
        );
        return ExitCode::from(2);
    }
    let backends = match arguments.backend {
        Some(backend) => vec![backend],
        None => vec![Backend::Wasmtime, Backend::Node],
    };
    let before = Before::recorded();
    let mut report = Report::default();
    for attack in chosen {
        for backend in &backends {
            progress(&format!("{} in {}", attack.name, backend.name()));
            let arena = Arena {
                backend: *backend,
                seed: arguments.seed,
            };
            report.add(attack, arena, (attack.play)(arena), &before);
        }
    }
    print!("{}", report.table());
    if let Some(file) = arguments.json
        && let Err(error) = std::fs::write(&file, format!("{:#}\n", report.json()))
    {
        eprintln!("cannot write {}: {error}", file.display());
        return ExitCode::from(2);
    }
    // The last line adds up, as that of every suite.
    println!("{}", report.summary());
    if report.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        // Nobody can be told when this fails.
        _ = writeln!(std::io::stderr(), "{text}");
    }
}
