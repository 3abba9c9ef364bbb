use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use http::{Request, Response};
use selfsame_codec::reply::{self, Provider, Status};
use selfsame_codec::{Code, Input};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower_service::Service;

use crate::body::{Body, any_body};
use crate::certificate::{Certificate, Revocations};
use crate::error::{BoxError, Error};
use crate::event::Event;
use crate::grants::Grants;
use crate::handle::{Control, Effect, Handle, Item};
use crate::id::{Owner, PeerId};
use crate::keys::Grant;
use crate::observe::Watcher;
use crate::options::{FetchOptions, Published, ServeOptions};
use crate::routed::Routing;
use crate::serve::Services;
use crate::transport::Server;
use crate::watch::Watch;

/// Time for the ring to hear that a name is withdrawn while a node drains.
const WITHDRAWAL: Duration = Duration::from_secs(2);

/// A node of a mesh; cheap to clone
///
/// The node ends when its last clone is dropped, or with [`Self::leave`], which also tells its neighbours.
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) handle: Handle,
    pub(crate) id: PeerId,
    pub(crate) network: String,
    /// Whether it dials private addresses that others name.
    pub(crate) allow_private: bool,
    pub(crate) owner: Option<Owner>,
    pub(crate) grants: Grants,
    /// How the names are offered that this node publishes.
    pub(crate) offered: Mutex<HashMap<String, ServeOptions>>,
    pub(crate) addresses: Vec<String>,
    pub(crate) listening: Vec<SocketAddr>,
    pub(crate) services: Arc<Services>,
    pub(crate) watcher: Watcher,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) servers: Mutex<Vec<Server>>,
    pub(crate) driver: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.control(Control::Stop);
    }
}

impl Node {
    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.inner.handle
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.inner.services.routing
    }

    /// The node's id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.inner.id
    }

    /// Name of the node's network.
    #[must_use]
    pub fn network(&self) -> &str {
        &self.inner.network
    }

    /// Whether it dials private addresses that others name.
    pub(crate) fn dials_private(&self) -> bool {
        self.inner.allow_private
    }

    /// URLs at which others can dial the node; none for a leaf.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.inner.addresses
    }

    /// Where the node listens, in the order of the settings.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.inner.listening
    }

    /// What happens in the node from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// Serves a name with a tower service and publishes it. The grant for an owned name is among the settings.
    ///
    /// # Errors
    /// [`Error::Input`] when the node has no grant for the name and it is not unowned either.
    pub async fn serve<S, B>(&self, name: &str, service: S) -> Result<(), Error>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        self.serve_with(name, &ServeOptions::default(), service).await
    }

    /// Serves a name with a tower service and publishes it, with a version, a weight, or for some callers only. Serving a
    /// name again puts the new service and options in the place of the old ones.
    ///
    /// # Errors
    /// As [`Self::serve`], and when the weight is none.
    pub async fn serve_with<S, B>(&self, name: &str, options: &ServeOptions, service: S) -> Result<(), Error>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        // First the handler, then the name: whoever finds the name is answered.
        let replaced = self.inner.services.insert(name, options, service);
        let published = self.publish(name, options).await;
        if published.is_err() {
            self.inner.services.set(name, replaced);
        }
        published
    }

    /// Publishes this node as a provider of a name.
    ///
    /// # Errors
    /// As [`Self::serve_with`].
    pub async fn publish(&self, name: &str, options: &ServeOptions) -> Result<(), Error> {
        let (owner, grant) = self.provided(name, options)?;
        let grant = grant.as_ref().map_or(&[][..], Grant::as_bytes);
        let Published {
            replicas,
            version,
            weight,
        } = options.published()?;
        let item = |tag| {
            Item::new(&Input::Publish {
                tag,
                grant,
                name,
                replicas,
                version,
                weight,
            })
        };
        let effect = Effect::Publishes(owner.bytes().to_vec(), name.into());
        let published = self.inner.handle.command(effect, item).await;
        if published.is_ok() {
            self.offered().insert(name.into(), options.clone());
        } else if !self.offered().contains_key(name) {
            // The core would find somebody who stores it later, when nobody serves it.
            let (node, name) = (self.clone(), name.to_owned());
            tokio::spawn(async move { node.unpublish(&name, owner).await });
        }
        published.map(drop)
    }

    /// Uses a grant from now on, in place of an older one for its name. If the node serves the name it is published again
    /// with it, while requests go on.
    ///
    /// # Errors
    /// [`Error::Input`] when the grant is for another node, [`Error::Core`] when it is of another network, has expired, or
    /// is not signed by its owner.
    pub async fn renew(&self, grant: Grant) -> Result<(), Error> {
        let (name, before) = self.inner.grants.add(grant)?;
        let Some(options) = self.offered().get(&name).cloned() else {
            return Ok(());
        };
        let (owner, _) = self.provided(&name, &options)?;
        let old = before.map_or(Owner::Unowned, |(owner, _)| Owner::Key(owner));
        if old != owner {
            // The name of another owner is another name.
            self.unpublish(&name, old).await?;
        }
        self.publish(&name, &options).await
    }

    /// Stops serving and publishing a name. Requests whose senders cannot have heard of it are answered still, for half
    /// a minute, so that another node can take the name over without a request's being lost.
    ///
    /// # Errors
    /// [`Error`] when the name is not published.
    pub async fn withdraw(&self, name: &str) -> Result<(), Error> {
        let options = self.offered().get(name).cloned().unwrap_or_default();
        let (owner, _) = self.provided(name, &options)?;
        self.offered().remove(name);
        let withdrawn = self.unpublish(name, owner).await;
        self.inner.services.retire(name);
        withdrawn
    }

    /// Withdraws all names and lets the requests that are under way finish, as well as those of callers that cannot have
    /// heard of it yet; whether they did within this time. Those that are left are given up, and their callers told.
    pub async fn drain(&self, longest: Duration) -> bool {
        let names: Vec<_> = self.offered().keys().cloned().collect();
        let withdrawn = names.iter().map(|name| self.withdraw(name));
        let withdrawn = timeout(WITHDRAWAL.min(longest), join_all(withdrawn));
        let finished = timeout(longest, self.inner.services.idle());
        // Whoever does not hear of it calls another provider when this one is gone.
        let (_, finished) = tokio::join!(withdrawn, finished);
        if finished.is_err() {
            self.inner.services.give_up();
            // Their callers are told before the connections end.
            self.inner.services.idle().await;
        }
        finished.is_ok()
    }

    async fn unpublish(&self, name: &str, owner: Owner) -> Result<(), Error> {
        let effect = Effect::Withdraws(owner.bytes().to_vec(), name.into());
        let owner = owner.bytes();
        let item = |tag| Item::new(&Input::Withdraw { tag, owner, name });
        self.inner.handle.command(effect, item).await.map(drop)
    }

    fn offered(&self) -> MutexGuard<'_, HashMap<String, ServeOptions>> {
        // Nothing panics between two changes of the table.
        self.inner.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to a provider of the name in its URL, `https://NAME.mesh/path`. The answer is returned as soon
    /// as its head is here. [`FetchOptions`] among the request's extensions say more about how it is sent.
    ///
    /// # Errors
    /// [`Error::Unanswered`] says whether nobody serves the name, or why nobody answers.
    pub async fn fetch<B>(&self, request: Request<B>) -> Result<Response<Body>, Error>
    where
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let options = request.extensions().get::<FetchOptions>().cloned();
        let options = options.unwrap_or_default();
        let owner = options.whose().map_or_else(|| self.owner(), Ok)?;
        let request = request.map(any_body);
        let Inner { handle, watcher, .. } = &*self.inner;
        crate::fetch::fetch(handle, watcher, owner.bytes(), options, request).await
    }

    /// Finds who serves a name.
    ///
    /// # Errors
    /// [`Error::Core`] when nobody does, or nobody answers.
    pub async fn find(&self, name: &str) -> Result<Vec<Provider>, Error> {
        self.find_of(self.owner()?, name).await
    }

    /// Finds who serves a name of an owner, or of nobody.
    pub(crate) async fn find_of(&self, owner: Owner, name: &str) -> Result<Vec<Provider>, Error> {
        let item = |tag| {
            Item::new(&Input::Find {
                tag,
                owner: owner.bytes(),
                name,
            })
        };
        let body = self.inner.handle.command(Effect::None, item).await?;
        reply::decode_providers(&body).map_err(|_| Error::version_skew())
    }

    /// Follows who serves a name. The ring is asked every 5 s.
    ///
    /// # Errors
    /// [`Error::Input`] when it is not said whose name is meant.
    pub fn watch(&self, name: &str) -> Result<Watch, Error> {
        let owner = self.owner()?;
        let owner = owner.bytes();
        Ok(Watch::start(&self.inner.handle, |tag| {
            Item::new(&Input::Watch { tag, owner, name })
        }))
    }

    /// Finds the member that is responsible for an id; says how many members were asked on the way, itself included.
    ///
    /// # Errors
    /// [`Error::Core`] when nobody answers.
    pub async fn find_node(&self, id: [u8; 32]) -> Result<(reply::Node, u32), Error> {
        let body = self
            .inner
            .handle
            .command(Effect::None, |tag| Item::new(&Input::FindNode { tag, id }))
            .await?;
        reply::decode_found_node(&body).map_err(|_| Error::version_skew())
    }

    /// What the node knows of itself and the ring.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the node is.
    pub async fn status(&self) -> Result<Status, Error> {
        let body = self
            .inner
            .handle
            .command(Effect::None, |tag| Item::new(&Input::Status { tag }))
            .await?;
        Status::decode(&body).map_err(|_| Error::version_skew())
    }

    /// Shows another certificate from now on, for the same key and address, before the one in use expires.
    ///
    /// # Errors
    /// [`Error::Core`] says why it cannot be used; the one in use stays.
    pub async fn renew_certificate(&self, certificate: &Certificate) -> Result<(), Error> {
        let bytes = certificate.as_bytes();
        let effect = Effect::Certifies(bytes.to_vec());
        let item = |tag| {
            Item::new(&Input::Certify {
                tag,
                certificate: bytes,
            })
        };
        self.inner.handle.command(effect, item).await?;
        Ok(())
    }

    /// Counts what went wrong with this node's own certificate, where all errors are counted.
    #[cfg(feature = "admission")]
    pub(crate) fn count_own(&self, code: Code) {
        self.inner.handle.control(Control::LookedUp {
            life: None,
            peer: PeerId([0; 32]),
            code: code.as_u16(),
        });
    }

    /// Takes a list of whom the authority of the closed network admits no more, keeps it, and passes it on to the others.
    ///
    /// # Errors
    /// [`Error::Core`] when it is not the authority's, or older than one that is known.
    pub async fn revoke(&self, list: &Revocations) -> Result<(), Error> {
        let list = list.as_bytes();
        let item = |tag| Item::new(&Input::Revoke { tag, list });
        self.inner.handle.command(Effect::None, item).await?;
        Ok(())
    }

    /// Hands over what the node is responsible for, leaves the ring and ends the node, also for its other clones. Requests
    /// that are under way are cut off: see [`Self::close`].
    ///
    /// # Errors
    /// [`Error`] when the neighbours could not be told; the node has ended all the same.
    pub async fn leave(self) -> Result<(), Error> {
        let left = self.depart().await;
        self.stop().await;
        left
    }

    /// Lets the requests that are under way finish, for at most `drain`, and then leaves as [`Self::leave`] does.
    ///
    /// # Errors
    /// As [`Self::leave`].
    pub async fn close(self, drain: Duration) -> Result<(), Error> {
        self.drain(drain).await;
        self.leave().await
    }

    /// Hands over what the node is responsible for and leaves the ring, as [`Self::leave`] does before it ends the node.
    ///
    /// # Errors
    /// [`Error`] when the neighbours could not be told.
    pub async fn depart(&self) -> Result<(), Error> {
        let item = |tag| Item::new(&Input::Leave { tag });
        match self.inner.handle.command(Effect::Leaves, item).await {
            // Nobody misses a node that is in no ring.
            Err(error) if error.code() == Some(Code::NotJoined) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Ends the node without telling anybody, as a crash would; everything that was written stays.
    pub async fn stop(self) {
        let servers =
            core::mem::take(&mut *self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner));
        for server in servers {
            server.close().await;
        }
        self.inner.handle.control(Control::Stop);
        let driver = self
            .inner
            .driver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(driver) = driver {
            // The driver closes the store as its last act; a panic in it was printed already.
            _ = driver.await;
        }
    }

    pub(crate) fn owner(&self) -> Result<Owner, Error> {
        self.inner.owner.ok_or_else(Error::no_owner)
    }

    /// Returns whose a name is that this node provides: that of the grant for it, else the configured owner.
    ///
    /// # Errors
    /// [`Error::Input`] when neither says so.
    pub(crate) fn owner_of(&self, name: &str) -> Result<Owner, Error> {
        let granted = self.inner.grants.of(name);
        granted.map_or_else(|| self.owner(), |(owner, _)| Ok(Owner::Key(owner)))
    }

    /// The owner of a name that this node may provide, and the grant.
    fn provided(&self, name: &str, options: &ServeOptions) -> Result<(Owner, Option<Grant>), Error> {
        if options.is_unowned() {
            return Ok((Owner::Unowned, None));
        }
        if let Some((owner, grant)) = self.inner.grants.of(name) {
            return Ok((Owner::Key(owner), Some(grant)));
        }
        match self.inner.owner {
            Some(Owner::Unowned) => Ok((Owner::Unowned, None)),
            Some(Owner::Key(_)) | None => Err(Error::Input(format!(
                "this node has no grant to serve \"{name}\": its owner makes one with `selfsame grant --name {name} --to \
                 {}`, or ask for unowned names",
                self.inner.id
            ))),
        }
    }
}
