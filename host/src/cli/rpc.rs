//! Commands of the encrypted RPC.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::io::Write as _;
use std::path::Path;

use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use selfsame_host::rpc::{
    PreSharedKey, RpcAddress, RpcClient, RpcOptions, RpcRefusal, RpcRequest, RpcRouter, RpcSelection,
    RpcServer, RpcSessionService, RpcTicketKey, SharedTicketKeys,
};
use selfsame_host::{Code, ConnectionLimit, IDENTITY_FILE, Node, Seed, TrustedProxies};
use serde_json::json as value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::args::{RpcCallCommand, RpcCommand, RpcRouteCommand, RpcServeCommand, Selection};
use super::client::{check_owner, join, leave, read_body};
use super::listen::{accept_strangers, answer_from, bind};
use super::node::{self, Beside, builder};
use super::output::{Failure, Output};
use super::signals::interrupted;

/// Longest answer of a server, and of a call.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Connections over HTTP at a time, of which one network has a quarter: as many as there may be open requests.
const MAX_CONNECTIONS: usize = 4096;
/// Tells the server of this machine who calls.
const CALLER_FIELD: &str = "selfsame-caller";

type HttpClient = Client<HttpConnector, Full<bytes::Bytes>>;
type CallFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, RpcRefusal>> + Send>>;

pub(crate) async fn run(command: RpcCommand, output: Output) -> Result<(), Failure> {
    match command {
        RpcCommand::Call(command) => call(*command, output).await,
        RpcCommand::Serve(command) => serve(*command, output).await,
        RpcCommand::Route(command) => route(*command, output).await,
    }
}

async fn call(command: RpcCallCommand, output: Output) -> Result<(), Failure> {
    let deadline = Instant::now() + command.timeout.timeout.0;
    let payload = read_body(&command.body)?;
    let (client, node) = match (&command.pre_shared_key, &command.server) {
        (Some(file), Some(server)) => (client_without_mesh(&command, file, server)?, None),
        _ => {
            let node = node_of(&command, deadline, output).await?;
            (RpcClient::new(node.clone()), Some(node))
        }
    };
    let mut options = RpcOptions::new().timeout(deadline.saturating_duration_since(Instant::now()));
    if command.idempotent {
        options = options.idempotent();
    }
    if command.forward_secret {
        options = options.forward_secret();
    }
    if let Some(server) = &command.server {
        options = options.server(server.clone());
    }
    let what = format!("calling {}", command.name);
    let calling = client.call(&command.name, &payload, options);
    let answered = output.progress(&what, timeout_at(deadline, calling)).await;
    if let Some(node) = node {
        leave(node, deadline).await;
    }
    let answer = answered.map_err(|_| Failure::timed_out(&what))??;
    if output.json {
        let text = core::str::from_utf8(&answer.payload);
        let value = value!({
            "server": answer.server.to_string(),
            "body": text.ok(),
            "base64": text.is_err().then(|| data_encoding::BASE64.encode(&answer.payload)),
        });
        return output.print("", &value);
    }
    let mut out = std::io::stdout();
    let written = out.write_all(&answer.payload).and_then(|()| out.flush());
    written.map_err(|error| Failure::output(&error))
}

/// Starts the node that calls.
async fn node_of(command: &RpcCallCommand, deadline: Instant, output: Output) -> Result<Node, Failure> {
    check_owner(&command.network)?;
    let mut builder = builder(&command.network)?.in_memory();
    if let Some(folder) = &command.folder {
        builder = builder.seed(Seed::load(&folder.join(IDENTITY_FILE))?);
    }
    join(builder, &command.network, deadline, output).await
}

fn client_without_mesh(
    command: &RpcCallCommand,
    key: &Path,
    server: &RpcAddress,
) -> Result<RpcClient, Failure> {
    let tickets = PreSharedKey::new(&command.network.network)?
        .service(&command.name, Seed::load(key)?, server.clone())
        .allow_private(command.network.allow_private);
    Ok(RpcClient::with_tickets(tickets))
}

async fn serve(command: RpcServeCommand, output: Output) -> Result<(), Failure> {
    if command.to.scheme_str() != Some("http") || command.to.authority().is_none() {
        let text = format!("--to {}: it is http://HOST:PORT/path", command.to);
        return Err(Failure::usage(text));
    }
    check_reachable(&command)?;
    if let Some(file) = &command.pre_shared_key {
        return serve_without_mesh(&command, Seed::load_or_create(file)?, output).await;
    }
    let secret = command
        .ticket_key
        .as_deref()
        .map(Seed::load_or_create)
        .transpose()?;
    let begin = async |node: &Node| {
        if command.in_session {
            node.serve(&command.name, in_session(&command)).await?;
            announce_sessions(&command.name, output)?;
            return Ok(Replica { _open: None });
        }
        let key: RpcTicketKey = match secret {
            Some(secret) => secret.into(),
            None => SharedTicketKeys::rotating(node, &command.name, command.ticket_life.0)?.into(),
        };
        let replica = open(&command, node.network(), key).await?;
        let tickets = replica.server.tickets(replica.addresses.clone())?;
        node.serve(&command.name, tickets).await?;
        announce(&command.name, &replica, output)?;
        Ok(Replica { _open: Some(replica) })
    };
    node::host(&command.member, command.node_listen.clone(), &[], begin, output).await
}

/// Refuses to let tickets name an address that stands for all of a machine.
fn check_reachable(command: &RpcServeCommand) -> Result<(), Failure> {
    let gives_out =
        !command.in_session && command.pre_shared_key.is_none() && command.call_address.is_empty();
    let bound = [("--udp", Some(command.udp)), ("--http", command.http)];
    for (flag, address) in bound {
        if let Some(address) = address.filter(|address| gives_out && address.ip().is_unspecified()) {
            return Err(Failure::usage(format!(
                "callers cannot reach {flag} {address}: say with --call-address where they do, such as 192.0.2.1:{}",
                address.port()
            )));
        }
    }
    Ok(())
}

/// Runs a replica for callers that have its key.
async fn serve_without_mesh(command: &RpcServeCommand, key: Seed, output: Output) -> Result<(), Failure> {
    let interrupted = interrupted(command.member.end_with_input)?;
    let replica = open(command, &command.member.network.network, key.into()).await?;
    announce(&command.name, &replica, output)?;
    interrupted.await;
    drop(replica);
    Ok(())
}

/// Begins to take calls.
async fn open(command: &RpcServeCommand, network: &str, key: RpcTicketKey) -> Result<OpenReplica, Failure> {
    let server = start(command, network, key)?;
    let http = match command.http {
        Some(address) => Some(listen(command, &server, address).await?),
        None => None,
    };
    let addresses = match &command.call_address[..] {
        [] => {
            let url = http.as_ref().map(|http| http.url.clone());
            [server.local_addr().into()].into_iter().chain(url).collect()
        }
        given => given.to_vec(),
    };
    Ok(OpenReplica {
        server,
        http,
        addresses,
    })
}

async fn route(command: RpcRouteCommand, output: Output) -> Result<(), Failure> {
    let interrupted = interrupted(command.end_with_input)?;
    let mut builder =
        RpcRouter::builder(Seed::load_or_create(&command.router_key)?).selection(match command.select {
            Selection::Random => RpcSelection::Random,
            Selection::RoundRobin => RpcSelection::RoundRobin,
            Selection::Shortest => RpcSelection::ShortestQueue,
            Selection::Bounded => RpcSelection::Bounded(command.bound),
            Selection::Two => RpcSelection::PowerOfTwo,
            Selection::Probed => RpcSelection::Probed,
        });
    if command.redirect {
        builder = builder.redirects();
    }
    let router = builder.start(command.udp, &command.server)?;
    let (address, servers) = (router.local_addr(), command.server.len());
    output.print(
        format_args!("calls arrive at {address}, for {servers} replicas"),
        &value!({ "event": "routing-rpc", "udp": address.to_string(), "servers": servers }),
    )?;
    interrupted.await;
    Ok(())
}

fn start(command: &RpcServeCommand, network: &str, key: RpcTicketKey) -> Result<RpcServer, Failure> {
    let mut replica = RpcServer::builder(network, &command.name, key)
        .ticket_life(command.ticket_life.0)
        .threads(command.threads);
    if command.idempotent {
        replica = replica.idempotent();
    }
    if command.http.is_some() {
        replica = replica.http();
    }
    if let Some(file) = &command.router_key {
        replica = replica.router_key(Seed::load_or_create(file)?);
    }
    Ok(replica.start(command.udp, forwarder(command.to.clone()))?)
}

fn in_session(command: &RpcServeCommand) -> RpcSessionService {
    let service = RpcSessionService::new(forwarder(command.to.clone()));
    if command.idempotent {
        service.idempotent()
    } else {
        service
    }
}

/// Returns the handler that has calls carried out by a server of this machine.
fn forwarder(to: Uri) -> impl Fn(RpcRequest) -> CallFuture + Send + Sync {
    let client = Client::builder(TokioExecutor::new()).build_http();
    move |request| Box::pin(pass_on(client.clone(), to.clone(), request))
}

fn announce_sessions(name: &str, output: Output) -> Result<(), Failure> {
    output.print(
        format_args!("calls of {name} arrive in sessions of the mesh"),
        &value!({ "event": "serving-rpc", "name": name }),
    )
}

/// Answers calls over HTTP at an address.
async fn listen(
    command: &RpcServeCommand,
    server: &RpcServer,
    address: SocketAddr,
) -> Result<HttpServer, Failure> {
    let service = server.http().expect("it was asked for");
    let proxies = Arc::new(TrustedProxies::parse(&command.member.trusted_proxy)?);
    let (listener, address) = bind(address).await?;
    let limit = ConnectionLimit::new(MAX_CONNECTIONS, Arc::clone(&proxies));
    let serving = tokio::spawn(async move {
        accept_strangers(listener, &limit, |socket| {
            answer_from(socket, service.clone(), Arc::clone(&proxies))
        })
        .await;
    });
    Ok(HttpServer {
        url: format!("http://{address}/").parse()?,
        serving,
    })
}

fn announce(name: &str, replica: &OpenReplica, output: Output) -> Result<(), Failure> {
    let udp = replica.server.local_addr();
    let url = replica.http.as_ref().map(|http| http.url.to_string());
    let addresses: Vec<_> = replica.addresses.iter().map(ToString::to_string).collect();
    let value = value!({
        "event": "serving-rpc",
        "name": name,
        "udp": udp.to_string(),
        "http": url,
        "addresses": addresses,
    });
    let also = url.map_or_else(String::new, |url| format!(" and {url}"));
    let called = addresses.join(" ");
    output.print(
        format_args!("calls of {name} arrive at {udp}{also}, for callers {called}"),
        &value,
    )
}

/// Carries a call out as a POST to a server of this machine.
async fn pass_on(client: HttpClient, to: Uri, request: RpcRequest) -> Result<Vec<u8>, RpcRefusal> {
    let failed = |error: &dyn core::fmt::Display| {
        tracing::warn!(%error, %to, "the server did not carry a call out");
        RpcRefusal(Code::HandlerFailed)
    };
    let message = Request::builder()
        .method(Method::POST)
        .uri(to.clone())
        .header(CALLER_FIELD, request.caller.to_string())
        .body(Full::from(request.payload))
        .map_err(|error| failed(&error))?;
    let response = client.request(message).await.map_err(|error| failed(&error))?;
    if response.status() != StatusCode::OK {
        return Err(failed(&response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await;
    Ok(body.map_err(|error| failed(&error))?.to_bytes().to_vec())
}

/// A replica beside its node: calls under way end with it.
struct Replica {
    /// `None` where calls arrive in sessions.
    _open: Option<OpenReplica>,
}

/// A replica that takes calls until it is dropped.
struct OpenReplica {
    server: RpcServer,
    http: Option<HttpServer>,
    /// Where callers reach it.
    addresses: Vec<RpcAddress>,
}

/// Takes connections until it is dropped.
struct HttpServer {
    url: RpcAddress,
    serving: JoinHandle<()>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Beside for Replica {
    async fn drain(&self, _longest: Duration) {}
}
