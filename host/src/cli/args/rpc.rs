use core::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Member, Network, Span, Timeout, is_name, socket_address};

#[derive(Debug, Subcommand)]
pub(crate) enum RpcCommand {
    /// Calls a service once, and prints the answer
    #[command(after_help = "Examples:
  selfsame rpc call echo --network twiitr --join wss://node.example#ID --unowned -d ping
  date | selfsame rpc call echo --network twiitr --join wss://node.example#ID --unowned --idempotent -d @-")]
    Call(Box<RpcCallCommand>),
    /// Runs a node and a replica of a service, which passes calls on to a server of this machine
    #[command(after_help = "Example:
  selfsame rpc serve echo --to http://127.0.0.1:8080/rpc --udp 0.0.0.0:7400 --udp-address 192.0.2.1:7400 --ticket-key echo.key --network twiitr --join wss://node.example#ID --unowned

Replicas of one service share the file of --ticket-key: copy it to each of them.")]
    Serve(Box<RpcServeCommand>),
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
    /// Replica to call, in place of the one that issues the ticket
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    pub(crate) server: Option<SocketAddr>,
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
    /// Address at which callers reach --udp, if that is another one
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    pub(crate) udp_address: Option<SocketAddr>,
    /// File of the secret that the replicas of the service share; it is made if there is none
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_key: PathBuf,
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
