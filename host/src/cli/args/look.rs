use std::path::PathBuf;

use clap::Args;

use super::{Span, Timeout};

/// Which running node of this machine is meant
#[derive(Args, Clone, Debug)]
pub(crate) struct Running {
    /// Folder of a node that runs on this machine
    #[arg(
        long = "data",
        value_name = "DIR",
        default_value = "selfsame-data",
        env = "SELFSAME_DATA"
    )]
    pub(crate) folder: PathBuf,
    /// Address that a node was given with --metrics, such as http://127.0.0.1:9464; it stands over --data
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<http::Uri>,
}

#[derive(Args, Debug)]
pub(crate) struct RingCommand {
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorCommand {
    #[command(flatten)]
    pub(crate) running: Running,
    /// Name of the network, where no node runs that says it
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Node to join through, as URL#PEER-ID, where no node runs that says it; may be given more than once
    #[arg(long, value_name = "URL#PEER-ID")]
    pub(crate) join: Vec<String>,
    /// URL that the node is to listen on, where none runs yet; may be given more than once
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Vec<String>,
    /// URL at which others are to dial the node, where none runs yet; may be given more than once
    #[arg(long, value_name = "URL")]
    pub(crate) address: Vec<String>,
    /// The node is to dial private and loopback addresses that other nodes name, where none runs yet
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// The node is to accept a --join without a peer id, and whoever answers there
    #[arg(long)]
    pub(crate) trust_on_first_use: bool,
    /// Longest time for each thing that is tried
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) timeout: Span,
}
