//! The server's side of the RPC over WebSocket (docs/specification/rpc.md, "Over WebSocket").

use alloc::sync::Arc;
use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::accepted_socket::AcceptedSocket;
use super::arrivals::ArrivalSender;
use super::binding::{Arrival, Exchanges};
use super::http_service::{ENDED, MAX_BODY_BYTES, Refused};
use super::socket_responses::{SocketResponses, SocketShares};
use super::websocket::SUBPROTOCOL;
use crate::shares::Shares;
use crate::transport::{BadHandshake, accept_key, network_of, switching};

/// Most sockets, of all sources and of one.
const MAX_SOCKETS: usize = 4096;
const SOURCE_SOCKETS: usize = MAX_SOCKETS / 4;
/// Most bytes that wait to be sent, to all sources and to one: two longest messages.
const MAX_WAITING_BYTES: usize = 4 * MAX_BODY_BYTES;
const SOURCE_WAITING_BYTES: usize = 2 * MAX_BODY_BYTES;
/// Time for a connection to be handed over once the handshake was answered.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the sockets of a server share.
pub(super) struct WebSockets {
    places: Arc<Shares<IpAddr>>,
    waiting: Arc<Shares<IpAddr>>,
    open: Arc<Shares<IpAddr>>,
    held: Arc<Shares<IpAddr>>,
    exchanges: Arc<Exchanges>,
    arrivals: ArrivalSender<Arrival>,
}

impl WebSockets {
    /// Sockets whose requests count as those of POSTs do.
    pub(super) fn new(
        open: Arc<Shares<IpAddr>>,
        held: Arc<Shares<IpAddr>>,
        exchanges: Arc<Exchanges>,
        arrivals: ArrivalSender<Arrival>,
    ) -> Self {
        Self {
            places: Shares::new(SOURCE_SOCKETS, MAX_SOCKETS),
            waiting: Shares::new(SOURCE_WAITING_BYTES, MAX_WAITING_BYTES),
            open,
            held,
            exchanges,
            arrivals,
        }
    }

    /// Accepts the WebSocket that a request from an IP address asks for.
    pub(super) fn accept<B>(
        &self,
        request: &mut Request<B>,
        ip: IpAddr,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        let accept = accept_key(request.headers(), SUBPROTOCOL)?;
        if self.exchanges.is_over() {
            return Err(ENDED);
        }
        // Put there by servers whose connections can become others.
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or(Refused(StatusCode::BAD_REQUEST, "WebSockets are not taken here"))?;
        let network = network_of(ip);
        let place = self.places.take(network, 1).ok_or(Refused(
            StatusCode::TOO_MANY_REQUESTS,
            "too many sockets are open",
        ))?;
        let responses = SocketResponses::new(SocketShares {
            open: Arc::clone(&self.open),
            waiting: Arc::clone(&self.waiting),
            network,
        });
        let socket = AcceptedSocket {
            ip,
            network,
            held: Arc::clone(&self.held),
            responses: Arc::new(responses),
            exchanges: Arc::clone(&self.exchanges),
            arrivals: self.arrivals.clone(),
        };
        tokio::spawn(async move {
            // It has its place until it ends.
            let _place = place;
            match timeout(UPGRADE_TIMEOUT, upgrade).await {
                Ok(Ok(upgraded)) => socket.carry(TokioIo::new(upgraded)).await,
                Ok(Err(error)) => tracing::debug!(%error, "a connection did not become a WebSocket"),
                Err(_) => tracing::debug!("a connection took too long to become a WebSocket"),
            }
        });
        Ok(switching(accept, SUBPROTOCOL, Full::default()))
    }
}

impl From<BadHandshake> for Refused {
    fn from(wrong: BadHandshake) -> Self {
        let why = match wrong {
            BadHandshake::Subprotocol => "the subprotocol is selfsame-rpc.1",
            BadHandshake::NotAsked | BadHandshake::Version | BadHandshake::Key => {
                "the request does not ask for a WebSocket as RFC 6455 says"
            }
        };
        Self(StatusCode::BAD_REQUEST, why)
    }
}
