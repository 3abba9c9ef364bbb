//! The POSTs of a client that are under way, and the URLs that they go to.

use alloc::collections::BTreeMap;
use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use http::Uri;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::calling::ClientOrder;
use super::datagram::{RequestHead, Tag};
use super::thread::OrderSender;

/// URLs that have an endpoint at a time, and of which a pause is remembered.
const MAX_URLS: usize = 4096;
/// POSTs at a time: each holds its datagram.
const MAX_POSTS: usize = 4096;
/// Longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What the calls of a client over HTTP share: its thread, its tasks and its callers use it.
#[derive(Default)]
pub(super) struct Posts {
    table: Mutex<Table>,
    orders: OnceLock<OrderSender<ClientOrder>>,
}

#[derive(Default)]
struct Table {
    by_url: HashMap<Uri, SocketAddr>,
    by_number: BTreeMap<u32, Uri>,
    last_number: u32,
    /// By the tags of their datagrams.
    posts: HashMap<Tag, Post>,
    /// Servers that have asked for a pause, and its end.
    pauses: HashMap<SocketAddr, Instant>,
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

    /// Returns the endpoint that stands for a URL: of the prefix 100::/64, whose packets everybody discards (RFC 6666).
    pub(super) fn endpoint_of(&self, url: &Uri) -> SocketAddr {
        let mut table = self.lock();
        if let Some(known) = table.by_url.get(url) {
            return *known;
        }
        if table.by_url.len() >= MAX_URLS
            && let Some((_, oldest)) = table.by_number.pop_first()
        {
            table.by_url.remove(&oldest);
        }
        table.last_number = table.last_number.wrapping_add(1);
        let number = table.last_number;
        let [high, low] = [number >> 16, number & 0xffff].map(|half| half as u16);
        let endpoint = SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, high, low), 0));
        table.by_url.insert(url.clone(), endpoint);
        table.by_number.insert(number, url.clone());
        endpoint
    }

    /// Returns the URL that an endpoint stands for.
    pub(super) fn url_of(&self, endpoint: SocketAddr) -> Option<Uri> {
        let SocketAddr::V6(endpoint) = endpoint else {
            return None;
        };
        let [0x100, 0, 0, 0, 0, 0, high, low] = endpoint.ip().segments() else {
            return None;
        };
        let number = u32::from(high) << 16 | u32::from(low);
        self.lock().by_number.get(&number).cloned()
    }

    /// Begins a POST that `spawn` sends, unless its datagram is on the way already or the server has asked for a pause. A control packet
    /// withdraws the POST of its call.
    pub(super) fn begin(&self, target: SocketAddr, head: RequestHead, spawn: impl FnOnce() -> AbortHandle) {
        let mut table = self.lock();
        if table.pauses.get(&target).is_some_and(|end| Instant::now() < *end) {
            return;
        }
        table.pauses.remove(&target);
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
        let mut table = self.lock();
        if table.pauses.len() >= MAX_URLS {
            table.pauses.clear();
        }
        table.pauses.insert(target, Instant::now() + pause.min(MAX_PAUSE));
    }

    /// Ends the calls to a server that may not be dialled.
    pub(super) fn forbid(&self, target: SocketAddr, why: String) {
        if let Some(orders) = self.orders.get() {
            orders.send(ClientOrder::Forbid { target, why });
        }
    }

    /// Notes a call that ends by then.
    pub(super) fn expect_until(&self, until: Instant) {
        let mut table = self.lock();
        table.until = table.until.max(Some(until));
    }

    /// When the last of the calls ends.
    pub(super) fn until(&self) -> Option<Instant> {
        self.lock().until
    }

    /// Gives up POSTs that no call waits for: all but those that tell a server so.
    pub(super) fn give_up(&self) {
        let mut table = self.lock();
        table.until = None;
        table.withdraw(|_| true);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn urls_return_from_their_endpoints_and_the_oldest_is_forgotten() {
        let posts = Posts::default();
        let first = posts.endpoint_of(&url(0));
        assert_eq!(posts.endpoint_of(&url(0)), first);
        for number in 1..MAX_URLS {
            let endpoint = posts.endpoint_of(&url(number));
            assert_eq!(posts.url_of(endpoint), Some(url(number)));
        }
        assert_eq!(posts.url_of(first), Some(url(0)));
        posts.endpoint_of(&url(MAX_URLS));
        assert_eq!(posts.url_of(first), None);
        for stranger in ["[100::1:0:1]:0", "[2001:db8::1]:1", "192.0.2.1:1"] {
            assert_eq!(
                posts.url_of(stranger.parse().expect("an address")),
                None,
                "{stranger}"
            );
        }
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
