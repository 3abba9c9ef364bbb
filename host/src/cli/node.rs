//! The command that runs a node.

use alloc::sync::Arc;
use core::time::Duration;
use std::path::Path;

use selfsame_host::admission::{DnsCertificates, NameServers, Resolver};
use selfsame_host::{
    Builder, Certificate, Certified, Code, Error, Event, IDENTITY_FILE, Node, NodeKey, PeerId, Seed,
    ServeOptions, Telemetry, json,
};
use serde_json::json as value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::args::{Forward, Member, Network, NodeCommand};
use super::control::Control;
use super::keys::{read_grant, read_grants, read_signed};
use super::output::{Failure, Output};
use super::proxy::Exposed;
use super::signals::{Reloads, interrupted, interrupted_again};

/// Time for the neighbours to take over when the node is interrupted.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(4);
/// How often a node that waits for its ring looks whether it is in.
const LOOK: Duration = Duration::from_millis(250);

/// Settings that all commands of a network share.
pub(crate) fn builder(network: &Network) -> Result<Builder, Failure> {
    let mut builder = Node::builder(&network.network)
        .bootstrap(network.join.iter().cloned())
        .allow_private(network.allow_private)
        .trust_on_first_use(network.trust_on_first_use);
    if let Some(path) = &network.certificate {
        builder = builder.certificate(read_signed(path)?);
    }
    Ok(match (network.owner, network.unowned) {
        (Some(owner), _) => builder.owner(owner),
        (None, true) => builder.unowned(),
        (None, false) => builder,
    })
}

pub(crate) async fn run(command: NodeCommand, output: Output) -> Result<(), Failure> {
    let NodeCommand {
        member,
        listen,
        serve,
    } = command;
    host(&member, listen, &serve, async |_| Ok(()), output).await
}

/// What runs beside a node
pub(crate) trait Beside {
    /// Lets what is under way finish, for at most so long.
    async fn drain(&self, longest: Duration);
}

impl Beside for () {
    async fn drain(&self, _longest: Duration) {}
}

/// Runs a node with services until it is interrupted. `begin` starts what runs beside it, which ends before the node
/// leaves.
pub(crate) async fn host<T: Beside>(
    member: &Member,
    listen: Vec<String>,
    forwards: &[Forward],
    begin: impl AsyncFnOnce(&Node) -> Result<T, Failure>,
    output: Output,
) -> Result<(), Failure> {
    let telemetry = follower(member);
    let dns = Membership::of(member).await?;
    let mut builder = settings(member, listen)?.observer(telemetry.clone());
    if let Some(dns) = &dns {
        builder = builder
            .certificate(dns.certificate.clone())
            .confirm_newcomers(dns.source.clone());
    }
    let interrupted = interrupted(member.end_with_input)?;
    let mut reloads = Reloads::new()?;
    let what = format!("joining {}", member.network.network);
    let node = output.progress(&what, builder.start()).await?;
    let events = node.events();
    let mut beside = None;
    let work = async {
        // Whoever is told that the node has started may ask it.
        let control = Control::open(&node, member, &telemetry).await?;
        announce(&node, output)?;
        control.announce(output)?;
        beside = Some(begin(&node).await?);
        if let Some(path) = &member.revocations {
            begin_with(&node, path).await?;
        }
        joined(&node, output).await?;
        for forward in forwards {
            serve(&node, forward, output).await?;
        }
        watch(&node, member, &mut reloads, events, output).await
    };
    let ended = tokio::select! {
        ended = work => ended,
        () = keep_certified(&node, dns) => Ok(()),
        () = interrupted => Ok(()),
    };
    match ended {
        // A node whose output is closed is interrupted by that.
        Ok(()) | Err(Failure::OutputClosed) => {
            let again = interrupted_again()?;
            tell_end(member.drain.0, output);
            let ending = async {
                drain(&node, beside.as_ref(), member.drain.0, output).await;
                // A collector in the mesh is out of reach afterwards.
                telemetry.flush().await;
                let left = leave(node, output).await;
                telemetry.close().await;
                left
            };
            tokio::select! {
                left = ending => left,
                () = again => {
                    _ = output.print("stopped without a farewell", &value!({ "event": "stopped" }));
                    Err(Failure::interrupted())
                }
            }
        }
        failed => failed,
    }
}

/// Takes the list of revocations in a file, unless the node knows a newer one by now.
async fn begin_with(node: &Node, revocations: &Path) -> Result<(), Failure> {
    match node.revoke(&read_signed(revocations)?).await {
        Err(error) if error.code() == Some(Code::StaleRevocations) => {
            let path = revocations.display();
            tracing::warn!(%path, "this list of revocations is older than the one in force, which stays");
            Ok(())
        }
        taken => Ok(taken?),
    }
}

/// The certificate that a node has found in the DNS, and where it finds the next
struct Membership {
    key: NodeKey,
    source: DnsCertificates,
    certificate: Certificate,
    certified: Certified,
}

impl Membership {
    /// Looks for the certificate of the identity in the folder, if that is wanted.
    async fn of(member: &Member) -> Result<Option<Self>, Failure> {
        let Some(source) = certificates_in_dns(member)? else {
            return Ok(None);
        };
        let (network, folder) = (&member.network.network, &member.data.folder);
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))?;
        let key = Seed::load_or_create(&folder.join(IDENTITY_FILE))?.node_key(network)?;
        let (certificate, certified) = source.newest(network, &key).await?;
        Ok(Some(Self {
            key,
            source,
            certificate,
            certified,
        }))
    }
}

/// Where a node finds certificates in the DNS, if that is wanted.
pub(crate) fn certificates_in_dns(member: &Member) -> Result<Option<DnsCertificates>, Failure> {
    let Some(domain) = &member.dns else {
        return Ok(None);
    };
    let servers = match &member.dns_over_https {
        Some(url) => NameServers::https(url),
        None if member.name_server.is_empty() => NameServers::system(),
        None => NameServers::at(member.name_server.iter().copied()),
    };
    let resolver = servers.and_then(Resolver::new).map_err(Error::from)?;
    Ok(Some(DnsCertificates::new(resolver, domain)))
}

/// Renews a certificate that was found in the DNS, and never ends.
async fn keep_certified(node: &Node, dns: Option<Membership>) {
    if let Some(dns) = dns {
        dns.source.keep(node, &dns.key, dns.certified).await;
    }
    core::future::pending().await
}

/// What counts the node's requests, and tells of them where that is wanted.
fn follower(member: &Member) -> Arc<Telemetry> {
    let mut telemetry = Telemetry::new();
    if let Some(collector) = &member.otlp {
        telemetry = telemetry.endpoint(collector);
    }
    if let Some(share) = member.sample {
        telemetry = telemetry.sample(share);
    }
    Arc::new(telemetry)
}

fn settings(member: &Member, listen: Vec<String>) -> Result<Builder, Failure> {
    let mut builder = builder(&member.network)?
        .storage(&member.data.folder)
        .domain(&member.domain)
        .take_over(member.take_over)
        .trusted_proxies(member.trusted_proxy.iter().cloned())
        .keep_trying(true);
    for url in listen {
        builder = builder.listen(url);
    }
    for url in &member.address {
        builder = builder.address(url);
    }
    for grant in read_grants(&member.grant, &member.network.network, &member.data.folder)? {
        builder = builder.grant(grant);
    }
    Ok(builder)
}

async fn serve(node: &Node, forward: &Forward, output: Output) -> Result<(), Failure> {
    let Forward {
        name,
        to,
        version,
        weight,
        allow,
    } = forward;
    let mut options = ServeOptions::new();
    if let Some(version) = version {
        options = options.version(version);
    }
    if let Some(weight) = weight {
        options = options.weight(*weight);
    }
    if !allow.is_empty() {
        options = options.allow(allow.iter().copied());
    }
    let exposed = Exposed::new(name, to.clone());
    node.serve_with(name, &options, exposed).await?;
    output.print(
        format_args!("serving {name} from {to}"),
        &value!({ "event": "serving", "name": name, "from": to.as_str() }),
    )
}

fn announce(node: &Node, output: Output) -> Result<(), Failure> {
    let listening: Vec<_> = node.listening().iter().map(ToString::to_string).collect();
    let value = value!({
        "event": "started",
        "id": node.id().to_string(),
        "network": node.network(),
        "listening": listening,
        "addresses": node.addresses(),
    });
    let place = if node.addresses().is_empty() {
        "a leaf".into()
    } else {
        node.addresses().join(" ")
    };
    output.print(
        format_args!("node {} of {}: {place}", node.id(), node.network()),
        &value,
    )
}

/// Waits until the node is in the ring.
async fn joined(node: &Node, output: Output) -> Result<(), Failure> {
    let wait = async {
        loop {
            match node.status().await {
                Ok(status) if status.joined => return Ok(status),
                Ok(_) | Err(Error::Poisoned(_)) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error),
            }
        }
    };
    let status = output
        .progress("no bootstrap answers yet, trying again", wait)
        .await?;
    output.print(
        "joined",
        &value!({ "event": "joined", "status": json::status(&status) }),
    )
}

/// Tells what happens until the node ends.
async fn watch(
    node: &Node,
    member: &Member,
    reloads: &mut Reloads,
    mut events: Receiver<Event>,
    output: Output,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => tell(node, event, output).await?,
                // Events that were missed are told by the next status.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            },
            () = reloads.next() => reload(node, member, output).await?,
        }
    }
}

async fn tell(node: &Node, event: Event, output: Output) -> Result<(), Failure> {
    match event {
        Event::PeerConnected(peer) => {
            let value = value!({ "event": "connected", "peer": peer.to_string() });
            output.print(format_args!("connected to {peer}"), &value)
        }
        Event::PeerDisconnected(peer) => {
            let value = value!({ "event": "disconnected", "peer": peer.to_string() });
            output.print(format_args!("disconnected from {peer}"), &value)
        }
        Event::RingChanged => ring(node, output).await,
        Event::Published(name) => {
            let value = value!({ "event": "published", "name": name });
            output.print(format_args!("published {name}"), &value)
        }
        Event::DuplicateIdentity { peer, addresses } => {
            let [one, other] = addresses.map(|addresses| addresses.join(" "));
            let value = value!({ "event": "duplicate", "peer": peer.to_string(), "at": [one, other] });
            let line = format_args!("two nodes run with the identity {peer}: at {one} and at {other}");
            output.print(line, &value)
        }
        Event::Convicted { evidence } => {
            let evidence: String = evidence.iter().map(|byte| format!("{byte:02x}")).collect();
            let value = value!({ "event": "convicted", "evidence": evidence });
            output.print(
                format_args!("convicted a peer that contradicted itself: {evidence}"),
                &value,
            )
        }
        Event::Restarted(error) => {
            let value = value!({ "event": "restarted", "error": error.to_string() });
            output.print(&error, &value)
        }
        Event::Unstable { traps, error } => {
            let value = value!({ "event": "unstable", "traps": traps, "error": error.to_string() });
            let line =
                format_args!("the core failed {traps} times within ten minutes, the last time so: {error}");
            output.print(line, &value)
        }
        Event::Ended(code) => Err(Error::from_code(code).into()),
        // A newer library tells more.
        _ => Ok(()),
    }
}

/// Uses the grants, the certificate and the list of revocations that stand in the files now. One that cannot be used leaves the old one
/// in force.
async fn reload(node: &Node, member: &Member, output: Output) -> Result<(), Failure> {
    if let Some(path) = &member.network.certificate {
        let renew = async || Ok::<_, Failure>(node.renew_certificate(&read_signed(path)?).await?);
        tell_reloaded(path, "certificate", renew().await, output)?;
    }
    if let Some(path) = &member.revocations {
        let revoke = async || Ok::<_, Failure>(node.revoke(&read_signed(path)?).await?);
        tell_reloaded(path, "revocations", revoke().await, output)?;
    }
    for path in &member.grant {
        let renewed = match read_grant(path, node.network(), &member.data.folder) {
            Ok(grant) => node.renew(grant).await.map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        tell_reloaded(path, "grant", renewed, output)?;
    }
    Ok(())
}

fn tell_reloaded(
    path: &Path,
    what: &str,
    reloaded: Result<(), Failure>,
    output: Output,
) -> Result<(), Failure> {
    let path = path.display();
    match reloaded {
        Ok(()) => output.print(
            format_args!("read {path} again"),
            &value!({ "event": "renewed", what: path.to_string() }),
        ),
        Err(failure) => {
            tracing::error!(%path, %failure, what, "not renewed");
            Ok(())
        }
    }
}

async fn ring(node: &Node, output: Output) -> Result<(), Failure> {
    let status = match node.status().await {
        Ok(status) => status,
        Err(Error::Poisoned(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let successors: Vec<_> = status
        .successors
        .iter()
        .map(|node| PeerId(node.id).to_string()[..8].to_owned())
        .collect();
    let text = format!("ring: {} successors {}", successors.len(), successors.join(" "));
    output.print(
        text.trim_end(),
        &value!({ "event": "ring", "status": json::status(&status) }),
    )
}

/// Tells at once why a node that was interrupted goes on.
fn tell_end(longest: Duration, output: Output) {
    let text = format_args!(
        "finishing requests that are under way, for {longest:?} at most; interrupt again to end at once"
    );
    let value = value!({ "event": "ending", "longest_ms": longest.as_millis() as u64 });
    // It ends also where nobody hears of it any more.
    _ = output.print(text, &value);
}

/// Lets the requests that are under way finish, for at most so long.
async fn drain(node: &Node, beside: Option<&impl Beside>, longest: Duration, output: Output) {
    let programs = async {
        if let Some(beside) = beside {
            beside.drain(longest).await;
        }
    };
    let both = async { tokio::join!(node.drain(longest), programs) };
    let (has_finished, ()) = output.progress("finishing what is under way", both).await;
    if !has_finished {
        tracing::warn!("requests were given up: they took longer than --drain");
    }
}

/// Leaves the ring, tells so, and ends the node.
async fn leave(node: Node, output: Output) -> Result<(), Failure> {
    let told = match output
        .progress("leaving", timeout(LEAVE_TIMEOUT, node.depart()))
        .await
    {
        Ok(Ok(())) => output.print("left", &value!({ "event": "left" })),
        Ok(Err(error)) => {
            let value = value!({ "event": "stopped", "error": error.to_string() });
            output.print(format_args!("stopped without a farewell: {error}"), &value)
        }
        Err(_) => output.print("stopped without a farewell", &value!({ "event": "stopped" })),
    };
    node.stop().await;
    told
}
