use core::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use selfsame_host::{NodeKey, Quotas, ZoneNameServer};

use super::{Span, socket_address};

#[derive(Debug, Subcommand)]
pub(crate) enum AuthorityCommand {
    /// Makes the secret of a new authority and prints the full name of its network; an old one is never replaced
    #[command(after_help = "Example:\n  selfsame authority new --network twiitr --key ./authority.key")]
    New(AuthorityArguments),
    /// Shows the full name of the network, NAME@KEY, which is given as --network wherever a network is named
    #[command(after_help = "Example:\n  selfsame authority show --network twiitr --key ./authority.key")]
    Show(AuthorityArguments),
    /// Signs a certificate, with which a node may be in the network
    #[command(
        after_help = "Example:\n  selfsame authority sign --network twiitr --node NODE-KEY --address node.example:443 > node.certificate"
    )]
    Sign(AuthoritySign),
    /// Shuts nodes out: signs the list of all keys whose certificates from before count no more, with those that it was told earlier
    #[command(
        after_help = "Example:\n  selfsame authority revoke --network twiitr --node NODE-KEY > revocations"
    )]
    Revoke(AuthorityRevoke),
    /// Keeps the certificates in the DNS, in a zone file or by updates (RFC 2136) that are signed with TSIG
    #[command(subcommand)]
    Dns(DnsCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DnsCommand {
    /// Makes the zone of a domain that is the network's own, and prints its file for the name server
    #[command(
        after_help = "Example:\n  selfsame authority dns init --network twiitr --domain ring.example --ns ns.ring.example=192.0.2.53 > ring.example.zone"
    )]
    Init(DnsInit),
    /// Signs a certificate as `authority sign`, and puts it into the zone: prints its line, or sends an update
    #[command(
        after_help = "Example:\n  selfsame authority dns sign --network twiitr --node NODE-KEY --address node.example:443 >> ring.example.zone

--name-server 192.0.2.53:53 --tsig-key tsig.key sends an update in place of the line."
    )]
    Sign {
        #[command(flatten)]
        sign: AuthoritySign,
        #[command(flatten)]
        server: DnsServer,
    },
    /// Shuts nodes out as `authority revoke`, prints the list, and takes their records out of the zone by an update
    #[command(
        after_help = "Example:\n  selfsame authority dns revoke --network twiitr --node NODE-KEY > revocations

--name-server 192.0.2.53:53 --tsig-key tsig.key takes the records out; else write the zone file again: `selfsame authority dns zone`."
    )]
    Revoke {
        #[command(flatten)]
        revoke: AuthorityRevoke,
        #[command(flatten)]
        server: DnsServer,
    },
    /// Prints the file of the whole zone, with all certificates that count
    #[command(after_help = "Example:\n  selfsame authority dns zone --network twiitr > ring.example.zone")]
    Zone(AuthorityArguments),
}

#[derive(Args, Debug)]
pub(crate) struct AuthorityArguments {
    /// File of the authority's secret; what it has signed is kept beside it, in FILE.signed
    #[arg(long, value_name = "FILE", default_value = "authority.key")]
    pub(crate) key: PathBuf,
    /// Name of the network
    #[arg(long, value_name = "NAME")]
    pub(crate) network: String,
}

#[derive(Args, Debug)]
pub(crate) struct AuthoritySign {
    #[command(flatten)]
    pub(crate) authority: AuthorityArguments,
    /// Key of the node, which `selfsame id key` shows
    #[arg(long, value_name = "NODE-KEY")]
    pub(crate) node: NodeKey,
    /// Where others reach it, with the host that its URLs have; without one it may only be a leaf
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// How long, at most 32d
    #[arg(long, value_name = "TIME", default_value = "1d")]
    pub(crate) expires: Span,
    /// From where a leaf asked, whose network counts it
    #[arg(long, value_name = "IP", conflicts_with = "address")]
    pub(crate) seen_at: Option<IpAddr>,
    /// Most certificates that count at once for one network of addresses, an IPv4 /24 or an IPv6 /48
    #[arg(long, value_name = "N", default_value_t = Quotas::default().per_prefix)]
    pub(crate) most_per_prefix: usize,
    /// Most for the hosts below one domain that a registry has sold, such as example.co.uk
    #[arg(long, value_name = "N", default_value_t = Quotas::default().per_domain)]
    pub(crate) most_per_domain: usize,
    /// Most for leaves without --seen-at
    #[arg(long, value_name = "N", default_value_t = Quotas::default().leaves)]
    pub(crate) most_leaves: usize,
}

impl AuthoritySign {
    pub(crate) fn quotas(&self) -> Quotas {
        Quotas {
            per_prefix: self.most_per_prefix,
            per_domain: self.most_per_domain,
            leaves: self.most_leaves,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct AuthorityRevoke {
    #[command(flatten)]
    pub(crate) authority: AuthorityArguments,
    /// Key of a node; may be given up to 256 times
    #[arg(long, value_name = "NODE-KEY")]
    pub(crate) node: Vec<NodeKey>,
}

#[derive(Args, Debug)]
pub(crate) struct DnsInit {
    #[command(flatten)]
    pub(crate) authority: AuthorityArguments,
    /// Domain that is the network's own, and nothing else's
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: String,
    /// Name server that is responsible for it, the primary first; with its addresses if its name is in the domain
    #[arg(long, value_name = "NAME[=IP,...]", required = true, value_parser = name_server)]
    pub(crate) ns: Vec<ZoneNameServer>,
    /// Mailbox of who looks after the zone; hostmaster@DOMAIN unless given
    #[arg(long, value_name = "NAME@DOMAIN")]
    pub(crate) mail: Option<String>,
    #[command(flatten)]
    pub(crate) server: DnsServer,
}

/// Where updates go
#[derive(Args, Debug)]
pub(crate) struct DnsServer {
    /// Primary name server of the zone, which takes updates
    #[arg(long, value_name = "IP:PORT", requires = "tsig_key", value_parser = socket_address)]
    pub(crate) name_server: Option<SocketAddr>,
    /// File with the key of the name server for updates, as `tsig-keygen -a hmac-sha256` writes it
    #[arg(long, value_name = "FILE", requires = "name_server")]
    pub(crate) tsig_key: Option<PathBuf>,
}

fn name_server(text: &str) -> Result<ZoneNameServer, &'static str> {
    let (name, addresses) = text.split_once('=').unwrap_or((text, ""));
    let addresses = addresses.split(',').filter(|address| !address.is_empty());
    let addresses: Result<Vec<IpAddr>, _> = addresses.map(str::parse).collect();
    Ok(ZoneNameServer {
        name: name.trim_end_matches('.').to_ascii_lowercase(),
        addresses: addresses.map_err(|_| "write NAME, or NAME=IP with the addresses of the name server")?,
    })
}
