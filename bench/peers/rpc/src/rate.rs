//! Many calls at a time from clients of one process to the server of another.

use core::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bench_pair::{Outcome, Task};
use selfsame_host::Node;
use selfsame_host::rpc::RpcClient;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::clock::{cpu_time, resident_bytes};
use crate::sealed::{call, client, issuer, join, start_server, told};
use crate::sources::Sources;

/// A server and the node that issues its tickets; says where clients join.
pub(crate) fn serve(runtime: &Runtime) -> Outcome<Task> {
    let _entered = runtime.enter();
    let server = start_server()?;
    let (node, bootstrap) = runtime.block_on(issuer(&server))?;
    Ok(Box::new(move |_| {
        // They live as long as the task.
        let _running = (&server, &node);
        Ok(bootstrap.clone())
    }))
}

/// Says what the process has used so far.
pub(crate) fn usage() -> Outcome<String> {
    let (cpu_ns, resident) = (cpu_time().as_nanos(), resident_bytes()?);
    Ok(format!(r#"{{"cpu_ns":{cpu_ns},"resident":{resident}}}"#))
}

/// `load|BOOTSTRAP|SOURCES|WINDOW`: clients with a socket each, and calls that each has under way; says how long the calls took.
pub(crate) fn load(name: &str) -> Outcome<Task> {
    let (bootstrap, sources, window) = fields(name)?;
    // One thread for all callers: answers that arrive together wake them together, and so their next calls leave together.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(told)?;
    let mesh = Runtime::new().map_err(told)?;
    let node = mesh.block_on(join(bootstrap))?;
    let clients = mesh.block_on(clients(&node, sources))?;
    Ok(Box::new(move |count| {
        let _running = (&mesh, &node);
        let begin = Instant::now();
        LocalSet::new().block_on(&runtime, repeat(&clients, window, count))?;
        Ok(format!(r#"{{"ns":{}}}"#, begin.elapsed().as_nanos()))
    }))
}

/// `sources|BOOTSTRAP|SOURCES|WINDOW`: the same from sockets that one thread has.
pub(crate) fn load_from_sources(name: &str) -> Outcome<Task> {
    let (bootstrap, count, window) = fields(name)?;
    let mesh = Runtime::new().map_err(told)?;
    let node = mesh.block_on(join(bootstrap))?;
    let mut sources = mesh.block_on(Sources::start(&node, count))?;
    Ok(Box::new(move |count| {
        let _running = (&mesh, &node);
        let begin = Instant::now();
        sources.repeat(window, count)?;
        Ok(format!(r#"{{"ns":{}}}"#, begin.elapsed().as_nanos()))
    }))
}

fn fields(name: &str) -> Outcome<(&str, usize, usize)> {
    let mut fields = name.split('|').skip(1);
    let mut next = || fields.next().ok_or_else(|| format!("no task {name}"));
    let (bootstrap, sources, window) = (next()?, next()?, next()?);
    let number = |text: &str| text.parse().map_err(|_| format!("no task {name}"));
    Ok((bootstrap, number(sources)?, number(window)?))
}

/// Clients one after the other, each with a ticket of its own and a call behind it.
async fn clients(node: &Node, sources: usize) -> Outcome<Vec<Arc<RpcClient>>> {
    let mut clients = Vec::new();
    for number in 0..sources {
        let failed = |what: &str, error: String| format!("{what} of client {number}: {error}");
        let client = client(node).await.map_err(|error| failed("ticket", error))?;
        call(&client, [0; 4])
            .await
            .map_err(|error| failed("first call", error))?;
        clients.push(Arc::new(client));
    }
    Ok(clients)
}

/// Calls `count` times in all, each client `window` times at once.
async fn repeat(clients: &[Arc<RpcClient>], window: usize, count: u64) -> Outcome<()> {
    let left = Rc::new(Cell::new(count));
    let mut callers = Vec::new();
    for client in clients {
        for _ in 0..window {
            let (client, left) = (Arc::clone(client), Rc::clone(&left));
            callers.push(tokio::task::spawn_local(async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let payload = (left.get() as u32).to_le_bytes();
                    if call(&client, payload).await? != payload {
                        return Err("another echo came back".to_owned());
                    }
                }
                Ok(())
            }));
        }
    }
    for caller in callers {
        caller.await.map_err(|error| error.to_string())??;
    }
    Ok(())
}
