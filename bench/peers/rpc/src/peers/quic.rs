//! A stream of a warm QUIC connection for each echo.

use std::sync::Arc;

use bench_pair::Outcome;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};

use super::identity::{Identity, NAME};
use super::{serve_on_thread, told};
use crate::echo::{Echo, four, within};

const MAX_BYTES: usize = 64;

/// A warm connection
pub(crate) struct Quic {
    connection: Connection,
    _endpoint: Endpoint,
}

impl Quic {
    pub(crate) async fn start() -> Outcome<Self> {
        let identity = Identity::new()?;
        let tls = QuicClientConfig::try_from(identity.client()?).map_err(told)?;
        let address = serve_on_thread(move || {
            let tls = QuicServerConfig::try_from(identity.server()?).map_err(told)?;
            let config = ServerConfig::with_crypto(Arc::new(tls));
            let loopback = ([127, 0, 0, 1], 0).into();
            let endpoint = Endpoint::server(config, loopback).map_err(told)?;
            let address = endpoint.local_addr().map_err(told)?;
            Ok((address, serve(endpoint)))
        })?;
        let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).map_err(told)?;
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(tls)));
        let connection = endpoint
            .connect(address, NAME)
            .map_err(told)?
            .await
            .map_err(told)?;
        Ok(Self {
            connection,
            _endpoint: endpoint,
        })
    }
}

impl Echo for Quic {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        four(&within(echo(&self.connection, payload)).await??)
    }
}

pub(super) async fn echo(connection: &Connection, payload: [u8; 4]) -> Outcome<Vec<u8>> {
    let (mut sending, mut receiving) = connection.open_bi().await.map_err(told)?;
    sending.write_all(&payload).await.map_err(told)?;
    sending.finish().map_err(told)?;
    receiving.read_to_end(MAX_BYTES).await.map_err(told)
}

async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            // A stream that fails ends the connection, and its client says so.
            while answer(&connection).await.is_ok() {}
        });
    }
}

pub(super) async fn answer(connection: &Connection) -> Outcome<()> {
    let (mut sending, mut receiving) = connection.accept_bi().await.map_err(told)?;
    let payload = receiving.read_to_end(MAX_BYTES).await.map_err(told)?;
    sending.write_all(&payload).await.map_err(told)?;
    sending.finish().map_err(told)
}
