//! Commands of a leaf that lives as long as they do.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::{Body, Builder, Event, IDENTITY_FILE, Node, PeerId, Seed, ServeOptions, json};
use serde_json::json as value;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, timeout_at};

use super::args::{CallCommand, FindCommand, Network, StoreCommand};
use super::keys::read_grants;
use super::node::builder;
use super::output::{Failure, Output};

pub(crate) async fn find(command: FindCommand, output: Output) -> Result<(), Failure> {
    let FindCommand {
        name,
        network,
        timeout,
    } = command;
    check_owner(&network)?;
    let deadline = Instant::now() + timeout.timeout.0;
    let node = join(builder(&network)?.in_memory(), &network, deadline, output).await?;
    let what = format!("looking for {name}");
    let found = output
        .progress(&what, timeout_at(deadline, node.find(&name)))
        .await;
    leave(node, deadline).await;
    let providers = found.map_err(|_| Failure::timed_out(&what))??;
    if providers.is_empty() {
        return Err(selfsame_host::Error::from_code(selfsame_host::Code::NoProvider).into());
    }
    for provider in providers {
        let addresses = provider
            .node
            .as_ref()
            .map(|node| node.addresses.join(" "))
            .unwrap_or_default();
        let (peer, version) = (PeerId(provider.peer), &provider.version);
        let text = format!("{peer} {version} {addresses}");
        output.print(text.trim_end(), &json::provider(&provider))?;
    }
    Ok(())
}

pub(crate) async fn store(command: StoreCommand, output: Output) -> Result<(), Failure> {
    let StoreCommand {
        name,
        network,
        data,
        grant,
        timeout,
    } = command;
    let deadline = Instant::now() + timeout.timeout.0;
    let mut builder = builder(&network)?.storage(&data.folder);
    for grant in read_grants(&grant, &network.network, &data.folder)? {
        builder = builder.grant(grant);
    }
    let node = join(builder, &network, deadline, output).await?;
    let mut events = node.events();
    let publish = async {
        node.publish(&name, &ServeOptions::default()).await?;
        loop {
            match events.recv().await {
                Ok(Event::Published(published)) if published == name => return Ok(()),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(selfsame_host::Error::Stopped),
            }
        }
    };
    let what = format!("storing {name}");
    let stored = output.progress(&what, timeout_at(deadline, publish)).await;
    let id = node.id();
    // A node that leaves takes back what it published: this one just goes away.
    node.stop().await;
    stored.map_err(|_| Failure::timed_out(&what))??;
    let value = value!({ "name": name, "peer": id.to_string(), "network": network.network });
    output.print(format_args!("stored: {id} serves {name}"), &value)
}

pub(crate) async fn call(command: CallCommand, output: Output) -> Result<(), Failure> {
    check_owner(&command.network)?;
    let url = &command.url;
    if !url.host().is_some_and(|host| host.ends_with(".mesh")) {
        let text = format!("\"{url}\" is no address of a service: it is https://NAME.mesh/path");
        return Err(Failure::usage(text));
    }
    let deadline = Instant::now() + command.timeout.timeout.0;
    let request = request(&command)?;
    let mut builder = builder(&command.network)?.in_memory();
    if let Some(folder) = &command.folder {
        builder = builder.seed(
            Seed::load(&folder.join(IDENTITY_FILE)).map_err(|error| match error {
                selfsame_host::Error::Io { what, source } => Failure::usage(format!("{what}: {source}")),
                error => error.into(),
            })?,
        );
    }
    let node = join(builder, &command.network, deadline, output).await?;
    let what = format!("calling {}", command.url);
    let exchange = async {
        let response = output.progress(&what, node.fetch(request)).await?;
        let status = response.status();
        print_response(response, command.include, output).await?;
        Ok::<_, Failure>(status)
    };
    let answered = timeout_at(deadline, exchange).await;
    leave(node, deadline).await;
    let status = answered.map_err(|_| Failure::timed_out(&what))??;
    if command.fail && status.as_u16() >= 400 {
        return Err(Failure::other(format!("the service answered {status}")));
    }
    Ok(())
}

/// Names a missing flag before anything is started.
pub(crate) fn check_owner(network: &Network) -> Result<(), Failure> {
    if network.owner.is_none() && !network.unowned {
        return Err(Failure::usage(
            "say whose name is meant: --owner KEY, or --unowned for one that anybody may serve",
        ));
    }
    Ok(())
}

/// Starts a node that lives as long as its command.
pub(crate) async fn join(
    builder: Builder,
    network: &Network,
    deadline: Instant,
    output: Output,
) -> Result<Node, Failure> {
    if network.join.is_empty() {
        return Err(Failure::usage(
            "say which node to join through: --join URL#PEER-ID",
        ));
    }
    let what = format!("joining {}", network.network);
    let started = output
        .progress(&what, timeout_at(deadline, builder.start()))
        .await;
    Ok(started.map_err(|_| Failure::timed_out(&what))??)
}

/// Says goodbye; a neighbour that does not hear it finds out by itself.
pub(crate) async fn leave(node: Node, deadline: Instant) {
    let soon = Instant::now() + core::time::Duration::from_secs(1);
    _ = timeout_at(soon.min(deadline), node.leave()).await;
}

fn request(command: &CallCommand) -> Result<Request<Body>, Failure> {
    let body = command.body.as_deref().map(read_body).transpose()?;
    let method = command.method.clone();
    let method = method.unwrap_or_else(|| if body.is_some() { Method::POST } else { Method::GET });
    let mut request = Request::new(body.map_or_else(Body::empty, Body::from));
    *request.method_mut() = method;
    *request.uri_mut() = command.url.clone();
    for header in &command.header {
        request.headers_mut().append(&header.name, header.value.clone());
    }
    Ok(request)
}

pub(crate) fn read_body(text: &str) -> Result<Bytes, Failure> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(Bytes::copy_from_slice(text.as_bytes()));
    };
    let mut bytes = Vec::new();
    let read = if path == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(path).map(|content| bytes = content)
    };
    read.map_err(|error| Failure::usage(format!("the body {path}: {error}")))?;
    Ok(bytes.into())
}

async fn print_response(response: Response<Body>, include: bool, output: Output) -> Result<(), Failure> {
    let (head, mut body) = response.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), text(value)))
        .collect();
    if output.json {
        let bytes = body.collect().await?.to_bytes();
        let whole = core::str::from_utf8(&bytes);
        let value = value!({
            "status": head.status.as_u16(),
            "headers": headers,
            "body": whole.ok(),
            "base64": whole.is_err().then(|| data_encoding::BASE64.encode(&bytes)),
        });
        return output.print("", &value);
    }
    let failed = |error: std::io::Error| Failure::output(&error);
    let mut out = std::io::stdout();
    if include {
        writeln!(out, "{}", head.status).map_err(failed)?;
        headers
            .iter()
            .try_for_each(|(name, value)| writeln!(out, "{name}: {value}"))
            .map_err(failed)?;
        writeln!(out).map_err(failed)?;
    }
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            out.write_all(&data).and_then(|()| out.flush()).map_err(failed)?;
        }
    }
    Ok(())
}
