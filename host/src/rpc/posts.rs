//! The POSTs of a client that are under way, and the URLs that they go to.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use http::Uri;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::address::RpcAddress;
use super::calling::ClientOrder;
use super::datagram::{RequestHead, Tag};
use super::pauses::Pauses;
use super::thread::OrderSender;
use super::url_calls::UrlCalls;
use super::url_endpoints::UrlEndpoints;

/// The number of this way in endpoints that stand for URLs.
const WAY: u16 = 0;
/// POSTs at a time: each holds its datagram.
const MAX_POSTS: usize = 4096;
/// Longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What the calls of a client over HTTP share: its thread, its tasks and its callers use it.
pub(super) struct Posts {
    table: Mutex<Table>,
    orders: OnceLock<OrderSender<ClientOrder>>,
}

struct Table {
    endpoints: UrlEndpoints,
    /// By the tags of their datagrams.
    posts: HashMap<Tag, Post>,
    /// Servers that have asked for a pause.
    pauses: Pauses,
    /// When the last of the calls ends.
    until: Option<Instant>,
}

struct Post {
    head: RequestHead,
    target: SocketAddr,
    task: AbortHandle,
}

impl Posts {
    /// Sets where the thread takes orders.
    pub(super) fn set_orders(&self, orders: OrderSender<ClientOrder>) {
        // It is started once.
        _ = self.orders.set(orders);
    }

    /// Returns the endpoint that stands for a URL.
    pub(super) fn endpoint_of(&self, url: &Uri) -> SocketAddr {
        self.lock().endpoints.endpoint_of(url)
    }

    /// Returns the URL that an endpoint stands for.
    pub(super) fn url_of(&self, endpoint: SocketAddr) -> Option<Uri> {
        self.lock().endpoints.url_of(endpoint).cloned()
    }

    /// Begins a POST that `spawn` sends, unless its datagram is on the way already or the server has asked for a pause. A control packet
    /// withdraws the POST of its call.
    pub(super) fn begin(&self, target: SocketAddr, head: RequestHead, spawn: impl FnOnce() -> AbortHandle) {
        let mut table = self.lock();
        if table.pauses.includes(target) {
            return;
        }
        // The server holds the response until it has the answer: what comes again asks for nothing more.
        if table.posts.contains_key(&head.tag) || table.posts.len() >= MAX_POSTS {
            return;
        }
        if head.is_control {
            table.withdraw(|post| post.target == target && post.head.call == head.call);
        }
        let post = Post {
            head,
            target,
            task: spawn(),
        };
        table.posts.insert(head.tag, post);
    }

    /// Forgets a POST that has ended.
    pub(super) fn end(&self, tag: &Tag) {
        self.lock().posts.remove(tag);
    }

    /// Sends nothing to a server for as long as it asks.
    pub(super) fn pause(&self, target: SocketAddr, pause: Duration) {
        self.lock().pauses.begin(target, pause.min(MAX_PAUSE));
    }

    /// Ends the calls to a server that may not be dialled.
    pub(super) fn forbid(&self, target: SocketAddr, why: String) {
        if let Some(orders) = self.orders.get() {
            orders.send(ClientOrder::Forbid { target, why });
        }
    }

    /// When the last of the calls ends.
    pub(super) fn until(&self) -> Option<Instant> {
        self.lock().until
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Posts {
    fn default() -> Self {
        Self {
            table: Mutex::new(Table {
                endpoints: UrlEndpoints::new(WAY),
                posts: HashMap::new(),
                pauses: Pauses::default(),
                until: None,
            }),
            orders: OnceLock::new(),
        }
    }
}

impl UrlCalls for Posts {
    fn address_of(&self, endpoint: SocketAddr) -> Option<RpcAddress> {
        self.url_of(endpoint).map(RpcAddress::Http)
    }

    fn expect_until(&self, until: Instant) {
        let mut table = self.lock();
        table.until = table.until.max(Some(until));
    }

    /// Gives up POSTs that no call waits for: all but those that tell a server so.
    fn give_up(&self) {
        let mut table = self.lock();
        table.until = None;
        table.withdraw(|_| true);
    }
}

impl Table {
    /// Ends POSTs that are no control packets.
    fn withdraw(&mut self, is_meant: impl Fn(&Post) -> bool) {
        self.posts.retain(|_, post| {
            let is_over = !post.head.is_control && is_meant(post);
            if is_over {
                post.task.abort();
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(number: usize) -> Uri {
        format!("https://echo.example/{number}").parse().expect("a URL")
    }

    fn head(tag: u8, call: u32, is_control: bool) -> RequestHead {
        RequestHead {
            call,
            tag: [tag; 16],
            id: [tag; 118],
            is_part: false,
            is_control,
            is_cancel: false,
        }
    }

    /// Begins a POST that never ends by itself; whether it is sent.
    fn begin(posts: &Posts, target: SocketAddr, head: RequestHead) -> bool {
        let mut is_sent = false;
        posts.begin(target, head, || {
            is_sent = true;
            tokio::spawn(core::future::pending::<()>()).abort_handle()
        });
        is_sent
    }

    #[tokio::test(start_paused = true)]
    async fn datagram_is_posted_once_at_a_time_and_not_in_a_pause() {
        let posts = Posts::default();
        let target = posts.endpoint_of(&url(0));
        assert!(begin(&posts, target, head(1, 1, false)));
        assert!(!begin(&posts, target, head(1, 1, false)));
        posts.end(&[1; 16]);
        posts.pause(target, Duration::from_secs(3600));
        assert!(!begin(&posts, target, head(1, 1, false)));
        assert!(begin(&posts, posts.endpoint_of(&url(1)), head(2, 1, false)));
        tokio::time::advance(MAX_PAUSE).await;
        assert!(begin(&posts, target, head(1, 1, false)));
    }

    #[tokio::test]
    async fn control_packet_withdraws_the_post_of_its_call_alone() {
        let posts = Posts::default();
        let [target, other] = [0, 1].map(|number| posts.endpoint_of(&url(number)));
        begin(&posts, target, head(1, 1, false));
        begin(&posts, target, head(2, 2, false));
        begin(&posts, other, head(3, 1, false));
        assert!(begin(&posts, target, head(4, 1, true)));
        let left = |posts: &Posts| {
            let mut tags: Vec<_> = posts.lock().posts.keys().map(|tag| tag[0]).collect();
            tags.sort_unstable();
            tags
        };
        assert_eq!(left(&posts), [2, 3, 4]);
        posts.give_up();
        assert_eq!(left(&posts), [4]);
    }
}
