//! `check` by RPC: the request is a login as JSON, the answer what HTTP would have said of it.

use core::error::Error as StdError;
use core::net::SocketAddr;
use std::path::Path;

use axum::Router;
use http::{Request, Response};
use selfsame_host::rpc::{RpcAddress, RpcRefusal, RpcRequest, RpcServer, RpcTicketService, TICKET_PATH};
use selfsame_host::{Body, BoxError, Code, Error, Node, Seed};
use serde_json::json as value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::Service as _;

use crate::{Check, SERVED_BY};

/// Where calls arrive, and the file of the secret that the replicas share
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    udp: SocketAddr,
    http: Option<SocketAddr>,
    ticket_key: &'a Path,
}

impl<'a> Place<'a> {
    /// The place that was named, if one was.
    pub(crate) fn of(
        udp: Option<SocketAddr>,
        http: Option<SocketAddr>,
        ticket_key: Option<&'a Path>,
    ) -> Option<Self> {
        Some(Self {
            udp: udp?,
            http,
            ticket_key: ticket_key?,
        })
    }
}

/// A replica of `check`, which answers calls until it is dropped
pub(crate) struct Calls {
    server: RpcServer,
    url: Option<RpcAddress>,
    _http: JoinSet<std::io::Result<()>>,
}

impl Calls {
    /// Answers calls at a place. Comparing a password twice does no harm.
    pub(crate) async fn start(
        node: &Node,
        check: Check,
        place: Place<'_>,
    ) -> Result<Self, Box<dyn StdError>> {
        let server = RpcServer::builder(node.network(), "check", Seed::load(place.ticket_key)?)
            .idempotent()
            .http()
            .start(place.udp, move |request| call(check.clone(), request))?;
        let mut calls = Self {
            server,
            url: None,
            _http: JoinSet::new(),
        };
        if let Some(address) = place.http
            && let Some(service) = calls.server.http()
        {
            let listener = TcpListener::bind(address).await?;
            calls.url = Some(format!("http://{}/rpc", listener.local_addr()?).parse()?);
            let app = Router::new().route_service("/rpc", service);
            calls._http.spawn(async move { axum::serve(listener, app).await });
        }
        Ok(calls)
    }

    /// What issues tickets.
    pub(crate) fn tickets(&self) -> Result<RpcTicketService, Error> {
        let udp = RpcAddress::from(self.server.local_addr());
        self.server.tickets([udp].into_iter().chain(self.url.clone()))
    }
}

async fn call(check: Check, request: RpcRequest) -> Result<Vec<u8>, RpcRefusal> {
    let response = check.compare(&request.payload).await.map_err(|error| {
        tracing::error!(%error, "a password was not compared");
        RpcRefusal(Code::HandlerFailed)
    })?;
    let verdict = value!({ "status": response.status().as_u16(), "checkedBy": SERVED_BY });
    Ok(verdict.to_string().into_bytes())
}

/// Answers a request of the mesh: of the RPC, if that is served, or for a check.
pub(crate) async fn route(
    tickets: Option<RpcTicketService>,
    check: Check,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    match tickets {
        Some(mut tickets) if request.uri().path().starts_with(TICKET_PATH) => {
            Ok(tickets.call(request).await?)
        }
        _ => check.answer(request).await,
    }
}
