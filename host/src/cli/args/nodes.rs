use core::str::FromStr;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Debug)]
pub(crate) struct NodesCommand {
    /// Name of the network
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
    /// Nodes that join
    #[arg(long, value_name = "NUMBER", default_value = "500", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) count: u16,
    /// Nodes that are there before, through which the others join in turn
    #[arg(long, value_name = "NUMBER", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) bootstraps: u16,
    /// Whether one joins after the other or many at once; without it both are tried
    #[arg(long, value_name = "ORDER")]
    pub(crate) order: Option<JoinOrder>,
    /// How many join at once
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) at_once: u16,
    /// URL that the first node listens on, ws://, tcp:// or udp://; the others take the ports after it, and any when it is 0
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:0")]
    pub(crate) listen: FirstUrl,
    /// Lets as many nodes again join and leave one after the other, and tells how long that took
    #[arg(long)]
    pub(crate) leave: bool,
    /// Runs the nodes until the command is interrupted
    #[arg(long)]
    pub(crate) keep: bool,
    /// Ends when the standard input does, so that the nodes do not outlive the program that started them
    #[arg(long)]
    pub(crate) end_with_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JoinOrder {
    /// One after the other
    Sequential,
    /// Many at once
    Parallel,
}

/// A URL with a port, and those like it with the ports that follow
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstUrl {
    /// Up to the port.
    start: String,
    port: u16,
}

impl FirstUrl {
    /// The URL so many places further; one whose port is any is the same everywhere.
    pub(crate) fn further(&self, places: u16) -> Option<String> {
        let port = match self.port {
            0 => 0,
            first => first.checked_add(places)?,
        };
        Some(format!("{}{port}", self.start))
    }
}

impl FromStr for FirstUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "it is a URL with a port and without a path, such as ws://127.0.0.1:7000";
        let (start, port) = text.rsplit_once(':').ok_or(wrong)?;
        Ok(Self {
            start: format!("{start}:"),
            port: port.parse().map_err(|_| wrong)?,
        })
    }
}
