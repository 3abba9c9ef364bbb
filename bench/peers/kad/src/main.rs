//! Nodes of rust-libp2p's Kademlia in one process: `bench-kad`, then tasks on standard input (see `bench_pair::serve`).
//!
//! ```text
//! nodes/ADDRESS      starts so many nodes, in the network of a bootstrap or a new one; tells the address of the first
//! lookup/WINDOW      looks random ids up, from each node in turn
//! ```
//!
//! Every node is a server with an Ed25519 identity; they speak noise and yamux over TCP, keep their connections, tell each
//! other their addresses with identify, ask three nodes at a time, and leave everything else as the library has it.

mod node;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use bench_closed_loop::closed_loop;
use bench_pair::{Outcome, Task, serve};
use tokio::runtime::{Builder, Runtime};

use crate::node::Node;

/// What the tasks work on
struct Bench {
    runtime: Runtime,
    nodes: RefCell<Vec<Node>>,
}

fn main() -> ExitCode {
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let bench = Rc::new(Bench {
        runtime,
        nodes: RefCell::default(),
    });
    match serve(|name| task(name, &bench)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, bench: &Rc<Bench>) -> Outcome<Task> {
    let (work, detail) = name.split_once('/').ok_or("expected: WORK/DETAIL")?;
    let detail = detail.to_owned();
    let bench = Rc::clone(bench);
    Ok(match work {
        "nodes" => Box::new(move |count| bench.runtime.block_on(bench.start(&detail, count))),
        "lookup" => {
            let window = detail
                .parse()
                .map_err(|_| format!("{detail} is no number of operations at a time"))?;
            Box::new(move |count| bench.runtime.block_on(bench.lookup(window, count)))
        }
        _ => return Err(format!("no task {name}")),
    })
}

impl Bench {
    async fn start(&self, bootstrap: &str, count: u64) -> Outcome<String> {
        let mut known = bootstrap.to_owned();
        for _ in 0..count {
            let (node, address) = Node::start(&known).await?;
            if known.is_empty() {
                known = address;
            }
            self.nodes.borrow_mut().push(node);
        }
        Ok(known)
    }

    async fn lookup(&self, window: u64, count: u64) -> Outcome<String> {
        let nodes = self.nodes.borrow().clone();
        if nodes.is_empty() {
            return Err("no node is started".into());
        }
        let work = move |turn: u64| {
            let node = nodes[turn as usize % nodes.len()].clone();
            async move { node.lookup().await }
        };
        Ok(closed_loop(window, count, work).await?.to_json())
    }
}
