//! Resumed QUIC connections, each with one request in its 0-RTT data.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use bench_pair::Outcome;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, Incoming, ServerConfig, ZeroRttAccepted};

use super::identity::{Identity, NAME};
use super::quic::{answer, echo};
use super::{serve_on_thread, told};
use crate::echo::{Echo, four, within};

/// Time for the rest of a handshake, which brings the tickets of the next ones.
const REST: Duration = Duration::from_millis(2);

/// First requests
pub(crate) struct Early {
    pub(crate) target: SocketAddr,
    config: ClientConfig,
    endpoint: Endpoint,
    /// Whether each connection has an endpoint of its own, with its socket.
    alone: bool,
    connection: Option<(Connection, ZeroRttAccepted)>,
}

impl Early {
    pub(crate) async fn start(alone: bool) -> Outcome<Self> {
        let identity = Identity::new()?;
        let mut tls = identity.client()?;
        tls.enable_early_data = true;
        let tls = QuicClientConfig::try_from(tls).map_err(told)?;
        let config = ClientConfig::new(Arc::new(tls));
        let target = serve_on_thread(move || {
            let mut tls = identity.server()?;
            tls.max_early_data_size = u32::MAX;
            let tls = QuicServerConfig::try_from(tls).map_err(told)?;
            let config = ServerConfig::with_crypto(Arc::new(tls));
            let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into()).map_err(told)?;
            let address = endpoint.local_addr().map_err(told)?;
            Ok((address, serve(endpoint)))
        })?;
        let endpoint = endpoint_of(&config)?;
        // The first connection has no ticket yet: it gets some.
        let connection = endpoint.connect(target, NAME).map_err(told)?;
        let connection = connection.await.map_err(told)?;
        echo(&connection, [0; 4]).await?;
        tokio::time::sleep(REST).await;
        connection.close(0_u8.into(), b"");
        Ok(Self {
            target,
            config,
            endpoint,
            alone,
            connection: None,
        })
    }
}

impl Echo for Early {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        if self.alone {
            self.endpoint = endpoint_of(&self.config)?;
        }
        let connecting = self.endpoint.connect(self.target, NAME).map_err(told)?;
        let early = connecting.into_0rtt();
        let (connection, accepted) = early.map_err(|_| "a connection has no ticket to resume with")?;
        let answer = within(echo(&connection, payload)).await??;
        self.connection = Some((connection, accepted));
        four(&answer)
    }

    async fn settle(&mut self) -> Outcome<()> {
        let Some((connection, accepted)) = self.connection.take() else {
            return Ok(());
        };
        if !accepted.await {
            return Err("the server did not take 0-RTT data".into());
        }
        tokio::time::sleep(REST).await;
        connection.close(0_u8.into(), b"");
        Ok(())
    }
}

fn endpoint_of(config: &ClientConfig) -> Outcome<Endpoint> {
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).map_err(told)?;
    endpoint.set_default_client_config(config.clone());
    Ok(endpoint)
}

async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // A connection that fails ends, and its client says so.
            _ = serve_early(incoming).await;
        });
    }
}

/// Answers before the handshake is over, as a server does that takes 0-RTT data.
async fn serve_early(incoming: Incoming) -> Outcome<()> {
    let connecting = incoming.accept().map_err(told)?;
    let (connection, _) = connecting
        .into_0rtt()
        .map_err(|_| "the server has no keys for early data")?;
    loop {
        answer(&connection).await?;
    }
}
