use alloc::sync::Arc;
use std::io;

use selfsame_codec::PathKind;
use tokio::runtime::Handle as Runtime;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;

use super::address::{Address, Scheme};
use super::connect::{Connector, Io};
use super::keep_alive::Side;
use super::poll::{self, PostClient};
use super::server::HANDSHAKE_TIMEOUT;
use super::{tcp, websocket};
use crate::error::Error;
use crate::handle::{DialKey, Handle, Inbound};
use crate::link::LinkEnd;

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
                let reason = error.to_string();
                _ = driver.send(Inbound::DialFailed { dial, reason }).await;
            }
        });
    }

    /// Opens a path and carries its frames until it closes.
    async fn carry(&self, driver: &Handle, dial: DialKey, url: &str) -> Result<(), Error> {
        let address = Address::parse(url)?;
        let path = driver.next_path().ok_or(Error::Stopped)?;
        let failed = |error| Error::io(url, error);
        match address.scheme {
            Scheme::Tcp => {
                let tcp = self.connector.connect_tcp(&address).await.map_err(failed)?;
                let (reader, writer) = tcp.into_split();
                let link = opened(driver, path, dial, PathKind::Ordered, &address).await?;
                tcp::run(reader, writer, Side::Dialled, path, driver, link).await;
            }
            Scheme::Udp => {
                let udp = self.connector.connect_udp(&address).await.map_err(failed)?;
                let (reader, writer) = tokio::io::split(udp);
                let link = opened(driver, path, dial, PathKind::Ordered, &address).await?;
                tcp::run(reader, writer, Side::Dialled, path, driver, link).await;
            }
            Scheme::Ws | Scheme::Wss => {
                let socket = self.websocket(&address).await.map_err(failed)?;
                let link = opened(driver, path, dial, PathKind::Ordered, &address).await?;
                websocket::run(socket, Side::Dialled, path, driver, link).await;
            }
            Scheme::Http | Scheme::Https => {
                let link = opened(driver, path, dial, PathKind::Exchange, &address).await?;
                if let Err(why) = poll::run(&self.posts, &address, path, driver, link).await {
                    tracing::debug!(%url, why, "exchange failed: path closed");
                    let reason = format!("{url}: {why}");
                    // A node that was stopped has closed its paths.
                    _ = driver.send(Inbound::Failed { path, reason }).await;
                    return Ok(());
                }
            }
        }
        // A node that was stopped has closed its paths.
        _ = driver.send(Inbound::Closed { path }).await;
        Ok(())
    }

    async fn websocket(&self, address: &Address) -> io::Result<WebSocketStream<Box<dyn Io>>> {
        let io = self.connector.connect(address).await?;
        timeout(HANDSHAKE_TIMEOUT, websocket::open(io, address))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            .map_err(io::Error::other)
    }
}

/// Tells the driver that a path is open, and gives the socket's end of it.
async fn opened(
    driver: &Handle,
    path: u32,
    dial: DialKey,
    kind: PathKind,
    address: &Address,
) -> Result<LinkEnd, Error> {
    let (link, end) = driver.link();
    let opened = Inbound::Opened {
        path,
        dial: Some(dial),
        kind,
        remote: address.authority(),
        link,
    };
    driver.send(opened).await?;
    Ok(end)
}
