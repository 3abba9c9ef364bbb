//! The service `check` of AppAuth, in a node of its own: takes a user and a password as JSON and compares them with a
//! dictionary of salted hashes. If it is told of an audit log, it holds a replica of it, writes what it checks and serves `audit`.
//!
//! ```text
//! appauth --network twiitr --listen ws://127.0.0.1:7000 --data ./data --users users.json --grant GRANT
//! ```
//! It prints one JSON value a line, as `selfsame node --json` does, and leaves the ring when it is interrupted or nobody
//! reads that any more.

#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use alloc::sync::Arc;
use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use selfsame_host::{Body, BoxError, Builder, Event, Grant, Node, OwnerKey, Replica, ServeOptions, json};
use serde::Deserialize;
use serde_json::{Value, json as value};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use unicode_normalization::UnicodeNormalization as _;

mod audit;
use audit::Log;

mod membership;
use membership::Membership;

mod rpc;

/// A login is two short texts.
const MAX_BODY: usize = 8 * 1024;
/// Characters of a user's name.
const MAX_USER: usize = 128;
/// Characters of a password: longer than any that a person or a generator makes.
const MAX_PASSWORD: usize = 1024;
/// Each check takes 16 MiB and some tens of milliseconds while it runs.
const MAX_RUNNING: usize = 4;
/// Time for the neighbours to take over.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Told to whoever asks who checked.
const SERVED_BY: &str = "wasmtime";

/// The service `check` of AppAuth
#[derive(Debug, Parser)]
struct Arguments {
    /// Name of the network
    #[arg(long)]
    network: String,
    /// URL to listen on
    #[arg(long)]
    listen: String,
    /// URL at which others can dial this node; without one the --listen URL counts
    #[arg(long)]
    address: Vec<String>,
    /// Folder of the node's identity and state
    #[arg(long)]
    data: PathBuf,
    /// Node to join through, as URL#PEER-ID
    #[arg(long)]
    join: Vec<String>,
    /// File with the dictionary: { "user": { "salt": hex, "hash": hex } }
    #[arg(long)]
    users: PathBuf,
    /// Owner of the names
    #[arg(long)]
    owner: Option<OwnerKey>,
    /// Grant to serve `check` or `audit`; without one the node serves nothing
    #[arg(long)]
    grant: Vec<Grant>,
    /// Signed metadata of the audit log's capsule, in hexadecimal
    #[arg(long, requires = "audit_seed")]
    audit: Option<String>,
    /// File with the seed of the key that writes the audit log: 64 hexadecimal digits, to be read by its owner alone
    #[arg(long, requires = "audit", value_name = "FILE")]
    audit_seed: Option<PathBuf>,
    /// Address at which calls of `check` by RPC arrive
    #[arg(long, requires = "ticket_key", value_name = "IP:PORT")]
    rpc: Option<SocketAddr>,
    /// Address at which calls of `check` by RPC over HTTP arrive, of callers without UDP
    #[arg(long, requires = "rpc", value_name = "IP:PORT")]
    rpc_http: Option<SocketAddr>,
    /// File of the secret that the replicas of `check` share
    #[arg(long, requires = "rpc", value_name = "FILE")]
    ticket_key: Option<PathBuf>,
    /// Domain of a closed network, in whose DNS this node finds its certificates
    #[arg(long, requires = "dns_over_https", value_name = "DOMAIN")]
    dns: Option<String>,
    /// Resolver over HTTPS that is asked for them
    #[arg(long, requires = "dns", value_name = "URL")]
    dns_over_https: Option<String>,
    /// Dials private and loopback addresses that other nodes name
    #[arg(long)]
    allow_private: bool,
    /// Ends when the standard input does
    #[arg(long)]
    end_with_input: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // It would tell the standard error that the standard error is closed, and panic.
        .log_internal_errors(false)
        .with_max_level(tracing::Level::WARN)
        .init();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // When the standard error is closed, nobody is left to hear of it.
            _ = writeln!(io::stderr(), "appauth: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let users = read_users(&arguments.users)?;
    let membership = Membership::of(&arguments).await?;
    let (mut builder, granted) = configure(&arguments)?;
    if let Some(membership) = &membership {
        builder = membership.admit(builder);
    }
    let [serves, audits] = ["check", "audit"].map(|name| granted.iter().any(|granted| granted == name));
    let node = builder.start().await?;
    // From here on no change of the ring is missed.
    let events = node.events();
    let work = async {
        print(&value!({ "event": "started", "id": node.id().to_string(), "addresses": node.addresses() }))?;
        joined(&node).await?;
        let audit = arguments.audit.as_deref().zip(arguments.audit_seed.as_deref());
        let log = open_log(&node, audit, &arguments.data).await?;
        let check = Check::new(users, log.as_ref().map(|(log, _)| log.clone()));
        let place = rpc::Place::of(arguments.rpc, arguments.rpc_http, arguments.ticket_key.as_deref());
        let _calls = match serves {
            true => serve_check(&node, check, place).await?,
            false => None,
        };
        if let Some((log, _)) = &log
            && audits
        {
            let log = log.clone();
            let service = tower::service_fn(move |request| log.clone().answer(request));
            node.serve("audit", service).await?;
            tell_serving(&node, "audit").await?;
        }
        // Last: whoever wants a password compared need not wait until others find the replica.
        let _serving = match &log {
            Some((_, replica)) => Some(replica.serve_capsules(&node, ServeOptions::default()).await?),
            None => None,
        };
        watch(&node, events).await
    };
    let ended = tokio::select! {
        ended = work => ended,
        () = membership::keep(&node, membership) => Ok(()),
        () = asked_to_end(arguments.end_with_input) => Ok(()),
    };
    if ended.as_ref().is_err_and(|error| !is_closed_output(&**error)) {
        return ended;
    }
    // Neighbours that do not hear of it find out by themselves.
    let left = tokio::time::timeout(LEAVE_TIMEOUT, node.leave()).await;
    let event = if left.is_ok_and(|left| left.is_ok()) {
        "left"
    } else {
        "stopped"
    };
    print(&value!({ "event": event })).or_else(|error| {
        if is_closed_output(&*error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Returns the node as the arguments describe it, and the names that it may serve.
fn configure(arguments: &Arguments) -> Result<(Builder, Vec<String>), Box<dyn Error>> {
    let mut builder = Node::builder(&arguments.network)
        .storage(&arguments.data)
        .listen(&arguments.listen)
        .bootstrap(arguments.join.clone())
        .allow_private(arguments.allow_private)
        .domain(SERVED_BY)
        .keep_trying(true);
    for address in &arguments.address {
        builder = builder.address(address);
    }
    if let Some(owner) = arguments.owner {
        builder = builder.owner(owner);
    }
    let mut granted = Vec::new();
    for grant in &arguments.grant {
        granted.push(grant.verify(&arguments.network)?.name);
        builder = builder.grant(grant.clone());
    }
    Ok((builder, granted))
}

/// Prints a line.
fn print(value: &Value) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// Whether whoever reads the output wants no more of it.
fn is_closed_output(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

async fn joined(node: &Node) -> Result<(), Box<dyn Error>> {
    loop {
        let status = node.status().await?;
        if status.joined {
            return print(&value!({ "event": "joined", "status": json::status(&status) }));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Prints what is served from now on, with the status: it is no change of the ring.
async fn tell_serving(node: &Node, name: &str) -> Result<(), Box<dyn Error>> {
    let status = node.status().await?;
    print(&value!({ "event": "serving", "name": name, "status": json::status(&status) }))
}

/// Opens the audit log, if there is one, with a replica that is still to be served.
async fn open_log(
    node: &Node,
    audit: Option<(&str, &Path)>,
    data: &Path,
) -> Result<Option<(Log, Replica)>, Box<dyn Error>> {
    let Some((metadata, seed)) = audit else {
        return Ok(None);
    };
    Ok(Some(
        Log::open(node, audit::settings(metadata, seed, data)?).await?,
    ))
}

/// Serves `check`, by RPC, too, if there is a place for calls.
async fn serve_check(
    node: &Node,
    check: Check,
    place: Option<rpc::Place<'_>>,
) -> Result<Option<rpc::Calls>, Box<dyn Error>> {
    let calls = match place {
        Some(place) => Some(rpc::Calls::start(node, check.clone(), place).await?),
        None => None,
    };
    let tickets = calls.as_ref().map(rpc::Calls::tickets).transpose()?;
    let service = tower::service_fn(move |request| rpc::route(tickets.clone(), check.clone(), request));
    node.serve("check", service).await?;
    tell_serving(node, "check").await?;
    Ok(calls)
}

/// Prints the status whenever the ring changes.
async fn watch(node: &Node, mut events: Receiver<Event>) -> Result<(), Box<dyn Error>> {
    loop {
        match events.recv().await {
            Ok(Event::RingChanged) | Err(RecvError::Lagged(_)) => {
                let status = node.status().await?;
                print(&value!({ "event": "ring", "status": json::status(&status) }))?;
            }
            Ok(Event::Published(name)) => print(&value!({ "event": "published", "name": name }))?,
            Ok(_) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

async fn asked_to_end(with_input: bool) {
    let input_ended = async {
        let (told, ended) = tokio::sync::oneshot::channel::<()>();
        // Not one of the runtime's threads: it would keep the process from ending for as long as it reads.
        std::thread::spawn(move || {
            _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            drop(told);
        });
        _ = ended.await;
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => core::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = core::future::pending::<()>();
    tokio::select! {
        () = input_ended, if with_input => {}
        () = terminated => {}
        Ok(()) = tokio::signal::ctrl_c() => {}
    }
}

/// A password as it is kept
#[derive(Clone, Copy, Debug)]
struct Stored {
    salt: [u8; 16],
    hash: [u8; 32],
}

/// Stands for users that do not exist, so that their answer takes as long.
const NOBODY: Stored = Stored {
    salt: [0; 16],
    hash: [0; 32],
};

fn read_users(path: &Path) -> Result<HashMap<String, Stored>, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct Entry {
        salt: String,
        hash: String,
    }
    let failed = |error: &dyn core::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let entries: HashMap<String, Entry> = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let decode = |(user, entry): (String, Entry)| {
        let salt = data_encoding::HEXLOWER
            .decode(entry.salt.as_bytes())
            .ok()
            .and_then(|salt| salt.try_into().ok());
        let hash = data_encoding::HEXLOWER
            .decode(entry.hash.as_bytes())
            .ok()
            .and_then(|hash| hash.try_into().ok());
        match (salt, hash) {
            (Some(salt), Some(hash)) => Ok((user, Stored { salt, hash })),
            _ => Err(failed(&format!(
                "\"{user}\" needs a salt of 16 and a hash of 32 bytes in hexadecimal"
            ))
            .into()),
        }
    };
    entries.into_iter().map(decode).collect()
}

/// What a caller sends
#[derive(Debug, Deserialize)]
struct Credentials {
    user: String,
    password: String,
}

#[derive(Clone)]
struct Check {
    users: Arc<HashMap<String, Stored>>,
    places: Arc<Semaphore>,
    log: Option<Log>,
}

impl Check {
    fn new(users: HashMap<String, Stored>, log: Option<Log>) -> Self {
        Self {
            users: Arc::new(users),
            places: Arc::new(Semaphore::new(MAX_RUNNING)),
            log,
        }
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let mut response = self.outcome(request).await?;
        response
            .headers_mut()
            .insert("served-by", HeaderValue::from_static(SERVED_BY));
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    async fn outcome(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        if request.uri().path() != "/" {
            return Ok(refuse(StatusCode::NOT_FOUND, "there is nothing at this path"));
        }
        if request.method() != Method::POST {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "send a POST");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("POST"));
            return Ok(response);
        }
        let media_type = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let media_type = media_type
            .and_then(|value| value.split(';').next())
            .unwrap_or_default()
            .trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            return Ok(refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send application/json",
            ));
        }
        let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
            return Ok(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
        };
        self.compare(&body.to_bytes()).await
    }

    /// Compares the password of a login, which is JSON.
    async fn compare(&self, login: &[u8]) -> Result<Response<Body>, BoxError> {
        let credentials = serde_json::from_slice(login).ok().filter(is_login);
        let Some(Credentials { user, password }) = credentials else {
            let text = r#"send { "user": text, "password": text }"#;
            return Ok(refuse(StatusCode::BAD_REQUEST, text));
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, "too many checks run: try again");
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Ok(response);
        };
        let stored = self.users.get(&user).copied();
        let is_right = tokio::task::spawn_blocking(move || {
            let _place = place;
            is_password(&password, stored.as_ref().unwrap_or(&NOBODY))
        });
        // An unknown user is checked like any other, so that the answer takes as long.
        let is_welcome = is_right.await?? && stored.is_some();
        let status = if is_welcome {
            StatusCode::OK
        } else {
            StatusCode::UNAUTHORIZED
        };
        if let Some(log) = &self.log {
            log.note(&user, status);
        }
        if is_welcome {
            Ok(answer(StatusCode::OK, &value!({ "ok": true, "user": user })))
        } else {
            Ok(refuse(StatusCode::UNAUTHORIZED, "wrong user or password"))
        }
    }
}

fn is_login(Credentials { user, password }: &Credentials) -> bool {
    let is_text = |text: &str, most| (1..=most).contains(&text.chars().count());
    is_text(user, MAX_USER) && is_text(password, MAX_PASSWORD)
}

fn is_password(password: &str, stored: &Stored) -> Result<bool, BoxError> {
    let password: String = password.nfc().collect();
    let mut hash = [0; 32];
    scrypt::scrypt(
        password.as_bytes(),
        &stored.salt,
        &scrypt::Params::new(14, 8, 1)?,
        &mut hash,
    )?;
    Ok(hash.ct_eq(&stored.hash).into())
}

fn refuse(status: StatusCode, why: &str) -> Response<Body> {
    answer(status, &value!({ "ok": false, "error": why }))
}

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
