//! The sidecar: programs of this machine call services over HTTP, and servers of this machine become services.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use selfsame_host::{BoxError, Node};
use serde_json::json as value;
use tokio::task::JoinSet;

use super::args::ProxyCommand;
use super::client::check_owner;
use super::node::host;
use super::output::{Failure, Output};

mod expose;
mod gateway;
mod listener;
mod problem;
mod settings;
mod target;

pub(crate) use expose::Exposed;
use gateway::Gateway;

type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

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
        // The task ends when the set is dropped.
        let mut tasks = JoinSet::new();
        tasks.spawn(listener::run(socket, gateway));
        Ok(tasks)
    };
    host(&member, node_listen, &expose, begin, output).await
}
