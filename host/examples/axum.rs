//! An axum application as a service of the mesh, as it stands: `cargo run --example axum`.
//!
//! Two nodes on this machine; one serves the application, the other calls it, and speaks WebSocket with it.

#![allow(clippy::print_stdout, reason = "it is what the example shows")]

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Extension, Path};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, body};
use futures_util::{SinkExt as _, StreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use selfsame_host::{Body, BoxError, Caller, Node, ServeOptions};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::Role;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let application = Router::new()
        .route("/hello/{name}", get(hello))
        .route("/echo", post(async |body: body::Body| body))
        .route("/chat", get(chat));

    let settings = || {
        Node::builder("axum-example")
            .in_memory()
            .allow_private(true)
            .unowned()
    };
    let one = settings().listen("ws://127.0.0.1:0").start().await?;
    let members = [format!("{}#{}", one.addresses()[0], one.id())];
    let two = settings().bootstrap(members).start().await?;
    let only_two = ServeOptions::new().allow([two.id()]);
    one.serve_with("check", &only_two, application).await?;

    let request = Request::get("https://check.mesh/hello/ada").body(Body::empty())?;
    println!("{}", read(two.fetch(request).await?).await?);
    let request = Request::post("https://check.mesh/echo").body(Body::from("the same"))?;
    println!("{}", read(two.fetch(request).await?).await?);

    let request = "wss://check.mesh/chat"
        .into_client_request()?
        .map(|()| Body::empty());
    let response = two.fetch(request).await?;
    println!("{}", response.status());
    let connection = response.into_body().into_upgraded().ok_or("no upgrade")?;
    let mut socket = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
    socket.send("hello".into()).await?;
    if let Some(message) = socket.next().await {
        println!("{}", message?.to_text()?);
    }
    socket.close(None).await?;

    let request = Request::get("https://check.mesh/hello/eve").body(Body::empty())?;
    println!("{}", one.fetch(request).await?.status());
    two.leave().await?;
    one.leave().await?;
    Ok(())
}

async fn hello(Path(name): Path<String>, Extension(caller): Extension<Caller>) -> String {
    format!("hello {name}, whose node is {}", &caller.peer.to_string()[..8])
}

async fn chat(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if let Message::Text(text) = message {
                let answer = Message::Text(format!("you said {text}").into());
                if socket.send(answer).await.is_err() {
                    return;
                }
            }
        }
    })
}

async fn read(response: http::Response<Body>) -> Result<String, BoxError> {
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec())?)
}
