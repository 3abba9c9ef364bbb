//! Nodes of selfsame in one process: `bench-mesh CORE.wasm`, then tasks on standard input (see `bench_pair::serve`).
//!
//! ```text
//! nodes/ADDRESS      starts so many members, in the network of a bootstrap or a new one; tells the address of the first
//! client/ADDRESS     starts a leaf
//! publishers/ADDRESS starts so many leaves that publish names
//! store/WINDOW       publishes so many names, each publisher as many as the others
//! find/WINDOW        finds published names, at random
//! lookup/WINDOW      looks random ids up, from each node in turn
//! blink/ADDRESS      starts a node, lets it join and leave; tells how long both took
//! ```

mod nodes;
mod objects;

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use bench_pair::{Outcome, Task, serve};
use selfsame_host::{CoreModule, Limits};
use tokio::runtime::{Builder, Runtime};

use crate::nodes::Nodes;
use crate::objects::Objects;

/// Most memory of one core: a node that holds a million associations needs more than the product allows.
const MEMORY: usize = 4 * 1024 * 1024 * 1024 - 64 * 1024;

/// What the tasks work on
struct Bench {
    runtime: Runtime,
    nodes: Nodes,
    objects: Objects,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: bench-mesh CORE.wasm");
        return ExitCode::from(2);
    };
    let served = Bench::new(Path::new(&path)).and_then(|bench| {
        let bench = Rc::new(bench);
        serve(|name| task(name, &bench)).map_err(|error| error.to_string())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Bench {
    fn new(core: &Path) -> Outcome<Self> {
        let wasm = std::fs::read(core).map_err(|error| format!("{}: {error}", core.display()))?;
        let limits = Limits {
            memory: MEMORY,
            ..Limits::default()
        };
        let core = CoreModule::compile(&wasm, limits).map_err(|error| error.to_string())?;
        // Nodes derive their keys with the core that ships: it is compiled before anything is timed.
        CoreModule::embedded().map_err(|error| error.to_string())?;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            runtime,
            nodes: Nodes::new(core),
            objects: Objects::default(),
        })
    }
}

fn task(name: &str, bench: &Rc<Bench>) -> Outcome<Task> {
    let (work, detail) = name.split_once('/').ok_or("expected: WORK/DETAIL")?;
    let detail = detail.to_owned();
    let window = || {
        detail
            .parse::<u64>()
            .map_err(|_| format!("{detail} is no number of operations at a time"))
    };
    let bench = Rc::clone(bench);
    Ok(match work {
        "nodes" => Box::new(move |count| bench.runtime.block_on(bench.nodes.start(&detail, count))),
        "client" => Box::new(move |_| bench.runtime.block_on(bench.nodes.start_client(&detail))),
        "blink" => Box::new(move |_| bench.runtime.block_on(bench.nodes.blink(&detail))),
        "publishers" => Box::new(move |count| {
            let publishers = bench.nodes.start_publishers(&detail, count);
            bench
                .runtime
                .block_on(async { bench.objects.publishers(publishers.await?) })
        }),
        "lookup" => {
            let window = window()?;
            Box::new(move |count| bench.runtime.block_on(bench.nodes.lookup(window, count)))
        }
        "store" => {
            let window = window()?;
            Box::new(move |count| bench.runtime.block_on(bench.objects.store(window, count)))
        }
        "find" => {
            let window = window()?;
            Box::new(move |count| {
                let client = bench.nodes.first()?;
                bench.runtime.block_on(bench.objects.find(client, window, count))
            })
        }
        _ => return Err(format!("no task {name}")),
    })
}
