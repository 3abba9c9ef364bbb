//! Rings that route messages: `bench-chord`, then tasks on standard input (see `bench_pair::serve`).
//!
//! ```text
//! ring/open, ring/closed   starts so many members, over sockets, with the cores that ship
//! settle/                  has each member know its fingers
//! hops/                    tells how often a message is sent on, for so many random targets
//! paths/                   tells the same of each member from the first one, there and back
//! ping/PEER                pings a member so often, one after the other, through the ring
//! packets/PEER             has a member send so many messages, and tells how fast they came
//! potatoes/MILLISECONDS    passes so many potatoes from member to member; tells how often
//! pair/none, mac, ed25519  pings a peer so often over UDP, with messages that are authenticated in that way
//! ```

mod clock;
mod pair;
mod ping;
mod potato;
mod ring;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use bench_pair::{Outcome, Task, serve};
use tokio::runtime::{Builder, Runtime};

use crate::ring::Ring;

/// What the tasks work on
struct Bench {
    runtime: Runtime,
    ring: RefCell<Option<Rc<Ring>>>,
}

impl Bench {
    fn ring(&self) -> Outcome<Rc<Ring>> {
        self.ring
            .borrow()
            .clone()
            .ok_or_else(|| "no ring is started".into())
    }
}

fn main() -> ExitCode {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let served = runtime.and_then(|runtime| {
        let bench = Rc::new(Bench {
            runtime,
            ring: RefCell::default(),
        });
        serve(|name| task(name, &bench))
    });
    match served {
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
    let number = || {
        detail
            .parse::<u64>()
            .map_err(|_| format!("{detail} is no number"))
    };
    let bench = Rc::clone(bench);
    Ok(match work {
        "ring" => Box::new(move |count| {
            let ring = bench.runtime.block_on(Ring::start(&detail, count))?;
            *bench.ring.borrow_mut() = Some(Rc::new(ring));
            Ok(String::new())
        }),
        "settle" => Box::new(move |_| bench.runtime.block_on(bench.ring()?.settle())),
        "hops" => Box::new(move |count| bench.runtime.block_on(bench.ring()?.hops(count))),
        "paths" => Box::new(move |_| bench.runtime.block_on(bench.ring()?.paths())),
        "ping" => {
            let peer = number()?;
            Box::new(move |count| {
                let ring = bench.ring()?;
                bench.runtime.block_on(ping::pings(&ring, peer, count))
            })
        }
        "packets" => {
            let peer = number()?;
            Box::new(move |count| {
                let ring = bench.ring()?;
                bench.runtime.block_on(ping::packets(&ring, peer, count))
            })
        }
        "potatoes" => {
            let time_ms = number()?;
            Box::new(move |count| {
                let ring = bench.ring()?;
                bench.runtime.block_on(potato::play(&ring, count, time_ms))
            })
        }
        "pair" => pair::task(&detail)?,
        _ => return Err(format!("no task {name}")),
    })
}
