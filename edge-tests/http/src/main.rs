//! A node in Rust that answers as the cases say, and makes their requests: one JSON order per line of the standard input, one outcome per
//! line of the standard output.
//!
//!     selfsame-http-probe NETWORK NAME BOOTSTRAP

#![allow(clippy::print_stdout, reason = "outcomes go to the standard output")]

mod probe;
mod wire;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};
use http_body_util::BodyExt as _;
use selfsame_host::{BoxError, Node, ServeOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use probe::Probe;
use wire::{Order, Outcome, body_of, fields_of, headers_of, text_of};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [network, name, bootstrap] = &args[..] else {
        return Err("selfsame-http-probe NETWORK NAME BOOTSTRAP".into());
    };
    let node = Node::builder(network)
        .in_memory()
        .allow_private(true)
        .unowned()
        .listen("ws://127.0.0.1:0")
        .bootstrap([bootstrap])
        .start()
        .await?;
    node.serve_with(name, &ServeOptions::new(), Probe::default().service())
        .await?;
    println!("{}", serde_json::json!({ "id": node.id().to_string() }));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let outcome = match perform(&node, serde_json::from_str(&line)?).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Refused {
                error: error.to_string(),
            },
        };
        println!("{}", serde_json::to_string(&outcome)?);
    }
    node.leave().await?;
    Ok(())
}

/// Makes the request of an order and tells what comes of it.
async fn perform(node: &Node, order: Order) -> Result<Outcome, BoxError> {
    let mut request = Request::new(body_of(order.body.as_deref(), order.is_stream));
    *request.method_mut() = Method::from_bytes(order.method.as_bytes())?;
    *request.headers_mut() = headers_of(&order.headers)?;
    *request.uri_mut() = uri_of(&order)?;
    let response = node.fetch(request).await?;
    let (head, body) = response.into_parts();
    Ok(Outcome::Answered {
        status: head.status.as_u16(),
        headers: fields_of(&head.headers),
        body: text_of(&body.collect().await?.to_bytes()),
    })
}

/// The target; of the asterisk the field `host` says of whom.
fn uri_of(order: &Order) -> Result<Uri, BoxError> {
    if order.url != "*" {
        return Ok(order.url.parse()?);
    }
    let host = order.headers.iter().find(|(name, _)| name == "host");
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = host.map(|(_, host)| host.parse::<Authority>()).transpose()?;
    parts.path_and_query = Some(PathAndQuery::from_static("*"));
    Ok(Uri::from_parts(parts)?)
}
