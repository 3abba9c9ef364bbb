use core::net::SocketAddr;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use selfsame_host::{OwnerKey, ParseIdError, PeerId};

use super::log::Log;

mod authority;
pub(crate) use authority::{
    AuthorityArguments, AuthorityCommand, AuthorityRevoke, AuthoritySign, DnsCommand, DnsInit, DnsServer,
};

mod capsule;
pub(crate) use capsule::{
    AppendCommand, CapsuleCommand, CreateCommand, ExportCommand, GovernCommand, Hash, HeadsCommand,
    ImportCommand, KeyFile, LogCommand, Opened, ProveCommand, ReadCommand, ServeCommand, Servers,
    SyncCommand, VerifyCommand,
};

mod look;
pub(crate) use look::{DoctorCommand, RingCommand, Running};

mod nodes;
pub(crate) use nodes::{JoinOrder, NodesCommand};

mod rpc;
pub(crate) use rpc::{RpcCallCommand, RpcCommand, RpcRouteCommand, RpcServeCommand, Selection};

const EXIT_CODES: &str = "Exit codes:
  0  done, or whoever read the output has closed it
  1  failed
  2  a flag, file or address is not usable
  3  nobody answered: no bootstrap, or no provider
  4  nobody serves the name
  5  the store cannot be used
  130  interrupted again while it finished requests";

const EXAMPLES: &str = "Examples:
  selfsame node --network twiitr --listen ws://0.0.0.0:7000 --address wss://node.example --data ./data
  selfsame node --network twiitr --listen ws://0.0.0.0:7001 --address wss://two.example --join wss://node.example#ID --data ./data2
  selfsame find check --network twiitr --join wss://node.example#ID --owner KEY
  selfsame call https://check.mesh/ --network twiitr --join wss://node.example#ID --owner KEY -d '{\"user\":\"ada\"}'";

/// Edge functions that find, call and trust each other, without a registry and without a certificate authority
#[derive(Debug, Parser)]
#[command(name = "selfsame", version, after_help = EXIT_CODES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Arguments {
    /// Prints JSON, one value a line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// What is logged to the standard error: error, warn, info, debug or trace, and json for one JSON object a line, as in
    /// info,json
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        default_value = "warn",
        env = "SELFSAME_LOG"
    )]
    pub(crate) log: Log,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes or shows the identity of a node
    #[command(subcommand)]
    Id(IdCommand),

    /// Makes or shows the key of an owner of names
    #[command(subcommand)]
    Owner(OwnerCommand),

    /// Grants a peer to serve a name of an owner
    #[command(
        after_help = "Example:\n  selfsame grant --network twiitr --name check --to PEER-ID --expires 30d > check.grant"
    )]
    Grant(GrantCommand),

    /// Admits nodes to a closed network, and shuts them out
    #[command(subcommand)]
    Authority(AuthorityCommand),

    /// Runs a node until it is interrupted
    #[command(after_help = "Examples:
  selfsame node --network twiitr --listen ws://0.0.0.0:7000 --address wss://node.example --data ./data
  selfsame node --network twiitr --listen ws://0.0.0.0:7001 --address wss://two.example --join wss://node.example#ID --data ./data2
  selfsame node --network twiitr --join wss://node.example#ID --data ./data3 --serve check=http://127.0.0.1:8080 --grant check.grant")]
    Node(NodeCommand),

    /// Runs a node beside programs that know nothing of it: they call services by HTTP, and are called by it
    #[command(after_help = "Examples:
  selfsame proxy --network twiitr --join wss://node.example#ID --unowned --listen 127.0.0.1:15001 --expose check=http://localhost:8080
  http_proxy=http://127.0.0.1:15001 curl http://check.mesh/
  curl -H 'Host: check.mesh' http://127.0.0.1:15001/")]
    Proxy(ProxyCommand),

    /// Runs many nodes in one process, each with an identity of its own, and tells how long they took to join
    #[command(after_help = "Examples:
  selfsame nodes --network try --count 500 --bootstraps 10
  selfsame nodes --network try --count 50 --order parallel --listen ws://127.0.0.1:7000 --keep")]
    Nodes(NodesCommand),

    /// Shows where a node that runs on this machine stands in the ring, whom it knows there, and what it serves
    #[command(after_help = "Examples:
  selfsame ring --data ./data
  selfsame --json ring --url http://127.0.0.1:9464")]
    Ring(RingCommand),

    /// Says what is wrong with a node's clock, reachability, bootstraps and place in the ring, and how to mend it
    #[command(after_help = "Examples:
  selfsame doctor --data ./data
  selfsame doctor --data ./data4 --network twiitr --join wss://node.example#ID --listen ws://0.0.0.0:7002 --address wss://three.example

Where no node runs it tries what one would do with the same flags. It ends with exit code 0 when all is well and with 1 when something is wrong.")]
    Doctor(DoctorCommand),

    /// Finds who serves a name
    #[command(
        after_help = "Example:\n  selfsame find check --network twiitr --join wss://node.example#ID --owner KEY"
    )]
    Find(FindCommand),

    /// Stores in the ring that this identity serves a name
    #[command(
        after_help = "Example:\n  selfsame store check --network twiitr --join wss://node.example#ID --data ./data3 --grant check.grant"
    )]
    Store(StoreCommand),

    /// Sends a request to a service
    #[command(after_help = "Examples:
  selfsame call https://hello.mesh/ --network twiitr --join wss://node.example#ID --unowned
  selfsame call https://check.mesh/ --network twiitr --join wss://node.example#ID --owner KEY -H 'content-type: application/json' -d '{\"user\":\"ada\"}'")]
    Call(CallCommand),

    /// Writes, reads, proves and verifies capsules: signed records on servers that need not be trusted
    #[command(
        subcommand,
        after_help = "Examples:
  selfsame capsule serve --listen 127.0.0.1:7300 --data ./capsules
  selfsame capsule create --server http://127.0.0.1:7300/#KEY --description 'a diary'
  date | selfsame capsule append NAME --server http://127.0.0.1:7300/#KEY
  selfsame capsule log NAME --server http://127.0.0.1:7300/#KEY"
    )]
    Capsule(CapsuleCommand),

    /// Calls and serves by encrypted RPC over UDP: a datagram each way, to any replica
    #[command(subcommand)]
    Rpc(RpcCommand),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Data {
    /// Folder of the node's identity and state
    #[arg(
        long = "data",
        value_name = "DIR",
        default_value = "selfsame-data",
        env = "SELFSAME_DATA"
    )]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IdCommand {
    /// Makes a new identity; an old one is never replaced
    #[command(after_help = "Example:\n  selfsame id new --network twiitr --data ./data")]
    New(IdArguments),
    /// Shows the peer id that the identity has in a network
    #[command(after_help = "Example:\n  selfsame id show --network twiitr --data ./data")]
    Show(IdArguments),
    /// Shows the public key that the identity has in a closed network, for its authority to sign; makes the identity if there is none
    #[command(after_help = "Example:\n  selfsame id key --network twiitr@KEY --data ./data")]
    Key(IdArguments),
}

#[derive(Args, Debug)]
pub(crate) struct IdArguments {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Name of the network: an identity has another id in each
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OwnerCommand {
    /// Makes a new owner's key; an old one is never replaced
    #[command(after_help = "Example:\n  selfsame owner new --network twiitr --key ./owner.key")]
    New(OwnerArguments),
    /// Shows the public key that callers name with --owner
    #[command(after_help = "Example:\n  selfsame owner show --network twiitr --key ./owner.key")]
    Show(OwnerArguments),
}

#[derive(Args, Debug)]
pub(crate) struct OwnerArguments {
    /// File of the owner's secret
    #[arg(long, value_name = "FILE", default_value = "owner.key")]
    pub(crate) key: PathBuf,
    /// Name of the network: an owner has another key in each
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
}

#[derive(Args, Debug)]
pub(crate) struct GrantCommand {
    /// Name of the network
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
    /// The name that may be served
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// Id of the peer that may serve it
    #[arg(long, value_name = "PEER-ID")]
    pub(crate) to: PeerId,
    /// How long, such as 30d, 12h or 90m
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub(crate) expires: Span,
    /// Id of a peer whose earlier grants for the name count no more; may be given up to 8 times
    #[arg(long, value_name = "PEER-ID")]
    pub(crate) revoke: Vec<PeerId>,
    /// File of the owner's secret
    #[arg(long, value_name = "FILE", default_value = "owner.key")]
    pub(crate) key: PathBuf,
}

/// What every command needs that takes part in a network
#[derive(Args, Clone, Debug)]
pub(crate) struct Network {
    /// Name of the network
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
    /// Node to join through, as URL#PEER-ID; may be given more than once
    #[arg(long, value_name = "URL#PEER-ID")]
    pub(crate) join: Vec<String>,
    /// Dials private and loopback addresses that other nodes name
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Accepts a --join without a peer id, and whoever answers there
    #[arg(long)]
    pub(crate) trust_on_first_use: bool,
    /// Owner of the names that are meant
    #[arg(long, value_name = "KEY", conflicts_with = "unowned")]
    pub(crate) owner: Option<OwnerKey>,
    /// Means names without an owner, which anybody may serve
    #[arg(long)]
    pub(crate) unowned: bool,
    /// File with the certificate by which the authority of a closed network admits this identity; such a network is named NAME@KEY
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

/// What a command needs that runs a node until it is interrupted
#[derive(Args, Clone, Debug)]
pub(crate) struct Member {
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) data: Data,
    /// URL at which others can dial this node, the preferred one first; without any the URLs count that it listens on
    #[arg(long, value_name = "URL")]
    pub(crate) address: Vec<String>,
    /// Address or prefix of a proxy in front of this node, such as 10.0.0.0/8, whose header forwarded or x-forwarded-for says where
    /// a peer comes from; may be given more than once
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<String>,
    /// File with a grant for a name that is served; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub(crate) grant: Vec<PathBuf>,
    /// File with the list of whom the authority of a closed network admits no more, which `selfsame authority revoke` makes; read again
    /// with the grants and the certificate on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) revocations: Option<PathBuf>,
    /// Domain of a closed network, in whose DNS this node finds its certificates, now and before each expires
    #[arg(long, value_name = "DOMAIN", conflicts_with = "certificate")]
    pub(crate) dns: Option<String>,
    /// Name server that is asked for them, in place of the system's; up to 3
    #[arg(long, value_name = "IP:PORT", requires = "dns", value_parser = socket_address)]
    pub(crate) name_server: Vec<SocketAddr>,
    /// Resolver over HTTPS that is asked for them, by its URL
    #[arg(long, value_name = "URL", requires = "dns", conflicts_with = "name_server")]
    pub(crate) dns_over_https: Option<String>,
    /// Ends when the standard input does, so that the node does not outlive the program that started it
    #[arg(long)]
    pub(crate) end_with_input: bool,
    /// Address at which this node shows its numbers and its place in the ring by HTTP, such as 127.0.0.1:9464; whoever
    /// reaches it may read them
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Collector that is told of each request by OTLP over HTTP, such as http://localhost:4318, or a service of the
    /// mesh
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub(crate) otlp: Option<String>,
    /// Share of the traces begun here that the collector is told of, 0 to 1; what OTEL_TRACES_SAMPLER says unless given
    #[arg(long, value_name = "SHARE")]
    pub(crate) sample: Option<f64>,
    /// Takes the identity over from another node that runs with it, which then stops; else the later one of two stops
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Longest time that requests which are under way get to finish when the node is told to end; told once more, it ends at
    /// once with exit code 130
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) drain: Span,
    /// Label of what fails together with this node, such as a region
    #[arg(long, value_name = "LABEL", default_value = "")]
    pub(crate) domain: String,
}

#[derive(Args, Debug)]
pub(crate) struct NodeCommand {
    #[command(flatten)]
    pub(crate) member: Member,
    /// URL to listen on, such as ws://0.0.0.0:7000, tcp://0.0.0.0:7001 or udp://0.0.0.0:7001; may be given more than once
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Vec<String>,
    /// Serves a name by passing its requests on, as NAME=http://127.0.0.1:PORT, with ,version=V ,weight=W and ,allow=PEER-ID
    /// if wanted; may be given more than once
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) serve: Vec<Forward>,
}

#[derive(Args, Debug)]
pub(crate) struct ProxyCommand {
    #[command(flatten)]
    pub(crate) member: Member,
    /// Address at which programs of this machine use the proxy
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:15001", value_parser = socket_address)]
    pub(crate) listen: SocketAddr,
    /// Lets --listen be an address that other machines reach: their programs then call services as this node
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Makes a server of this machine a service, as NAME=http://127.0.0.1:PORT, with ,version=V ,weight=W and ,allow=PEER-ID
    /// if wanted; may be given more than once
    #[arg(long, value_name = "NAME=URL")]
    pub(crate) expose: Vec<Forward>,
    /// URL at which the node itself listens for other nodes, such as ws://0.0.0.0:7000; may be given more than once; without any
    /// it is a leaf
    #[arg(long, value_name = "URL")]
    pub(crate) node_listen: Vec<String>,
    /// Longest time until an answer begins, unless the request says otherwise in the field selfsame-timeout
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Span,
}

#[derive(Args, Debug)]
pub(crate) struct FindCommand {
    /// The name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

#[derive(Args, Debug)]
pub(crate) struct StoreCommand {
    /// The name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) data: Data,
    /// File with the owner's grant
    #[arg(long, value_name = "FILE")]
    pub(crate) grant: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

#[derive(Args, Debug)]
pub(crate) struct CallCommand {
    #[arg(help = "Address of the service, https://NAME.mesh/path")]
    pub(crate) url: http::Uri,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Folder of the identity that calls; without one the caller is nobody in particular
    #[arg(long = "data", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Method; GET, or POST with --body
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    pub(crate) method: Option<http::Method>,
    /// Body, @FILE for that of a file, @- for the standard input
    #[arg(short = 'd', long = "body", value_name = "BODY")]
    pub(crate) body: Option<String>,
    /// Header, as 'name: value'; may be given more than once
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) header: Vec<Header>,
    /// Prints the status and the headers of the answer, too
    #[arg(short, long)]
    pub(crate) include: bool,
    /// Ends with exit code 1 when the status is 400 or more
    #[arg(short, long)]
    pub(crate) fail: bool,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Timeout {
    /// Longest time for the whole command
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Span,
}

/// A time such as 30d, 12h, 90m, 45s or 500ms
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const UNITS: [(&str, u64); 5] = [
            ("ms", 1),
            ("s", 1000),
            ("m", 60 * 1000),
            ("h", 60 * 60 * 1000),
            ("d", 24 * 60 * 60 * 1000),
        ];
        /// A century is enough for anything and keeps every sum within its type.
        const LONGEST_MS: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
        let read = || {
            let (number, ms) = UNITS
                .iter()
                .find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)))?;
            let number: u64 = number.parse().ok()?;
            number.checked_mul(ms).filter(|ms| (1..=LONGEST_MS).contains(ms))
        };
        let ms = read().ok_or("a time is a number and one of d, h, m, s and ms, such as 30d")?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    let wrong = "write an IP address and a port, such as 127.0.0.1:7300 for this machine alone";
    text.parse().map_err(|_| wrong)
}

/// Longest name of a service, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// Whether the core takes a text for a service's name: it is asked only once the node has joined.
fn is_name(text: &str) -> bool {
    let is_in_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(is_in_name)
}

/// A name that is served by passing its requests on
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forward {
    pub(crate) name: String,
    pub(crate) to: http::uri::Authority,
    pub(crate) version: Option<String>,
    pub(crate) weight: Option<f64>,
    /// Nobody in particular: everybody may call.
    pub(crate) allow: Vec<PeerId>,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || "it is NAME=http://HOST:PORT, such as check=http://127.0.0.1:8080".to_owned();
        let mut parts = text.split(',');
        let (name, url) = parts
            .next()
            .and_then(|part| part.split_once('='))
            .ok_or_else(wrong)?;
        let authority = url
            .strip_prefix("http://")
            .ok_or_else(wrong)?
            .trim_end_matches('/');
        let mut forward = Self {
            name: name.into(),
            to: authority.parse().map_err(|_| wrong())?,
            version: None,
            weight: None,
            allow: Vec::new(),
        };
        if !is_name(name) {
            return Err(format!(
                "{name:?} is no name: one has 1 to 63 characters out of a-z, 0-9, '-' and '.'"
            ));
        }
        for part in parts {
            match part.split_once('=') {
                Some(("version", version)) => forward.version = Some(version.into()),
                Some(("weight", weight)) => {
                    let share = weight.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    let wrong = || format!("{weight} is no weight: it is 0 to 1, such as 0.1");
                    forward.weight = Some(share.ok_or_else(wrong)?);
                }
                Some(("allow", id)) => forward
                    .allow
                    .push(id.parse().map_err(|error: ParseIdError| error.to_string())?),
                _ => return Err(format!("{part} is none of version=V, weight=W and allow=PEER-ID")),
            }
        }
        Ok(forward)
    }
}

/// A header of a request
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: http::HeaderName,
    pub(crate) value: http::HeaderValue,
}

impl FromStr for Header {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a header is 'name: value'";
        let (name, value) = text.split_once(':').ok_or(wrong)?;
        Ok(Self {
            name: name.trim().parse().map_err(|_| wrong)?,
            value: value.trim().parse().map_err(|_| wrong)?,
        })
    }
}
