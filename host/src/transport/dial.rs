use alloc::sync::Arc;

use selfsame_codec::PathKind;
use tokio::runtime::Handle as Runtime;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::address::{Address, Scheme};
use super::connect::Connector;
use super::poll::{self, PostClient};
use super::websocket;
use crate::error::Error;
use crate::handle::{DialKey, Handle, Inbound};

/// Opens paths to addresses
pub(crate) struct Dialler {
    connector: Connector,
    posts: PostClient,
}

impl Dialler {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            posts: poll::client(connector.clone()),
            connector,
        }
    }

    /// Opens a path in a task of its own; the driver hears of it or of the failure.
    pub(crate) fn dial(self: &Arc<Self>, runtime: &Runtime, driver: &Handle, dial: DialKey, address: &str) {
        let (dialler, driver, url) = (Arc::clone(self), driver.clone(), address.to_owned());
        runtime.spawn(async move {
            if let Err(error) = dialler.carry(&driver, dial, &url).await {
                tracing::debug!(%url, %error, "dial failed");
                // A node that was stopped needs no path.
                _ = driver.send(Inbound::DialFailed { dial }).await;
            }
        });
    }

    /// Opens a path and carries its frames until it closes.
    async fn carry(&self, driver: &Handle, dial: DialKey, url: &str) -> Result<(), Error> {
        let address = Address::parse(url)?;
        let path = driver.next_path().ok_or(Error::Stopped)?;
        let kind = match address.scheme {
            Scheme::Ws | Scheme::Wss => PathKind::Ordered,
            Scheme::Http | Scheme::Https => PathKind::Exchange,
        };
        let remote = address.authority();
        let opened = |link| Inbound::Opened {
            path,
            dial: Some(dial),
            kind,
            remote,
            link,
        };
        if kind == PathKind::Exchange {
            let (link, end) = driver.link();
            driver.send(opened(link)).await?;
            poll::run(&self.posts, &address, path, driver, end).await;
        } else {
            let failed = |error| Error::io(url, error);
            let io = self.connector.connect(&address).await.map_err(failed)?;
            let socket =
                tokio::time::timeout(super::server::HANDSHAKE_TIMEOUT, websocket::open(io, &address))
                    .await
                    .map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?
                    .map_err(|error| failed(std::io::Error::other(error)))?;
            let (link, end) = driver.link();
            driver.send(opened(link)).await?;
            websocket::run(socket, Role::Client, path, driver, end).await;
        }
        // A node that was stopped has closed its paths.
        _ = driver.send(Inbound::Closed { path }).await;
        Ok(())
    }
}
