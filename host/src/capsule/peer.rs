//! Those who are asked: servers of a client, and the other replicas of a replica.

use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use selfsame_codec::Code;
use tokio::time::timeout;

use super::{CapsuleName, request};
use crate::error::{BoxError, Error, root_cause};
use crate::id::{CapsuleKey, Owner, PeerId};
use crate::keys::random_bytes;
use crate::node::Node;
use crate::options::FetchOptions;
use crate::transport::{Connector, PostClient, post_client};

/// What requests and responses are to HTTP.
pub(crate) const CAPSULE_TYPE: &str = "application/vnd.selfsame.capsule";
/// Where a request holds the name of its capsule.
pub(crate) const NAME_AT: usize = 1;
/// Longest response of a replica: what a request may give, and what its last operation adds.
pub(crate) const MAX_RESPONSE: usize = 12 << 20;
/// How long an answer may take: a replica reads megabytes of records for one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

type Ask = dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, Error>> + Send + Sync;

/// A replica that can be asked; cheap to clone
#[derive(Clone)]
pub struct Peer {
    id: [u8; 32],
    /// The key that it has to sign with.
    key: Option<CapsuleKey>,
    /// Where it answers, for people.
    place: Arc<str>,
    ask: Arc<Ask>,
}

impl Peer {
    /// A replica that is asked so: `ask` is given a request of `docs/specification/capsules.md` and gives the response. `id` is
    /// whatever it is known by here, always the same for the same one.
    pub fn new<F>(id: [u8; 32], ask: impl Fn(Bytes) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Bytes, Error>> + Send + 'static,
    {
        Self {
            id,
            key: None,
            place: PeerId(id).to_string().into(),
            ask: Arc::new(move |message| Box::pin(ask(message))),
        }
    }

    /// The replica that answers at a URL, over HTTP. Keep it: by its id others remember how far they have come with it.
    ///
    /// # Errors
    /// [`Error::Input`] for what is no URL of HTTP.
    pub fn at(url: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Input(format!(
                "\"{url}\" is no URL of a replica such as https://capsules.example/"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong());
        }
        // Whoever names a replica means it, wherever it is.
        let client = post_client(Connector::new(true, &[])?);
        let place = uri.to_string().into();
        let peer = Self::new(random_bytes()?, move |message| {
            post(client.clone(), uri.clone(), message)
        });
        Ok(Self { place, ..peer })
    }

    /// A node of the mesh, which serves each of its capsules under the capsule's name.
    #[must_use]
    pub fn in_mesh(node: &Node, peer: PeerId) -> Self {
        let node = node.clone();
        Self::new(peer.0, move |message| call(node.clone(), peer, message))
    }

    /// The same replica, known by the key that it signs with.
    #[must_use]
    pub(crate) fn known_by(&self, key: CapsuleKey) -> Self {
        Self {
            id: key.0,
            key: Some(key),
            ..self.clone()
        }
    }

    /// What it is known by here.
    #[must_use]
    pub fn id(&self) -> [u8; 32] {
        self.id
    }

    /// Where it answers, for people.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Sends a request of `docs/specification/capsules.md`; the response.
    ///
    /// # Errors
    /// [`Error`] when it does not answer in half a minute, or not with a response.
    pub async fn ask(&self, message: Bytes) -> Result<Bytes, Error> {
        let answer = timeout(ANSWER_TIMEOUT, (self.ask)(message)).await;
        answer.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peer").field(&PeerId(self.id)).finish()
    }
}

/// A server of a capsule for those who write and read it: where it answers, and the key that it signs with
///
/// As text it is `URL#KEY`. Without the key the server is asked for it. Nothing is believed of it, but whoever answers there then
/// counts for a server.
#[derive(Clone, Debug)]
pub struct CapsuleServer {
    pub(crate) key: Option<CapsuleKey>,
    pub(crate) peer: Peer,
}

impl CapsuleServer {
    /// The server with this key.
    #[must_use]
    pub fn new(key: CapsuleKey, peer: Peer) -> Self {
        Self { key: Some(key), peer }
    }

    /// Where it answers.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// A server whose key is asked for.
    #[must_use]
    pub fn unknown(peer: Peer) -> Self {
        Self { key: None, peer }
    }
}

impl FromStr for CapsuleServer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (url, key) = match text.split_once('#') {
            Some((url, key)) => (url, Some(key.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            key,
            peer: Peer::at(url)?,
        })
    }
}

/// Those whom an engine may ask, by their ids; clones share them
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Arc<Mutex<HashMap<[u8; 32], Held>>>);

/// One of them, and how many hold it
#[derive(Debug)]
struct Held {
    peer: Peer,
    holders: usize,
    /// Whether it is asked and has not answered yet.
    is_asked: bool,
    /// Why it did not answer the last time it was asked, or why it refused.
    failure: Option<String>,
    /// Another key than its own that it has signed with.
    wrong_key: Option<CapsuleKey>,
}

impl Held {
    /// Why it is of no use, as far as that is known.
    fn lack(&self) -> Option<String> {
        let keys = self.wrong_key.zip(self.peer.key);
        let text = keys.map(|(wrong, key)| {
            format!("it signs with the key {wrong}, not with {key}: compare what stands behind #")
        });
        text.or_else(|| self.failure.clone())
    }

    fn lack_until_it_answers(&self) -> Option<String> {
        let waits = self.is_asked.then(|| "it has not answered yet".to_owned());
        self.lack().or(waits)
    }
}

/// One of those whom an engine may ask: it is forgotten with the last of these
#[derive(Debug)]
pub(crate) struct KnownPeer {
    peers: Peers,
    id: [u8; 32],
}

impl Peers {
    /// Knows one more, as long as the result is held.
    pub(crate) fn add(&self, peer: Peer) -> KnownPeer {
        let id = peer.id;
        let mut all = self.all();
        let held = match all.remove(&id) {
            Some(before) => Held {
                peer,
                holders: before.holders + 1,
                ..before
            },
            None => Held {
                peer,
                holders: 1,
                is_asked: false,
                failure: None,
                wrong_key: None,
            },
        };
        all.insert(id, held);
        KnownPeer {
            peers: self.clone(),
            id,
        }
    }

    fn get(&self, id: &[u8; 32]) -> Option<Peer> {
        self.all().get(id).map(|held| held.peer.clone())
    }

    /// Asks one of them, and remembers why it gives no answer, or refuses.
    pub(super) async fn ask(&self, id: &[u8; 32], message: Bytes) -> Option<Bytes> {
        let peer = self.get(id)?;
        self.note(id, |held| held.is_asked = true);
        let answer = peer.ask(message.clone()).await;
        let (failure, signer) = match &answer {
            Ok(response) => {
                let refused = request::refusal(&message, response).map(|refused| refused.reason());
                (refused, request::signer(&message, response))
            }
            Err(error) => {
                tracing::debug!(at = %peer.place, %error, "a replica does not answer");
                (Some(error.to_string()), None)
            }
        };
        self.note(id, |held| {
            (held.is_asked, held.failure) = (false, failure);
            if signer.is_some() {
                held.wrong_key = signer.filter(|_| signer != held.peer.key);
            }
        });
        answer.ok()
    }

    fn note(&self, id: &[u8; 32], change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.all().get_mut(id) {
            change(held);
        }
    }

    /// Why those did not answer that were asked in vain the last time, or have not answered yet.
    pub(super) fn failures(&self) -> Vec<String> {
        self.explain(Held::lack_until_it_answers)
    }

    /// The same without those that may still answer.
    pub(super) fn lacks(&self) -> Vec<String> {
        self.explain(Held::lack)
    }

    /// Each reason once, with all those that it holds for.
    fn explain(&self, why: impl Fn(&Held) -> Option<String>) -> Vec<String> {
        let mut places: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
        for held in self.all().values() {
            if let Some(why) = why(held) {
                places.entry(why).or_default().push(Arc::clone(&held.peer.place));
            }
        }
        let text = |(why, mut places): (String, Vec<Arc<str>>)| {
            places.sort();
            format!("{}: {why}", places.join(", "))
        };
        places.into_iter().map(text).collect()
    }

    /// Where one of them answers, for people.
    pub(super) fn place(&self, id: &[u8; 32]) -> Option<String> {
        self.get(id).map(|peer| peer.place().to_owned())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<[u8; 32], Held>> {
        // Nothing panics between two changes of the table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownPeer {
    pub(crate) fn id(&self) -> [u8; 32] {
        self.id
    }
}

impl Drop for KnownPeer {
    fn drop(&mut self) {
        let mut all = self.peers.all();
        if let Some(held) = all.get_mut(&self.id) {
            held.holders -= 1;
            if held.holders == 0 {
                all.remove(&self.id);
            }
        }
    }
}

async fn post(client: PostClient, uri: Uri, message: Bytes) -> Result<Bytes, Error> {
    let mut request = Request::post(uri).body(Full::new(message)).map_err(unusable)?;
    let kind = http::HeaderValue::from_static(CAPSULE_TYPE);
    request.headers_mut().insert(CONTENT_TYPE, kind);
    let response = client.request(request).await;
    response_of(response.map_err(|error| unanswered(&root_cause(&error)))?).await
}

async fn call(node: Node, peer: PeerId, message: Bytes) -> Result<Bytes, Error> {
    let name = message.get(NAME_AT..).and_then(|rest| rest.first_chunk::<32>());
    let name = CapsuleName(*name.ok_or_else(|| Error::from_code(Code::BadMessage))?);
    let options = FetchOptions::new()
        .owner(Owner::Unowned)
        .peer(peer)
        .timeout(ANSWER_TIMEOUT)
        .retry(false);
    let request = Request::post(format!("https://{name}.mesh/"))
        .extension(options)
        .body(Full::new(message));
    response_of(node.fetch(request.map_err(unusable)?).await?).await
}

async fn response_of<B>(response: Response<B>) -> Result<Bytes, Error>
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>>,
{
    if response.status() != StatusCode::OK {
        return Err(unanswered(&format!("a replica answered {}", response.status())));
    }
    let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::from_code(Code::TooLarge)),
        Err(error) => Err(Error::Body(error)),
    }
}

fn unusable(error: http::Error) -> Error {
    Error::Input(error.to_string())
}

fn unanswered(detail: &str) -> Error {
    Error::core(Code::Disconnected.as_u16(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer::new([number; 32], |_| async { Ok(Bytes::new()) })
    }

    #[test]
    fn a_peer_is_known_as_long_as_somebody_holds_it() {
        let peers = Peers::default();
        let (first, second) = (peers.add(peer(1)), peers.add(peer(1)));
        drop(first);
        assert!(peers.get(&[1; 32]).is_some());
        drop(second);
        assert!(peers.get(&[1; 32]).is_none());
        assert!(peers.all().is_empty(), "whom nobody holds is forgotten");
    }
}
