use core::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use selfsame_host::WRITE_BUFFER;
use selfsame_host::capsule::{CapsuleKey, CapsuleName, CapsuleServer, ReaderKey, RecordName};

use super::{Data, Network, Timeout, socket_address};

#[derive(Debug, Subcommand)]
pub(crate) enum CapsuleCommand {
    /// Makes a capsule whose owner is the key in a file, which is made if there is none
    #[command(after_help = "Example:
  selfsame capsule create --server https://one.example/#KEY --server https://two.example/#KEY --description 'a diary' --sealed")]
    Create(CreateCommand),

    /// Writes records, signs the last of them, and prints their names once more than half of the servers have them
    #[command(after_help = "Examples:
  selfsame capsule append NAME note.txt --server https://one.example/#KEY
  date | selfsame capsule append NAME - --server https://one.example/#KEY
  selfsame capsule append NAME --lines log.txt --server https://one.example/#KEY")]
    Append(AppendCommand),

    /// Reads records, each verified back to a signature, and prints what they hold
    #[command(after_help = "Examples:
  selfsame capsule read NAME RECORD --server https://one.example/#KEY
  selfsame --json capsule read NAME RECORD RECORD --server https://one.example/#KEY")]
    Read(ReadCommand),

    /// Makes a file that proves a record to whoever has nothing else
    #[command(
        after_help = "Example:\n  selfsame capsule prove NAME RECORD --output record.proof --server https://one.example/#KEY"
    )]
    Prove(ProveCommand),

    /// Verifies an export file or a proof file; nobody is asked
    #[command(after_help = "Examples:
  selfsame capsule verify diary.capsule
  selfsame capsule verify record.proof

It ends with exit code 0 when all of the file is what its writers signed, and with 1 when something is wrong with it.")]
    Verify(VerifyCommand),

    /// Asks the servers which records are the newest
    #[command(after_help = "Example:\n  selfsame capsule heads NAME --server https://one.example/#KEY")]
    Heads(HeadsCommand),

    /// Shows records from the newest on back, each verified
    #[command(after_help = "Examples:
  selfsame capsule log NAME --server https://one.example/#KEY
  selfsame --json capsule log NAME --from RECORD --most 100 --server https://one.example/#KEY")]
    Log(LogCommand),

    /// Lets the servers of a capsule come to hold the same, and keeps a replica of it in the folder
    #[command(after_help = "Example:
  selfsame capsule sync NAME --server https://one.example/#KEY --server https://two.example/#KEY --data ./copy")]
    Sync(SyncCommand),

    /// Writes a whole capsule, as one server has it, into a file that anybody verifies without asking anybody
    #[command(after_help = "Example:
  selfsame capsule export NAME --output diary.capsule --server https://one.example/#KEY")]
    Export(ExportCommand),

    /// Stores the capsule in a file at each of the servers, as far as the file is right
    #[command(after_help = "Example:
  selfsame capsule import diary.capsule --server https://one.example/ --server https://two.example/")]
    Import(ImportCommand),

    /// Changes who writes and reads, which only the owner can, and prints the names of the epoch records that say so; without a
    /// change shows who may write
    #[command(after_help = "Examples:
  selfsame capsule govern NAME --server https://one.example/#KEY
  selfsame capsule govern NAME --add KEY --reader READER --server https://one.example/#KEY
  selfsame capsule govern NAME --revoke KEY --accept RECORD --reader READER --server https://one.example/#KEY

Keys are those that `selfsame capsule key` shows. Readers are named for sealed capsules, which `selfsame capsule create --sealed` makes; \
everybody reads others. A new epoch has a key of its own: whoever is to read what is written in it \
has to be named with --reader, but for the owner. So a reader leaves with --new-epoch and --reader for each who stays.")]
    Govern(GovernCommand),

    /// Shows the public keys of a key file, which is made if there is none: owners name writers and readers by them
    #[command(after_help = "Example:\n  selfsame capsule key --key ./writer.key")]
    Key(KeyFile),

    /// Runs a replica that stores capsules and answers by HTTP, until it is interrupted
    #[command(after_help = "Examples:
  selfsame capsule serve --listen 127.0.0.1:7300 --data ./capsules --replica https://other.example/
  selfsame capsule serve --listen 127.0.0.1:7300 --data ./capsules --owner KEY

Without --owner it stores whatever anybody gives it, which is for those who pay for everybody's records.")]
    Serve(ServeCommand),
}

/// The secret of an owner, a writer or a reader
#[derive(Args, Clone, Debug)]
pub(crate) struct KeyFile {
    /// File of the secret with which is written and read
    #[arg(long, value_name = "FILE", default_value = "capsule.key")]
    pub(crate) key: PathBuf,
}

/// Where a capsule is
#[derive(Args, Clone, Debug)]
pub(crate) struct Servers {
    /// Server, as URL#KEY, or URL alone to count whoever answers there; may be given up to 32 times
    #[arg(long, value_name = "URL#KEY")]
    pub(crate) server: Vec<CapsuleServer>,
    /// Name of the network in which servers are found by the capsule's name
    #[arg(long, value_name = "NAME", requires = "join")]
    pub(crate) network: Option<String>,
    /// Node to join through, as URL#PEER-ID; may be given more than once
    #[arg(long, value_name = "URL#PEER-ID", requires = "network")]
    pub(crate) join: Vec<String>,
    /// Dials private and loopback addresses that other nodes name
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Accepts a --join without a peer id, and whoever answers there
    #[arg(long)]
    pub(crate) trust_on_first_use: bool,
    #[command(flatten)]
    pub(crate) timeout: Timeout,
}

impl Servers {
    /// The network in which servers are found, if one is named.
    pub(crate) fn network(&self) -> Option<Network> {
        Some(Network {
            network: self.network.clone()?,
            join: self.join.clone(),
            allow_private: self.allow_private,
            trust_on_first_use: self.trust_on_first_use,
            owner: None,
            unowned: true,
            certificate: None,
        })
    }
}

/// Which capsule, where it is, and who asks
#[derive(Args, Clone, Debug)]
pub(crate) struct Opened {
    /// Name of the capsule
    pub(crate) name: CapsuleName,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Args, Debug)]
pub(crate) struct CreateCommand {
    /// What people call it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
    /// Lets only those read it whom the owner grants the key to
    #[arg(long)]
    pub(crate) sealed: bool,
    /// Hash function that gives names
    #[arg(long, value_name = "NAME", default_value = "blake3")]
    pub(crate) hash: Hash,
    /// Public key of somebody else who may write from the beginning; may be given up to 16 times
    #[arg(long, value_name = "KEY")]
    pub(crate) writer: Vec<CapsuleKey>,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hash {
    Blake3,
    Sha256,
}

#[derive(Args, Debug)]
pub(crate) struct AppendCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
    /// File, each of which becomes a record; - is the standard input, which is read if there is none
    pub(crate) file: Vec<PathBuf>,
    /// Makes a record of each line
    #[arg(long, conflicts_with = "together")]
    pub(crate) lines: bool,
    /// Makes one record, of which each file is a sub-record
    #[arg(long)]
    pub(crate) together: bool,
    /// Goes on after this record in place of this writer's last one
    #[arg(long, value_name = "RECORD")]
    pub(crate) after: Option<RecordName>,
    /// Head of another branch that is merged; may be given up to 31 times
    #[arg(long, value_name = "RECORD")]
    pub(crate) merge: Vec<RecordName>,
}

#[derive(Args, Debug)]
pub(crate) struct ReadCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
    /// Name of a record, 64 hexadecimal digits
    #[arg(required = true)]
    pub(crate) record: Vec<RecordName>,
}

#[derive(Args, Debug)]
pub(crate) struct ProveCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
    /// Name of the record, 64 hexadecimal digits
    pub(crate) record: RecordName,
    /// File to write, which must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Leaves the body out
    #[arg(long)]
    pub(crate) header_only: bool,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyCommand {
    /// The file; - is the standard input
    pub(crate) file: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct HeadsCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
}

#[derive(Args, Debug)]
pub(crate) struct LogCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
    /// Record to begin at, in place of the newest ones; may be given more than once
    #[arg(long, value_name = "RECORD")]
    pub(crate) from: Vec<RecordName>,
    /// Most records that are shown
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) most: u32,
}

#[derive(Args, Debug)]
pub(crate) struct GovernCommand {
    #[command(flatten)]
    pub(crate) capsule: Opened,
    /// Public key of somebody who may write from now on; may be given up to 64 times
    #[arg(long, value_name = "KEY")]
    pub(crate) add: Vec<CapsuleKey>,
    /// Public key of a writer whose signatures count no more, not even those it has made; begins a new epoch; may be given up to
    /// 64 times
    #[arg(long, value_name = "KEY")]
    pub(crate) revoke: Vec<CapsuleKey>,
    /// Record of a writer who is revoked that still counts, with all that it leads to; may be given up to 30 times
    #[arg(long, value_name = "RECORD", requires = "revoke")]
    pub(crate) accept: Vec<RecordName>,
    /// Reader's key of somebody who gets the key of the epoch; may be given more than once
    #[arg(long, value_name = "READER")]
    pub(crate) reader: Vec<ReaderKey>,
    /// Begins a new epoch, with another key, though nobody is revoked
    #[arg(long)]
    pub(crate) new_epoch: bool,
}

impl GovernCommand {
    /// Whether it says that anything is to change.
    pub(crate) fn is_change(&self) -> bool {
        self.new_epoch || !(self.add.is_empty() && self.revoke.is_empty() && self.reader.is_empty())
    }
}

#[derive(Args, Debug)]
pub(crate) struct ServeCommand {
    /// Address to answer at; 127.0.0.1 lets only this machine in
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7300", value_parser = socket_address)]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) data: Data,
    /// Public key of somebody whose capsules it takes, as `selfsame capsule key` shows it; everybody's unless given; may be
    /// given more than once
    #[arg(long, value_name = "KEY")]
    pub(crate) owner: Vec<CapsuleKey>,
    /// URL of another replica, with which this one comes to hold the same; may be given more than once
    #[arg(long, value_name = "URL")]
    pub(crate) replica: Vec<String>,
    /// Name of a capsule that is fetched from the other replicas if it is not here; may be given more than once
    #[arg(long, value_name = "NAME", requires = "replica")]
    pub(crate) keep: Vec<CapsuleName>,
    /// Address or prefix of a proxy in front of this replica, such as 10.0.0.0/8, whose header forwarded or x-forwarded-for says
    /// where a request comes from; may be given more than once
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<String>,
    /// Memory for what was stored lately, in MiB; twice as much while that is written in order. With more, a busy replica takes less
    /// of the processor's time, and longer to start after a crash
    #[arg(long, value_name = "MIB", default_value_t = (WRITE_BUFFER >> 20) as u32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) write_buffer: u32,
    /// Ends when the standard input does, so that the replica does not outlive the program that started it
    #[arg(long)]
    pub(crate) end_with_input: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SyncCommand {
    /// Name of the capsule
    pub(crate) name: CapsuleName,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Args, Debug)]
pub(crate) struct ExportCommand {
    /// Name of the capsule
    pub(crate) name: CapsuleName,
    /// File to write, which must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) servers: Servers,
}

#[derive(Args, Debug)]
pub(crate) struct ImportCommand {
    /// The file
    pub(crate) file: PathBuf,
    /// Server, by its URL; may be given more than once
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) server: Vec<String>,
}
