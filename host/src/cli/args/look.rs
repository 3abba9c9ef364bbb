use std::path::PathBuf;

use clap::{Arg, Args};

use super::{NodeCommand, Span, Timeout};

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
#[command(mut_arg("network", optional))]
pub(crate) struct DoctorCommand {
    #[command(flatten)]
    pub(crate) node: NodeCommand,
    /// Address that a running node was given with --metrics, such as http://127.0.0.1:9464; it stands over --data
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<http::Uri>,
    /// Longest time for each thing that is tried
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) timeout: Span,
}

impl DoctorCommand {
    /// The running node that is meant, if one runs.
    pub(crate) fn running(&self) -> Running {
        Running {
            folder: self.node.member.data.folder.clone(),
            url: self.url.clone(),
        }
    }
}

/// A node that runs says its network itself.
fn optional(network: Arg) -> Arg {
    network
        .required(false)
        .default_value("")
        .hide_default_value(true)
        .help("Name of the network, where no node runs that says it")
}
