//! The command that runs many nodes in one process, each with its own identity, core, driver and sockets.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use selfsame_host::Node;
use serde_json::{Value, json as value};
use tokio::time::{Instant, timeout};

use super::args::{JoinOrder, NodesCommand};
use super::output::{Failure, Output};
use super::signals::interrupted;

/// Nodes that are ended at a time.
const ENDED_AT_ONCE: usize = 64;
/// How long the ring may take until all know their neighbours.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) async fn run(command: NodesCommand, output: Output) -> Result<(), Failure> {
    allow_many_files();
    let interrupted = interrupted(command.end_with_input)?;
    tokio::select! {
        done = measure(&command, output) => done,
        () = interrupted => Ok(()),
    }
}

async fn measure(command: &NodesCommand, output: Output) -> Result<(), Failure> {
    let orders: &[JoinOrder] = match command.order {
        Some(JoinOrder::Sequential) => &[JoinOrder::Sequential],
        Some(JoinOrder::Parallel) => &[JoinOrder::Parallel],
        None => &[JoinOrder::Sequential, JoinOrder::Parallel],
    };
    let mut last = None;
    for order in orders {
        if let Some(ring) = last.take() {
            end(ring).await;
        }
        let mut ring = output
            .progress("starting the bootstraps", Ring::start(command))
            .await?;
        let times = output.progress("joining", ring.join(command, *order)).await?;
        times.print(name(*order), command, output)?;
        ring.settle(output).await?;
        last = Some(ring);
    }
    let Some(ring) = last else {
        return Ok(());
    };
    if command.leave {
        let [joins, leaves] = output
            .progress("joining and leaving", ring.blink(command))
            .await?;
        joins.print("join before leaving", command, output)?;
        leaves.print("leave", command, output)?;
    }
    if command.keep {
        ring.announce(output)?;
        core::future::pending::<()>().await;
    }
    end(ring).await;
    Ok(())
}

/// Bootstraps, and the nodes that joined through them
struct Ring {
    bootstraps: Vec<Node>,
    nodes: Vec<Node>,
}

impl Ring {
    async fn start(command: &NodesCommand) -> Result<Self, Failure> {
        let mut bootstraps: Vec<Node> = Vec::new();
        for index in 0..command.bootstraps {
            let via = bootstraps.first().map(address).transpose()?;
            bootstraps.push(start(command, index, via.as_ref()).await?);
        }
        Ok(Self {
            bootstraps,
            nodes: Vec::new(),
        })
    }

    /// Lets all nodes join through the bootstraps in turn.
    async fn join(&mut self, command: &NodesCommand, order: JoinOrder) -> Result<Times, Failure> {
        let at_once = match order {
            JoinOrder::Sequential => 1,
            JoinOrder::Parallel => command.at_once,
        };
        let vias = self.vias()?;
        let began = Instant::now();
        let joins = (0..command.count).map(|index| {
            join_in_task(
                command.clone(),
                command.bootstraps + index,
                beginning_with(&vias, index),
            )
        });
        let joined: Vec<(Node, Duration)> = stream::iter(joins)
            .buffer_unordered(usize::from(at_once))
            .try_collect()
            .await?;
        let total = began.elapsed();
        let (nodes, each) = joined.into_iter().unzip();
        self.nodes = nodes;
        Ok(Times::new(total, each))
    }

    fn vias(&self) -> Result<Vec<String>, Failure> {
        self.bootstraps.iter().map(address).collect()
    }

    /// Waits until every node names the next one as its successor, and tells how long that took.
    async fn settle(&self, output: Output) -> Result<(), Failure> {
        let began = Instant::now();
        let settled = timeout(SETTLE_TIMEOUT, async {
            while self.unsettled().await? > 0 {
                tokio::time::sleep(LOOK).await;
            }
            Ok::<_, Failure>(())
        });
        let what = "waiting until all know their neighbours";
        if let Ok(done) = output.progress(what, settled).await {
            done?;
            let seconds = began.elapsed().as_secs_f64();
            return output.print(
                format_args!("every node knows its successor {seconds:.2} s later"),
                &value!({ "event": "settled", "seconds": seconds }),
            );
        }
        let left = self.unsettled().await?;
        Err(Failure::other(format!(
            "{left} nodes do not know their successor after {} s",
            SETTLE_TIMEOUT.as_secs()
        )))
    }

    /// How many nodes do not name the next one as their successor.
    async fn unsettled(&self) -> Result<usize, Failure> {
        let by_id: BTreeMap<[u8; 32], &Node> = self.all().map(|node| (node.id().0, node)).collect();
        let ids: Vec<[u8; 32]> = by_id.keys().copied().collect();
        let mut wrong = 0;
        for (at, node) in by_id.values().enumerate() {
            let next = ids[(at + 1) % ids.len()];
            let successor = node.status().await?.successors.first().map(|node| node.id);
            wrong += usize::from(ids.len() > 1 && successor != Some(next));
        }
        Ok(wrong)
    }

    fn all(&self) -> impl Iterator<Item = &Node> {
        self.bootstraps.iter().chain(&self.nodes)
    }

    /// Lets as many nodes again join and leave, one after the other; how long both took.
    async fn blink(&self, command: &NodesCommand) -> Result<[Times; 2], Failure> {
        let vias = self.vias()?;
        let (mut joins, mut leaves) = (Vec::new(), Vec::new());
        // Each takes the port of the one before it.
        let place = command.bootstraps + command.count;
        for index in 0..command.count {
            let (node, joined) = join_in_task(command.clone(), place, beginning_with(&vias, index)).await?;
            joins.push(joined);
            let began = Instant::now();
            node.leave().await?;
            leaves.push(began.elapsed());
        }
        Ok([joins, leaves].map(|each| Times::new(each.iter().sum(), each)))
    }

    fn announce(&self, output: Output) -> Result<(), Failure> {
        let vias = self.vias()?;
        let lines: Vec<String> = vias.iter().map(|via| format!("  --join {via}")).collect();
        output.print(
            format_args!("the ring runs until it is interrupted:\n{}", lines.join("\n")),
            &value!({ "event": "kept", "bootstraps": vias }),
        )
    }
}

fn name(order: JoinOrder) -> &'static str {
    match order {
        JoinOrder::Sequential => "join in sequence",
        JoinOrder::Parallel => "join in parallel",
    }
}

/// Where others join through a node.
fn address(node: &Node) -> Result<String, Failure> {
    let url = node.addresses().first();
    let url = url.ok_or_else(|| Failure::usage("--listen has to name an address that can be dialled"))?;
    Ok(format!("{url}#{}", node.id()))
}

/// The bootstraps in the order in which the node of this number tries them.
fn beginning_with(vias: &[String], index: u16) -> Vec<String> {
    let mut vias = vias.to_vec();
    let first = usize::from(index) % vias.len().max(1);
    vias.rotate_left(first);
    vias
}

/// Lets a node join through the first of these that answers, and tells how long that took.
async fn join_in_task(
    command: NodesCommand,
    index: u16,
    vias: Vec<String>,
) -> Result<(Node, Duration), Failure> {
    // In a task of its own, so that all processors have work.
    let joined = tokio::spawn(async move {
        let began = Instant::now();
        let mut last = None;
        for via in &vias {
            match start(&command, index, Some(via)).await {
                Ok(node) => return Ok((node, began.elapsed())),
                Err(failure) if failure.is_unanswered() => last = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::usage("--bootstraps: there has to be one")))
    });
    joined
        .await
        .map_err(|error| Failure::other(format!("a node broke: {error}")))?
}

async fn start(command: &NodesCommand, index: u16, via: Option<&String>) -> Result<Node, Failure> {
    let listen = command.listen.further(index);
    let listen = listen.ok_or_else(|| Failure::usage("--listen: there are not so many ports after it"))?;
    let builder = Node::builder(&command.network)
        .in_memory()
        .listen(listen)
        .bootstrap(via.cloned())
        .allow_private(true)
        .unowned();
    Ok(builder.start().await?)
}

/// Ends all nodes without a farewell: nobody is left who would want one.
async fn end(ring: Ring) {
    let nodes = ring.bootstraps.into_iter().chain(ring.nodes);
    stream::iter(nodes.map(Node::stop))
        .for_each_concurrent(ENDED_AT_ONCE, |stopped| stopped)
        .await;
}

/// How long something took that was done many times
struct Times {
    total: Duration,
    /// In rising order.
    each: Vec<Duration>,
}

impl Times {
    fn new(total: Duration, mut each: Vec<Duration>) -> Self {
        each.sort_unstable();
        Self { total, each }
    }

    /// What this share of all was faster than.
    fn quantile(&self, hundredths: usize) -> Duration {
        let last = self.each.len().saturating_sub(1);
        let at = last * hundredths / 100;
        self.each.get(at).copied().unwrap_or_default()
    }

    fn print(&self, what: &str, command: &NodesCommand, output: Output) -> Result<(), Failure> {
        let count = self.each.len();
        let each = self.total.checked_div(u32::try_from(count).unwrap_or(u32::MAX));
        let each = each.unwrap_or_default();
        let columns: [(&str, Duration); 4] = [
            ("each", each),
            ("median", self.quantile(50)),
            ("95 %", self.quantile(95)),
            ("slowest", self.quantile(100)),
        ];
        let text = columns.map(|(name, time)| format!("{name} {}", Milliseconds(time)));
        let json = value!({
            "event": "times",
            "what": what,
            "nodes": count,
            "bootstraps": command.bootstraps,
            "total_ms": in_ms(self.total),
            "each_ms": in_ms(each),
            "median_ms": in_ms(self.quantile(50)),
            "p95_ms": in_ms(self.quantile(95)),
            "slowest_ms": in_ms(self.quantile(100)),
        });
        let total = self.total.as_secs_f64();
        output.print(
            format_args!(
                "{what:>20} {count:>5} nodes {total:>8.3} s   {}",
                text.join("   ")
            ),
            &json,
        )
    }
}

fn in_ms(time: Duration) -> Value {
    value!(time.as_secs_f64() * 1000.0)
}

/// A short time, for people
struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ms", self.0.as_secs_f64() * 1000.0)
    }
}

/// Lets the process have as many sockets as its user may: a node has one that listens and one for each session.
fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}
