//! Who serves a name: asked of the ring for calls, and followed for the application.

use alloc::vec::Vec;

use selfsame_codec::reply::{ProviderView, encode_providers};
use selfsame_codec::{Code, Output};

use super::Node;
use super::ring_driver::Purpose;
use super::timers::Timer;
use crate::gather::Gather as _;
use crate::mesh::{Name, REFRESH_MS};
use crate::ring::Provider;
use selfsame_sorted_map::Map;

/// Most names that are watched at a time.
const MAX_WATCHES: usize = 256;

struct Watch {
    name: Name,
    /// What the application was told last.
    told: Option<Vec<u8>>,
}

/// Names that the application follows, by the tags of its commands
#[derive(Default)]
pub(super) struct Watches {
    table: Map<u32, Watch>,
    /// When the ring is asked again.
    next_ms: u64,
}

impl Node {
    /// Has the ring asked who serves a name, unless it is being asked. Once providers have failed, all sibling objects are
    /// looked up (Themis, section 7: until a healthy one is found). Says whether they are.
    pub(super) fn discover(&mut self, name: Name, have_failed: bool) -> bool {
        let is_wide = have_failed || self.mesh.is_failing(&name);
        if !self.ring_driver.is_discovering(&name, is_wide) {
            let command = self.ring_command(Purpose::Discover(name.clone(), is_wide));
            self.ring_with(|ring, cx| ring.find_up_to(cx, command, name.0, &name.1, is_wide));
        }
        is_wide
    }

    /// The ring found providers, for a command or for calls.
    pub(super) fn found(&mut self, command: u32, providers: Vec<Provider>) {
        match self.ring_driver.take_purpose(command) {
            Some(Purpose::Command(tag)) => {
                let body = self.providers_body(&providers);
                self.reply(tag, &body);
            }
            Some(Purpose::Discover(name, is_wide)) => {
                for record in providers.iter().filter_map(|provider| provider.record.clone()) {
                    self.ring_with(|ring, cx| ring.learn(cx, record));
                }
                self.mesh.learn(name.clone(), providers, self.now_ms);
                self.discovered(&name, is_wide, None);
                self.tell_watches(&name);
            }
            Some(Purpose::Join(_) | Purpose::Relay { .. } | Purpose::Route(_)) | None => {}
        }
    }

    /// The ring found no provider. What was known before counts until it is too old, unless nobody serves the name any more.
    pub(super) fn discovery_failed(&mut self, name: &Name, is_wide: bool, why: Code) {
        if why == Code::NoProvider {
            self.mesh.forget(name);
        }
        self.discovered(name, is_wide, Some(why));
        self.tell_watches(name);
    }

    /// The command `Watch`.
    pub(super) fn watch_name(&mut self, tag: u32, name: Name) -> Result<(), Code> {
        if self.providers.table.len() >= MAX_WATCHES {
            return Err(Code::TooManyRequests);
        }
        let watch = Watch {
            name: name.clone(),
            told: None,
        };
        self.providers.table.insert(tag, watch);
        if self.mesh.is_due(&name, self.now_ms) {
            self.discover(name, false);
        } else {
            self.tell_watches(&name);
        }
        self.set_watch_timer();
        Ok(())
    }

    /// Follows a name no more; says whether it was followed.
    pub(super) fn cancel_watch(&mut self, tag: u32) -> bool {
        let was_there = self.providers.table.remove(&tag).is_some();
        if was_there && self.providers.table.is_empty() {
            self.timers.clear(self.providers.next_ms, Timer::Watches);
        }
        was_there
    }

    pub(super) fn refresh_watches(&mut self) {
        let names: Vec<Name> = self
            .providers
            .table
            .values()
            .map(|watch| watch.name.clone())
            .gather();
        for name in names {
            if self.mesh.is_due(&name, self.now_ms) {
                self.discover(name, false);
            } else {
                self.tell_watches(&name);
            }
        }
        self.set_watch_timer();
    }

    fn set_watch_timer(&mut self) {
        self.timers.clear(self.providers.next_ms, Timer::Watches);
        if !self.providers.table.is_empty() {
            self.providers.next_ms = self.now_ms + REFRESH_MS;
            self.timers.set(self.providers.next_ms, Timer::Watches);
        }
    }

    /// Tells those who follow a name what has changed.
    fn tell_watches(&mut self, name: &Name) {
        if !self.providers.table.values().any(|watch| watch.name == *name) {
            return;
        }
        let providers = self.mesh.providers(name, self.now_ms).unwrap_or_default();
        let body = self.providers_body(providers);
        for (tag, watch) in self.providers.table.iter_mut() {
            if watch.name == *name && watch.told.as_ref() != Some(&body) {
                self.out.push(&Output::Providers {
                    tag: *tag,
                    body: &body,
                });
                watch.told = Some(body.clone());
            }
        }
    }

    fn providers_body(&self, providers: &[Provider]) -> Vec<u8> {
        let mut views = Vec::new();
        for provider in providers {
            views.push(self.provider_view(provider));
        }
        encode_providers(&views)
    }

    fn provider_view<'a>(&self, provider: &'a Provider) -> ProviderView<'a> {
        let standing = self.mesh.standing(&provider.peer, self.now_ms);
        ProviderView {
            peer: provider.peer.0,
            version: &provider.version,
            weight: provider.weight,
            node: provider.record.as_ref().map(super::status::view),
            ejected: standing.is_ejected,
            in_flight: standing.in_flight,
            latency_ms: standing.latency_ms,
        }
    }
}
