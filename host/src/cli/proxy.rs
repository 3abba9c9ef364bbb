//! The sidecar: programs of this machine call services over HTTP, and servers of this machine become services.

use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use selfsame_host::{BoxError, Node};
use serde_json::json as value;

use super::args::ProxyCommand;
use super::client::check_owner;
use super::node::{Beside, host};
use super::output::{Failure, Output};

mod expose;
mod gateway;
mod listener;
mod problem;
mod server;
mod settings;
mod socket;
mod stages;
mod target;

pub(crate) use expose::Exposed;
use gateway::Gateway;

type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

impl Beside for Arc<Gateway> {
    async fn drain(&self, longest: Duration) {
        Gateway::drain(self, longest).await;
    }
}

/// No body.
fn nothing() -> AnyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) async fn run(command: ProxyCommand, output: Output) -> Result<(), Failure> {
    let ProxyCommand {
        member,
        listen,
        allow_remote,
        expose,
        node_listen,
        timeout,
    } = command;
    check_owner(&member.network)?;
    let socket = listener::bind(listen, allow_remote).await?;
    let begin = async |node: &Node| {
        let address = socket
            .local_addr()
            .map_err(|error| Failure::other(format!("--listen {listen}: {error}")))?;
        output.print(
            format_args!("proxy at http://{address}"),
            &value!({ "event": "proxy", "address": address.to_string() }),
        )?;
        let gateway = Gateway::new(node.clone(), settings::Defaults { timeout });
        // The task ends when the gateway drains.
        tokio::spawn(listener::run(socket, Arc::clone(&gateway)));
        Ok(gateway)
    };
    host(&member, node_listen, &expose, begin, output).await
}
