//! Ticket keys that the replicas of a service share over the mesh.

use alloc::sync::{Arc, Weak};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use getrandom::u32 as random_u32;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use selfsame_codec::{Code, Malformed};
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::key_chain::{KeyChain, KeyOffer, MAX_OFFER_BYTES, MAX_PERIOD_S};
use super::keys::TicketKeys;
use crate::body::Body;
use crate::error::Error;
use crate::id::{Owner, PeerId};
use crate::keys::{Seed, milliseconds};
use crate::lock::lock;
use crate::node::Node;
use crate::options::FetchOptions;
use crate::task::Task;

/// Where the replicas of a service ask each other for ticket keys (RFC 8615).
pub const KEYS_PATH: &str = "/.well-known/selfsame-rpc/keys";
/// Tickets are good for an hour unless a server says otherwise, and no key may be erased before those that it has issued.
const ROTATION: Duration = Duration::from_secs(3600);
/// How long until replicas are asked again, at first and later.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Replicas that a newcomer asks at a time.
const MAX_ASKED: usize = 8;
/// How long what the ring says of a service's providers is believed, so that strangers who ask for keys cost it little.
const PROVIDERS: Duration = Duration::from_secs(1);

/// Ticket keys that the replicas of a service share over the mesh: the first replica draws a secret, others ask for it in sessions, and
/// all rotate by the clock. Cheap to clone; the last one that is dropped ends it.
#[derive(Clone, Debug)]
pub struct SharedTicketKeys {
    sharing: Arc<Sharing>,
    _tasks: Arc<[Task; 2]>,
}

struct Sharing {
    node: Node,
    service: String,
    owner: Owner,
    /// Of the chains that it begins itself, in seconds.
    own_period_s: u32,
    held: Mutex<Held>,
    secrets: watch::Sender<Zeroizing<Vec<u8>>>,
    providers: tokio::sync::Mutex<Option<(Instant, HashSet<PeerId>)>>,
}

/// The chain that is used, and its keys.
struct Held {
    chain: KeyChain,
    keys: TicketKeys,
    rotations: u64,
}

impl Held {
    /// Begins a chain.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    fn begin(series: u64, period_s: u32, now_ms: u64) -> Result<Self, Error> {
        Ok(Self {
            chain: KeyChain::begin(series, period_s, now_ms)?,
            keys: TicketKeys::new(Seed::generate()?),
            rotations: 0,
        })
    }

    /// Whether to use an offer: of another chain that is preferred, or of the same one whose secrets were rotated too early.
    fn wants(&self, offer: &KeyOffer, now_ms: u64) -> bool {
        if offer.chain == self.chain {
            return self.chain.is_ahead(self.rotations, now_ms);
        }
        offer.chain.is_preferred_to(&self.chain)
    }

    /// Rotates as often as is due; whether anything has changed. After the clock has leapt another chain takes its place: rotations are for
    /// good, and the other replicas may not have made them.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    fn follow_clock(&mut self, period_s: u32, now_ms: u64) -> Result<bool, Error> {
        if self.chain.is_lost(self.rotations, now_ms) {
            *self = Self::begin(self.chain.series, period_s, now_ms)?;
            return Ok(true);
        }
        let before = self.rotations;
        while self.rotations < self.chain.rotations(now_ms) {
            self.keys.rotate();
            self.rotations += 1;
        }
        Ok(self.rotations > before)
    }
}

impl SharedTicketKeys {
    /// Shares the ticket keys of a service of this node, whose name has an owner: grants say who is a replica. Keys rotate each hour, or
    /// as the oldest replica, or the latest to renew, says.
    ///
    /// # Errors
    /// [`Error::Input`] when the name is nobody's, or it is not known whose; [`Error::Io`] when the system has no random bytes.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(node: &Node, service: &str) -> Result<Self, Error> {
        Self::rotating(node, service, ROTATION)
    }

    /// The same with another time between two rotations, in seconds, which is no less than tickets live.
    ///
    /// # Errors
    /// As [`Self::start`], and [`Error::Input`] for less than a second or more than 30 days.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn rotating(node: &Node, service: &str, period: Duration) -> Result<Self, Error> {
        let owner = node.owner_of(service)?;
        if owner == Owner::Unowned {
            return Err(Error::Input(format!(
                "{service} is a name of nobody, of which anybody may be a replica: its replicas need a ticket key of their own"
            )));
        }
        let period_s = u32::try_from(period.as_secs()).unwrap_or(u32::MAX);
        if !(1..=MAX_PERIOD_S).contains(&period_s) {
            return Err(Error::Input("ticket keys rotate after 1 s to 30 days".into()));
        }
        let held = Held::begin(0, period_s, now_ms())?;
        let sharing = Arc::new(Sharing {
            node: node.clone(),
            service: service.into(),
            owner,
            own_period_s: period_s,
            secrets: watch::Sender::new(held.keys.encode()),
            held: Mutex::new(held),
            providers: tokio::sync::Mutex::default(),
        });
        let asking = Task::spawn(Sharing::ask_on(Arc::downgrade(&sharing)));
        let changed = sharing.secrets.subscribe();
        let rotating = Task::spawn(Sharing::rotate_on(Arc::downgrade(&sharing), changed));
        Ok(Self {
            sharing,
            _tasks: Arc::new([asking, rotating]),
        })
    }

    /// Draws another secret, which the other replicas have within some minutes: tickets that are out open nothing any more, and who has known the keys
    /// learns nothing of later ones unless the owner's grant still makes a replica of them.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    pub fn renew(&self) -> Result<(), Error> {
        let sharing = &self.sharing;
        // The period is its own: that of the chain may be the choice of whoever is to be shut out.
        let mut next = Held::begin(0, sharing.own_period_s, now_ms())?;
        let mut held = lock(&sharing.held);
        next.chain.series = held.chain.series.saturating_add(1);
        sharing.replace(&mut held, next);
        Ok(())
    }

    /// Returns the time between two rotations.
    pub(super) fn rotation(&self) -> Duration {
        Duration::from_secs(u64::from(lock(&self.sharing.held).chain.period_s))
    }

    /// Returns the secrets, and tells them when they change.
    pub(super) fn secrets(&self) -> watch::Receiver<Zeroizing<Vec<u8>>> {
        self.sharing.secrets.subscribe()
    }

    /// Answers another replica of the service, whom a session of the mesh has proven; others get 403.
    pub(super) async fn answer(&self, method: &Method, caller: PeerId) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        if *method != Method::POST {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            return response;
        }
        let replicas = self.sharing.replicas().await;
        if replicas.is_ok_and(|replicas| replicas.contains(&caller)) {
            *response.body_mut() = Body::from(self.sharing.offer().encode());
        } else {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    }
}

impl Sharing {
    /// Returns who serves the name by its owner's grant, as the ring says.
    async fn replicas(&self) -> Result<HashSet<PeerId>, Error> {
        let mut known = self.providers.lock().await;
        if let Some((until, peers)) = &*known
            && *until > Instant::now()
        {
            return Ok(peers.clone());
        }
        let found = self.node.find_of(self.owner, &self.service).await;
        // A failure is remembered, too: strangers may ask again and again.
        let peers: HashSet<PeerId> = found.as_ref().map_or_else(
            |_| HashSet::new(),
            |found| found.iter().map(|one| PeerId(one.peer)).collect(),
        );
        *known = Some((Instant::now() + PROVIDERS, peers.clone()));
        found.map(|_| peers)
    }

    fn offer(&self) -> KeyOffer {
        let held = lock(&self.held);
        let (secret, is_previous) = held.keys.oldest();
        KeyOffer {
            chain: held.chain.clone(),
            rotations: held.rotations - u64::from(is_previous),
            secret: secret.clone(),
        }
    }

    fn replace(&self, held: &mut Held, next: Held) {
        self.secrets.send_replace(next.keys.encode());
        *held = next;
    }

    /// Asks other replicas: all until all have answered and the ring knows this one, then one at a time.
    async fn ask_on(this: Weak<Self>) {
        let mut pause = Duration::ZERO;
        loop {
            tokio::time::sleep(pause).await;
            let Some(sharing) = this.upgrade() else { return };
            let is_settled = pause >= LONGEST_PAUSE;
            let asked = sharing.ask(is_settled).await;
            if let Err(error) = &asked {
                tracing::info!(%error, service = sharing.service, "the ticket keys were not compared");
            }
            pause = match asked {
                Ok(true) => LONGEST_PAUSE,
                Ok(false) | Err(_) => (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            };
        }
    }

    /// Asks one replica, or several; whether the ring knows this one.
    async fn ask(&self, is_settled: bool) -> Result<bool, Error> {
        let replicas = self.replicas().await?;
        let own = self.node.id();
        let mut others: Vec<PeerId> = replicas.iter().copied().filter(|peer| *peer != own).collect();
        others.sort_unstable();
        let first = random_u32().unwrap_or_default() as usize % others.len().max(1);
        others.rotate_left(first);
        others.truncate(if is_settled { 1 } else { MAX_ASKED });
        let asked = others.into_iter().map(|peer| self.ask_peer(peer));
        for outcome in futures_util::future::join_all(asked).await {
            outcome?;
        }
        Ok(replicas.contains(&own))
    }

    async fn ask_peer(&self, peer: PeerId) -> Result<(), Error> {
        let url = format!("https://{}.mesh{KEYS_PATH}", self.service);
        let mut request = Request::post(url)
            .body(Body::empty())
            .map_err(|error| Error::Input(error.to_string()))?;
        let options = FetchOptions::new().owner(self.owner).peer(peer);
        request
            .extensions_mut()
            .insert(options.retry(false).timeout(ANSWER_TIMEOUT));
        let response = self.node.fetch(request).await?;
        if response.status() != StatusCode::OK {
            let text = format!(
                "{peer} answers {} to a request for ticket keys",
                response.status()
            );
            return Err(Error::core(Code::NotGranted.as_u16(), &text));
        }
        let body = Limited::new(response.into_body(), MAX_OFFER_BYTES).collect();
        let body = tokio::time::timeout(ANSWER_TIMEOUT, body).await;
        let body = body.map_err(|_| Error::from_code(Code::TimedOut))?;
        let bytes = Zeroizing::new(body.map_err(Error::Body)?.to_bytes().to_vec());
        let offer = KeyOffer::decode(&bytes).map_err(|Malformed| Error::from_code(Code::BadMessage))?;
        // Locked until it is replaced: what another task begins meanwhile may be preferred to the offer.
        let mut held = lock(&self.held);
        if !held.wants(&offer, now_ms()) {
            return Ok(());
        }
        let (keys, rotations) = offer.keys(now_ms())?;
        let chain = offer.chain;
        self.replace(
            &mut held,
            Held {
                chain,
                keys,
                rotations,
            },
        );
        Ok(())
    }

    /// Rotates when it is time.
    async fn rotate_on(this: Weak<Self>, mut changed: watch::Receiver<Zeroizing<Vec<u8>>>) {
        loop {
            let Some(sharing) = this.upgrade() else { return };
            let rest = sharing.rotate_if_due();
            drop(sharing);
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                told = changed.changed() => if told.is_err() { return },
            }
        }
    }

    /// Rotates as often as is due; how long until the next time.
    fn rotate_if_due(&self) -> Duration {
        let mut held = lock(&self.held);
        let (id, now_ms) = (held.chain.id, now_ms());
        match held.follow_clock(self.own_period_s, now_ms) {
            Ok(true) => _ = self.secrets.send_replace(held.keys.encode()),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, service = self.service, "the ticket keys are not of the time")
            }
        }
        if held.chain.id != id {
            tracing::warn!(
                service = self.service,
                "the clock has leapt: another secret takes the place of the ticket keys"
            );
        }
        let next_ms = held.chain.rotates_at_ms(held.rotations + 1);
        // The clock may leap meanwhile.
        let rest_ms = next_ms.saturating_sub(now_ms).clamp(1, held.chain.period_ms());
        Duration::from_millis(rest_ms)
    }
}

impl core::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sharing")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

fn now_ms() -> u64 {
    milliseconds(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const NOW_MS: u64 = 500_000 * HOUR_MS;
    const TEN_YEARS_MS: u64 = 10 * 365 * 24 * HOUR_MS;

    fn held() -> Held {
        Held::begin(3, 3600, NOW_MS).expect("a chain")
    }

    fn offer(held: &Held) -> KeyOffer {
        KeyOffer {
            chain: held.chain.clone(),
            rotations: 0,
            secret: held.keys.oldest().0.clone(),
        }
    }

    #[test]
    fn keys_rotate_as_often_as_is_due_and_begin_anew_when_the_clock_leaps() {
        let mut held = held();
        let first = held.chain.clone();
        for hours in 0..=16 {
            let is_changed = held.follow_clock(3600, NOW_MS + hours * HOUR_MS).expect("keys");
            assert_eq!((is_changed, held.rotations), (hours > 0, hours));
        }
        assert_eq!(held.chain, first);
        for now_ms in [NOW_MS + TEN_YEARS_MS, NOW_MS] {
            assert!(held.follow_clock(60, now_ms).expect("keys"));
            assert_ne!(held.chain.id, first.id);
            let KeyChain {
                series,
                born_ms,
                period_s,
                ..
            } = held.chain;
            assert_eq!((series, born_ms, period_s, held.rotations), (3, now_ms, 60, 0));
        }
        assert!(held.follow_clock(60, NOW_MS).is_ok_and(|is_changed| !is_changed));
    }

    #[test]
    fn clock_that_begins_in_1970_makes_no_rotations_of_half_a_century() {
        let mut held = Held::begin(0, 1, 0).expect("a chain");
        assert!(held.follow_clock(1, NOW_MS).expect("keys"));
        assert_eq!((held.chain.born_ms, held.rotations), (NOW_MS, 0));
    }

    #[test]
    fn chain_is_taken_again_from_others_after_rotations_that_were_too_early() {
        let mut leaping = held();
        let of_the_time = offer(&leaping);
        assert!(!leaping.wants(&of_the_time, NOW_MS), "it has it");
        leaping.follow_clock(3600, NOW_MS + 5 * HOUR_MS).expect("keys");
        assert!(!leaping.wants(&of_the_time, NOW_MS + 5 * HOUR_MS));
        assert!(leaping.wants(&of_the_time, NOW_MS));
        assert!(of_the_time.keys(NOW_MS).is_ok());
        let renewed = Held::begin(4, 3600, NOW_MS).expect("a chain");
        assert!(!renewed.wants(&of_the_time, 0), "it was renewed");
    }
}
