use core::time::Duration;

use futures_util::future::try_join_all;
use selfsame_host::{Code, Event, Node, PeerId, Revocations};
use tokio::time::{Instant, timeout};

use crate::Outcome;
use crate::network::{Network, REVOKED};
use crate::process::write_revocations;
use crate::report::{Report, Times};
use crate::ring::{ANCHOR, Ring, STORED, address, call};

/// How soon connected peers have to refuse.
const LIMIT: Duration = Duration::from_secs(1);
/// When waiting for a refusal is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The member that forgets what it knows.
const FORGETFUL: u16 = 4;

/// Revokes a member of a network of so many, and checks that it is refused.
pub(crate) async fn run(peers: u16, is_limited: bool, report: &mut Report) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let network = Network::found(folder.path())?;
    let older = network.revoke(&[])?;
    let began = Instant::now();
    let mut ring = Ring::start(&network, peers).await?;
    ring.connect_all(peers).await?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{peers} members have sessions with the one to be revoked after {seconds:.1} s");

    for number in STORED {
        ring.nodes[usize::from(number)].clone().stop().await;
    }
    ring.asleep.signal("-STOP")?;
    let times = refusals(&network, &mut ring, peers).await?;
    let limit = if is_limited { LIMIT } else { PATIENCE };
    let verdict = if times.slowest() <= limit { Ok } else { Err };
    report.check("connected peers refuse", verdict(times.text()));

    ring.nodes[usize::from(REVOKED)].clone().stop().await;
    check_handshakes(&network, &ring, report).await?;
    check_sleeper(&network, &ring, peers, report).await?;
    check_restarted(&network, &mut ring, report).await?;
    check_older(&network, &ring, &older, report).await?;
    for node in ring.nodes {
        node.stop().await;
    }
    drop((ring.told, ring.asleep));
    check_alone(&network, report).await?;
    check_cut_off(&network, report).await
}

/// Revokes the member by the process that is told, and takes the time until each connected peer has parted with it.
async fn refusals(network: &Network, ring: &mut Ring, peers: u16) -> Outcome<Times> {
    let revoked = ring.nodes[usize::from(REVOKED)].id();
    let gone = [REVOKED, STORED[0], STORED[1]];
    let connected = (0..)
        .zip(&ring.nodes)
        .filter(|(number, _)| !gone.contains(number));
    let parting: Vec<_> = connected.map(|(_, node)| parting(node, revoked)).collect();
    let list = network.revoke(&[REVOKED])?;
    write_revocations(&network.folder(peers - 2), &list.to_string())?;
    let began = Instant::now();
    ring.told.signal("-HUP")?;
    let revoked = revoked.to_string();
    let told = ring.told.event("disconnected", Some(&revoked));
    let all = async { tokio::try_join!(try_join_all(parting), told) };
    let (mut ends, (told, _)) = timeout(PATIENCE, all).await??;
    ends.push(told);
    Ok(Times::new(ends.into_iter().map(|end| end - began).collect()))
}

/// Waits from now on, also before it is polled, until a node has no session with a peer.
fn parting(node: &Node, peer: PeerId) -> impl Future<Output = Outcome<Instant>> + use<> {
    let mut events = node.events();
    let task = tokio::spawn(async move {
        loop {
            if events.recv().await? == Event::PeerDisconnected(peer) {
                return Ok(Instant::now());
            }
        }
    });
    async move { task.await? }
}

async fn check_handshakes(network: &Network, ring: &Ring, report: &mut Report) -> Outcome<()> {
    let mut asked = vec![ring.addresses[0].clone()];
    for (number, node) in (0..).zip(&ring.nodes) {
        if number != REVOKED && !STORED.contains(&number) {
            asked.push(address(node)?);
        }
    }
    let mut lenient = Vec::new();
    for address in &asked {
        if !network.is_refused_by(address).await? {
            lenient.push(address.as_str());
        }
    }
    let text = format!("{} of {}", asked.len() - lenient.len(), asked.len());
    let verdict = if lenient.is_empty() {
        Ok(text)
    } else {
        Err(format!("{text}; not {}", lenient.join(", ")))
    };
    report.check("members answer its handshake with a refusal", verdict);
    Ok(())
}

async fn check_sleeper(network: &Network, ring: &Ring, peers: u16, report: &mut Report) -> Outcome<()> {
    ring.asleep.signal("-CONT")?;
    call(&ring.nodes[usize::from(ANCHOR)], peers - 1).await?;
    check(
        network,
        "a member that was out of reach, after its first exchange",
        &ring.addresses[1],
        report,
    )
    .await
}

async fn check_restarted(network: &Network, ring: &mut Ring, report: &mut Report) -> Outcome<()> {
    let through = address(&ring.nodes[usize::from(ANCHOR)])?;
    for number in STORED {
        let stored = network.member(number)?.storage(network.folder(number));
        let node = stored.bootstrap([&through]).start().await?;
        check(network, "a member that was not running", &address(&node)?, report).await?;
        ring.nodes[usize::from(number)] = node;
    }
    ring.nodes[usize::from(FORGETFUL)].clone().stop().await;
    let forgetful = network.member(FORGETFUL)?.bootstrap([&through]).start().await?;
    check(
        network,
        "a member that has lost the list",
        &address(&forgetful)?,
        report,
    )
    .await?;
    ring.nodes[usize::from(FORGETFUL)] = forgetful;
    Ok(())
}

async fn check_older(
    network: &Network,
    ring: &Ring,
    older: &Revocations,
    report: &mut Report,
) -> Outcome<()> {
    let anchor = &ring.nodes[usize::from(ANCHOR)];
    let taken = anchor.revoke(older).await;
    let code = taken.err().and_then(|error| error.code());
    let is_refused = code == Some(Code::StaleRevocations);
    let verdict = if is_refused { Ok } else { Err };
    report.check("an older list", verdict(format!("{code:?}")));
    check(
        network,
        "the member that was given the older list",
        &address(anchor)?,
        report,
    )
    .await
}

/// A member with the list on its disk refuses when there is nobody else.
async fn check_alone(network: &Network, report: &mut Report) -> Outcome<()> {
    let number = STORED[0];
    let node = network
        .member(number)?
        .storage(network.folder(number))
        .start()
        .await?;
    check(
        network,
        "a restarted member without others",
        &address(&node)?,
        report,
    )
    .await?;
    node.stop().await;
    Ok(())
}

/// A member that knows no list and has only met the revoked one parts with it when it meets somebody who knows.
async fn check_cut_off(network: &Network, report: &mut Report) -> Outcome<()> {
    let [knowing, cut_off] = STORED;
    let cut_off = network.member(cut_off)?.start().await?;
    let through = address(&cut_off)?;
    let revoked = network.member(REVOKED)?.bootstrap([&through]).start().await?;
    let parted = parting(&cut_off, revoked.id());
    let knowing = network
        .member(knowing)?
        .storage(network.folder(knowing))
        .bootstrap([&through]);
    let knowing = knowing.start().await?;
    timeout(PATIENCE, parted).await??;
    revoked.stop().await;
    check(network, "a member that was cut off with it", &through, report).await?;
    knowing.stop().await;
    cut_off.stop().await;
    Ok(())
}

async fn check(network: &Network, who: &str, at: &str, report: &mut Report) -> Outcome<()> {
    let is_refused = network.is_refused_by(at).await?;
    report.check(
        who,
        if is_refused {
            Ok("refuses".into())
        } else {
            Err("lets it in".into())
        },
    );
    Ok(())
}
