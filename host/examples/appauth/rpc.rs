//! `check` by RPC: the request is a login as JSON, the answer what HTTP would have said of it.

use core::net::SocketAddr;
use std::path::Path;

use http::{Request, Response};
use selfsame_host::rpc::{RpcRefusal, RpcRequest, RpcServer, RpcTicketService, TICKET_PATH};
use selfsame_host::{Body, BoxError, Code, Error, Node, Seed};
use serde_json::json as value;
use tower::Service as _;

use crate::{Check, SERVED_BY};

/// Answers calls at an address, with the secret of a file. Comparing a password twice does no harm.
pub(crate) fn start(node: &Node, check: Check, address: SocketAddr, key: &Path) -> Result<RpcServer, Error> {
    RpcServer::builder(node.network(), "check", Seed::load(key)?)
        .idempotent()
        .start(address, move |request| call(check.clone(), request))
}

async fn call(check: Check, request: RpcRequest) -> Result<Vec<u8>, RpcRefusal> {
    let response = check.compare(&request.payload).await.map_err(|error| {
        tracing::error!(%error, "a password was not compared");
        RpcRefusal(Code::HandlerFailed)
    })?;
    let verdict = value!({ "status": response.status().as_u16(), "checkedBy": SERVED_BY });
    Ok(verdict.to_string().into_bytes())
}

/// Answers a request of the mesh: for a ticket, if there are some, or for a check.
pub(crate) async fn route(
    tickets: Option<RpcTicketService>,
    check: Check,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    match tickets {
        Some(mut tickets) if request.uri().path() == TICKET_PATH => Ok(tickets.call(request).await?),
        _ => check.answer(request).await,
    }
}
