//! Carries the datagrams of a client as bodies of POSTs, and of their responses (docs/specification/rpc.md, "Over HTTP").

use alloc::sync::Arc;
use core::error::Error as StdError;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use mio::Waker;
use tokio::time::{Instant, timeout};

use super::arrivals::{ArrivalSender, Arrivals, Datagram};
use super::datagram::RequestHead;
use super::engine::Engine;
use super::http_service::{DATAGRAM_TYPE, MAX_BODY_BYTES};
use super::posts::Posts;
use super::url_calls::UrlCalls as _;
use super::way::Way;
use crate::error::{BoxError, root_cause};
use crate::transport::{PostClient, PrivateAddress};

/// Time for a POST that no call waits for, such as one that cancels.
const LAST_POST_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause of a server that asks for one and does not say how long.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// Most digits of the seconds that a server may ask for.
const MAX_PAUSE_DIGITS: usize = 4;

/// Carries the datagrams of a client over HTTP.
pub(super) struct HttpWay {
    client: PostClient,
    posts: Arc<Posts>,
    arrivals: Arrivals<Datagram>,
}

impl HttpWay {
    pub(super) fn new(client: PostClient, posts: Arc<Posts>) -> io::Result<Self> {
        Ok(Self {
            client,
            posts,
            arrivals: Arrivals::new()?,
        })
    }
}

impl Way for HttpWay {
    fn waker(&self) -> Arc<Waker> {
        self.arrivals.waker()
    }

    fn receive(&mut self, engine: &mut Engine) -> io::Result<()> {
        self.arrivals.give(engine);
        Ok(())
    }

    fn send(&mut self, target: SocketAddr, datagram: &[u8]) {
        let (Some(url), Some(head)) = (self.posts.url_of(target), RequestHead::of(datagram)) else {
            return;
        };
        self.posts.begin(target, head, || {
            let exchange = Exchange {
                client: self.client.clone(),
                posts: Arc::clone(&self.posts),
                arrivals: self.arrivals.sender().clone(),
                url,
                target,
                head,
            };
            let body = Bytes::copy_from_slice(datagram);
            tokio::spawn(exchange.run(body)).abort_handle()
        });
    }

    fn flush(&mut self) {}

    fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        self.arrivals.wait(longest)
    }
}

impl Drop for HttpWay {
    fn drop(&mut self) {
        self.posts.give_up();
    }
}

/// A POST and its response.
struct Exchange {
    client: PostClient,
    posts: Arc<Posts>,
    arrivals: ArrivalSender<Datagram>,
    url: Uri,
    target: SocketAddr,
    head: RequestHead,
}

impl Exchange {
    async fn run(self, body: Bytes) {
        let exchanged = timeout(self.longest(), self.exchange(body)).await;
        self.posts.end(&self.head.tag);
        match exchanged {
            Ok(Ok(Some(datagram))) => {
                // A thread that has ended needs none.
                _ = self.arrivals.send((self.target, datagram));
            }
            Ok(Err(error)) => self.failed(&*error),
            Ok(Ok(None)) | Err(_) => {}
        }
    }

    fn longest(&self) -> Duration {
        let until = self.posts.until().filter(|_| !self.head.is_control);
        let left = until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        });
        left.max(LAST_POST_TIMEOUT)
    }

    async fn exchange(&self, body: Bytes) -> Result<Option<Bytes>, BoxError> {
        let request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, DATAGRAM_TYPE)
            .body(Full::new(body))?;
        let response = self.client.request(request).await?;
        let url = &self.url;
        match response.status() {
            StatusCode::OK => {
                let body = Limited::new(response.into_body(), MAX_BODY_BYTES);
                return Ok(Some(body.collect().await?.to_bytes()));
            }
            StatusCode::NO_CONTENT => {}
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                self.posts.pause(self.target, pause_of(response.headers()));
            }
            status => {
                tracing::warn!(%url, %status, "a call is answered with this status: does it serve RPC?")
            }
        }
        Ok(None)
    }

    /// A POST that fails is a datagram that is lost, unless it may not be sent at all.
    fn failed(&self, error: &(dyn StdError + 'static)) {
        let url = &self.url;
        if PrivateAddress::is_cause_of(error) {
            self.posts
                .forbid(self.target, format!("{url} leads to {PrivateAddress}"));
        } else {
            tracing::debug!(%url, error = root_cause(error), "a POST failed");
        }
    }
}

fn pause_of(headers: &HeaderMap) -> Duration {
    let asked = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .filter(|text| text.len() <= MAX_PAUSE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok());
    asked.map_or(DEFAULT_PAUSE, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn pauses_are_whole_seconds_of_up_to_four_digits() {
        let pause = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).expect("a value"));
            pause_of(&headers).as_secs()
        };
        for (text, seconds) in [("0", 0), ("7", 7), ("3600", 3600)] {
            assert_eq!(pause(text), seconds, "{text}");
        }
        for text in ["", "-1", "+5", "1.5", "99999", "Sat, 28 Nov 2026 12:00:00 GMT"] {
            assert_eq!(pause(text), DEFAULT_PAUSE.as_secs(), "{text}");
        }
        assert_eq!(pause_of(&HeaderMap::new()), DEFAULT_PAUSE);
    }
}
