//! A replica of capsules, over HTTP and in the mesh: `cargo run --example replica -- FOLDER NETWORK PORT BOOTSTRAP`.
//!
//! It prints one line of JSON, and ends with its standard input.

#![allow(clippy::print_stdout, reason = "whoever started it reads where it is")]

use std::env;
use std::path::PathBuf;

use axum::Router;
use data_encoding::HEXLOWER;
use selfsame_host::{BoxError, Node, Replica, ServeOptions};
use tokio::io::{AsyncReadExt as _, stdin};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut given = env::args().skip(1);
    let folder = PathBuf::from(given.next().ok_or("say in which folder")?);
    let network = given.next().ok_or("say in which network")?;
    let place = format!("127.0.0.1:{}", given.next().ok_or("say at which port")?);
    // Durable Objects dial by POST.
    let node = Node::builder(&network)
        .storage(&folder)
        .allow_private(true)
        .unowned()
        .listen(format!("ws://{place}"))
        .address(format!("ws://{place}"))
        .address(format!("http://{place}"))
        .bootstrap(given)
        .start()
        .await?;
    let replica = Replica::open(&folder.join("capsules"))?;
    let _serving = replica.serve_capsules(&node, ServeOptions::new()).await?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!(
        r#"{{"id":"{}","key":"{}","url":"http://{}/"}}"#,
        node.id(),
        HEXLOWER.encode(&replica.key()),
        listener.local_addr()?
    );
    let app = Router::new().fallback_service(replica.service());
    let server = tokio::spawn(async { axum::serve(listener, app).await });
    stdin().read_to_end(&mut Vec::new()).await?;
    server.abort();
    node.leave().await?;
    Ok(())
}
