use core::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use selfsame_host::rpc::RpcAddress;

use super::{Member, Network, Span, Timeout, is_name, socket_address};

#[derive(Debug, Subcommand)]
pub(crate) enum RpcCommand {
    /// Calls a service once, and prints the answer
    #[command(after_help = "Examples:
  selfsame rpc call echo --network twiitr --join wss://node.example#ID --unowned -d ping
  date | selfsame rpc call echo --network twiitr --join wss://node.example#ID --unowned --idempotent -d @-
  selfsame rpc call echo --network twiitr --pre-shared-key echo.key --server 192.0.2.1:7400 -d ping")]
    Call(Box<RpcCallCommand>),
    /// Runs a node and a replica of a service, which passes calls on to a server of this machine
    #[command(after_help = "Examples:
  selfsame rpc serve echo --to http://127.0.0.1:8080/rpc --udp 0.0.0.0:7400 --call-address 192.0.2.1:7400 --ticket-key echo.key --network twiitr --join wss://node.example#ID --unowned
  selfsame rpc serve echo --to http://127.0.0.1:8080/rpc --in-session --network twiitr --join wss://node.example#ID --unowned
  selfsame rpc serve echo --to http://127.0.0.1:8080/rpc --udp 0.0.0.0:7400 --pre-shared-key echo.key --network twiitr

Callers without UDP, such as Workers and pages, call a URL: --http 127.0.0.1:7401 behind a proxy that speaks TLS, and --call-address https://echo.example/rpc as well.

Replicas of one service share the file of --ticket-key: copy it to each of them.")]
    Serve(Box<RpcServeCommand>),
    /// Runs a router, which picks the replica of each call; the answer goes straight to the caller
    #[command(after_help = "Example:
  selfsame rpc route --udp 0.0.0.0:7500 --router-key echo-router.key --server 192.0.2.1:7400 --server 192.0.2.2:7400

Replicas take requests of routers that share the file of their --router-key. Callers name the router: rpc call --server 192.0.2.9:7500.")]
    Route(Box<RpcRouteCommand>),
}

#[derive(Args, Debug)]
pub(crate) struct RpcRouteCommand {
    /// Address at which calls arrive
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:7500", value_parser = socket_address)]
    pub(crate) udp: SocketAddr,
    /// File of the secret that routers and replicas of the service share; it is made if there is none
    #[arg(long, value_name = "FILE")]
    pub(crate) router_key: PathBuf,
    /// Replica, at an address where callers reach it, too; may be given more than once
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address, required = true)]
    pub(crate) server: Vec<SocketAddr>,
    /// How a replica is picked
    #[arg(long, value_enum, default_value_t = Selection::Bounded)]
    pub(crate) select: Selection,
    /// Most calls at a replica with the selection bounded
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) bound: u16,
    /// Tells callers where to go in place of passing calls on, for those whom answers of strangers do not reach
    #[arg(long)]
    pub(crate) redirect: bool,
    /// Ends when the standard input does
    #[arg(long)]
    pub(crate) end_with_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Selection {
    /// Any
    Random,
    /// One after the other
    RoundRobin,
    /// The one with the fewest calls
    Shortest,
    /// The same, while others wait at the router
    Bounded,
    /// The better of two that are drawn
    Two,
    /// Of three that are drawn the one that said last that it is the least busy
    Probed,
}

#[derive(Args, Debug)]
pub(crate) struct RpcCallCommand {
    /// Name of the service
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Folder of the identity that calls; without one the caller is nobody in particular
    #[arg(long = "data", value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Request, @FILE for that of a file, @- for the standard input
    #[arg(short = 'd', long = "body", value_name = "BODY", default_value = "")]
    pub(crate) body: String,
    /// Says that carrying the call out twice does no harm: it needs no round trip before
    #[arg(long)]
    pub(crate) idempotent: bool,
    /// Replica or router to call, IP:PORT or the URL of a replica, in place of the replica that issues the ticket
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<RpcAddress>,
    /// File of the secret of the service: calls --server without a mesh, as nobody in particular
    #[arg(long, value_name = "FILE", requires = "server", conflicts_with_all = ["join", "folder", "owner", "unowned"])]
    pub(crate) pre_shared_key: Option<PathBuf>,
    /// Calls in a session of the mesh, whose keys nobody has afterwards, although the service issues tickets
    #[arg(long, conflicts_with = "server")]
    pub(crate) forward_secret: bool,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

#[derive(Args, Debug)]
pub(crate) struct RpcServeCommand {
    /// Name of the service
    #[arg(value_parser = name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) member: Member,
    /// URL at which the node listens for other nodes; may be given more than once; without any it is a leaf
    #[arg(long, value_name = "URL")]
    pub(crate) node_listen: Vec<String>,
    /// Server of this machine that carries calls out: each is a POST, and its answer is that of the call
    #[arg(long, value_name = "URL")]
    pub(crate) to: http::Uri,
    /// Address at which calls arrive
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:7400", value_parser = socket_address)]
    pub(crate) udp: SocketAddr,
    /// Address at which calls over HTTP and WebSocket arrive, of callers or of a proxy that speaks TLS
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    pub(crate) http: Option<SocketAddr>,
    /// Where callers reach --udp or --http, IP:PORT or a URL, if that is elsewhere; may be given up to four times, the preferred one first
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) call_address: Vec<RpcAddress>,
    /// File of the secret that the replicas of the service share; it is made if there is none. Without it they tell it each other, if the
    /// name has an owner
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_key: Option<PathBuf>,
    /// File of the secret that replicas and callers share: runs a replica without a node, for callers without a mesh; it is made if there
    /// is none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ticket_key", "join", "owner", "unowned", "node_listen"])]
    pub(crate) pre_shared_key: Option<PathBuf>,
    /// Gives out no tickets: each call travels in a session of the mesh, whose keys nobody has afterwards
    #[arg(long, conflicts_with_all = ["ticket_key", "pre_shared_key", "router_key", "udp", "http", "call_address", "threads"])]
    pub(crate) in_session: bool,
    /// File of the secret that routers and replicas share, if there are routers; it is made if there is none
    #[arg(long, value_name = "FILE")]
    pub(crate) router_key: Option<PathBuf>,
    /// How long tickets are good
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) ticket_life: Span,
    /// Says that carrying a call out twice does no harm: callers need no round trip before their first one
    #[arg(long)]
    pub(crate) idempotent: bool,
    /// Threads, each with a socket of its own
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) threads: usize,
}

fn name(text: &str) -> Result<String, &'static str> {
    let wrong = "a name has 1 to 63 characters out of a-z, 0-9, '-' and '.'";
    is_name(text).then(|| text.to_owned()).ok_or(wrong)
}
