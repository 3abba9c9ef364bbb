//! Typed procedures of the encrypted RPC, served and called: `cargo run --example procedures -- NETWORK BOOTSTRAP [SERVICE]`.
//!
//! Joins a network, serves the procedures as `rust-links`, calls those of another service, and ends with its standard input.

#![allow(clippy::print_stdout, reason = "it is what the example shows")]

use core::net::SocketAddr;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use selfsame_host::rpc::{
    RpcClient, RpcContext, RpcOptions, RpcProcedure, RpcProcedures, RpcRefusal, RpcServer, RpcStreamProcedure,
};
use selfsame_host::{BoxError, Code, Node, Seed};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

/// A link that is to be checked.
#[derive(Serialize, Deserialize)]
struct Check {
    url: String,
}

/// Whether a link may be followed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    is_safe: bool,
}

const CHECK: RpcProcedure<Check, Verdict> = RpcProcedure::new("check").idempotent();
const COUNT: RpcStreamProcedure<u32, u32> = RpcStreamProcedure::new("count");
const NOTHING: RpcProcedure<(), ()> = RpcProcedure::new("nothing");

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [network, bootstrap, services @ ..] = &arguments[..] else {
        return Err("procedures NETWORK BOOTSTRAP [SERVICE]".into());
    };
    let node = Node::builder(network)
        .in_memory()
        .bootstrap([bootstrap.clone()])
        .allow_private(true)
        .unowned()
        .start()
        .await?;
    let server = serve(network)?;
    node.serve("rust-links", server.tickets([server.local_addr()])?)
        .await?;
    println!("serving");

    let client = RpcClient::new(node.clone());
    for service in services {
        let url = "https://example.com".into();
        let verdict = client
            .procedure(service, CHECK, &Check { url }, RpcOptions::new())
            .await?;
        client.procedure(service, NOTHING, &(), RpcOptions::new()).await?;
        let numbers = client.stream(service, COUNT, &5000, RpcOptions::new()).await?;
        let numbers: Vec<u32> = numbers.try_collect().await?;
        println!("{} {}", verdict.is_safe, numbers.iter().sum::<u32>());
    }
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

fn serve(network: &str) -> Result<RpcServer, BoxError> {
    let procedures = RpcProcedures::new()
        .procedure(CHECK, check)
        .procedure(NOTHING, async |(), _| Ok(()))
        .stream(COUNT, |last: u32, _| stream::iter(1..=last).map(Ok));
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = RpcServer::builder(network, "rust-links", Seed::generate()?).idempotent();
    Ok(server.start(anywhere, procedures.into_handler())?)
}

async fn check(input: Check, _: RpcContext) -> Result<Verdict, RpcRefusal> {
    if input.url.is_empty() {
        return Err(RpcRefusal(Code::NotGranted));
    }
    Ok(Verdict {
        is_safe: input.url.starts_with("https:"),
    })
}
