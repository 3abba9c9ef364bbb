//! Connections between two hosts: reliable, and ordered like a WebSocket over TCP or not, like HTTP requests.

use selfsame_codec::{Input, PathKind};

use super::World;
use crate::host::End;
use crate::machine::Machine;
use crate::network::Transport;
use crate::queue::Event;

/// How long a system tries to reach a host that does not answer at all.
const CONNECT_TIMEOUT_MS: u64 = 10_000;

/// A connection: side 0 has dialled
pub(super) struct Link {
    hosts: [usize; 2],
    paths: [u32; 2],
    dial: u32,
    incarnation: u32,
    transport: Transport,
    /// When the last frame to each side arrives: the next one comes no earlier.
    last_ms: [u64; 2],
    /// Nothing arrives any more, because one side is gone or something was lost between them for good.
    is_broken: bool,
    /// Sides that still hold it; the one that dials does from the beginning.
    held: u8,
}

impl<M: Machine> World<M> {
    pub(super) fn dial(&mut self, from: usize, dial: u32, address: &str) {
        let to = self.at_address.get(address).copied().filter(|to| *to != from);
        let incarnation = self.hosts[from].incarnation;
        let failed = Event::DialFailed {
            host: from,
            incarnation,
            dial,
        };
        let Some(to) = to else {
            self.queue.add(self.now_ms + 1, failed);
            return;
        };
        if !self.hosts_reach_each_other(from, to) || !self.hosts[to].is_reachable {
            self.queue.add(self.now_ms + CONNECT_TIMEOUT_MS, failed);
            return;
        }
        let way_ms = self.delay_ms(from, to);
        if self.hosts[to].core.is_none() {
            let back_ms = self.delay_ms(to, from);
            self.queue.add(self.now_ms + way_ms + back_ms, failed);
            return;
        }
        let transport = match address.split_once("://") {
            Some(("http" | "https", _)) => Transport::Exchange,
            _ => Transport::Ordered,
        };
        self.last_link += 1;
        let link = self.last_link;
        self.links.insert(
            link,
            Link {
                hosts: [from, to],
                paths: [0, 0],
                dial,
                incarnation,
                transport,
                last_ms: [0, 0],
                is_broken: false,
                held: 1,
            },
        );
        self.queue.add(self.now_ms + way_ms, Event::Accept { link });
    }

    /// The dialled host gets the connection; its answer is under way to the other.
    pub(super) fn accept(&mut self, number: u64) {
        let Some(link) = self.links.get(&number) else {
            return;
        };
        let [from, to] = link.hosts;
        let (dial, incarnation) = (link.dial, link.incarnation);
        let back_ms = self.delay_ms(to, from);
        if self.hosts[to].core.is_none() {
            self.links.remove(&number);
            let host = from;
            self.queue.add(
                self.now_ms + back_ms,
                Event::DialFailed {
                    host,
                    incarnation,
                    dial,
                },
            );
            return;
        }
        let path = self.hold(to, number, 1);
        if let Some(link) = self.links.get_mut(&number) {
            link.held = 2;
        }
        let established_ms = self.now_ms + back_ms;
        if let Some(link) = self.links.get_mut(&number) {
            link.last_ms[0] = established_ms;
        }
        self.queue
            .add(established_ms, Event::Established { link: number });
        let remote = format!("{}:{}", ip_address(from), 40_000 + number % 20_000);
        self.happen(Event::Opened {
            host: to,
            path,
            remote,
        });
    }

    /// The host that dialled gets the connection.
    pub(super) fn established(&mut self, number: u64) {
        let Some(link) = self.links.get(&number) else {
            return;
        };
        let [from, to] = link.hosts;
        let dial = link.dial;
        if self.hosts[from].incarnation != link.incarnation || self.hosts[from].core.is_none() {
            // The system of the host that dialled does not know the connection any more.
            let end = End {
                link: number,
                side: 0,
            };
            self.abandon(end, true);
            return;
        }
        if let Some(frozen) = &mut self.hosts[from].frozen {
            frozen.push(Event::Established { link: number });
            return;
        }
        let path = self.hold(from, number, 0);
        let remote = format!("{}:443", ip_address(to));
        self.opened(from, path, dial, &remote);
        let other_left = self.links.get(&number).is_some_and(|link| link.held < 2);
        if other_left {
            self.queue
                .add(self.now_ms + 1, Event::Closed { host: from, path });
        }
    }

    fn hold(&mut self, host: usize, number: u64, side: usize) -> u32 {
        let holder = &mut self.hosts[host];
        holder.last_path += 1;
        let path = holder.last_path;
        holder.paths.insert(path, End { link: number, side });
        if let Some(link) = self.links.get_mut(&number) {
            link.paths[side] = path;
        }
        path
    }

    pub(super) fn opened(&mut self, host: usize, path: u32, dial: u32, remote: &str) {
        let end = self.hosts[host].paths.get(&path);
        let link = end.and_then(|end| self.links.get(&end.link));
        let kind = match link.map(|link| link.transport) {
            Some(Transport::Exchange) => PathKind::Exchange,
            _ => PathKind::Ordered,
        };
        let opened = Input::PathOpened {
            path,
            dial,
            kind,
            remote,
        };
        self.step(host, &[opened]);
    }

    pub(super) fn transmit(&mut self, host: usize, path: u32, frame: &[u8]) {
        if let Some(inbox) = self.hosts[host].outside.get_mut(&path) {
            return inbox.push(frame.to_vec());
        }
        let Some(end) = self.hosts[host].paths.get(&path).copied() else {
            return;
        };
        let Some(link) = self.links.get(&end.link) else {
            return;
        };
        let other = 1 - end.side;
        let (to, to_path, is_broken) = (link.hosts[other], link.paths[other], link.is_broken);
        if !self.passes(host, to) {
            // The transport goes on trying and then gives up; what comes later cannot come before what was lost.
            if let Some(link) = self.links.get_mut(&end.link) {
                link.is_broken = true;
            }
            return;
        }
        let way_ms = self.delay_ms(host, to);
        if is_broken {
            // The other system, if it can be heard, does not know the connection.
            if self.hosts_reach_each_other(host, to) {
                let back_ms = self.delay_ms(to, host);
                self.queue
                    .add(self.now_ms + way_ms + back_ms, Event::Closed { host, path });
            }
            return;
        }
        let at_ms = self.now_ms + way_ms;
        let Some(link) = self.links.get_mut(&end.link) else {
            return;
        };
        let arrivals = match link.transport {
            Transport::Ordered => {
                let arrives_ms = at_ms.max(link.last_ms[other]);
                link.last_ms[other] = arrives_ms;
                vec![arrives_ms]
            }
            Transport::Exchange => {
                let copies = self.network.copies_ms(&mut self.dice).into_iter();
                copies.map(|late_ms| at_ms + late_ms).collect()
            }
        };
        for arrives_ms in arrivals {
            let frame = frame.into();
            self.queue.add(
                arrives_ms,
                Event::Frame {
                    host: to,
                    path: to_path,
                    frame,
                },
            );
        }
    }

    /// One end lets go of a connection; the other is told if the system still can.
    pub(super) fn abandon(&mut self, end: End, tell: bool) {
        self.release(end);
        let Some(link) = self.links.get(&end.link) else {
            return;
        };
        let other = 1 - end.side;
        let (from, to, path) = (link.hosts[end.side], link.hosts[other], link.paths[other]);
        let last_ms = link.last_ms[other];
        if tell && path != 0 && self.passes(from, to) {
            let at_ms = (self.now_ms + self.delay_ms(from, to)).max(last_ms);
            self.queue.add(at_ms, Event::Closed { host: to, path });
        }
    }

    /// One end lets go of a connection that its system has closed.
    pub(super) fn release(&mut self, end: End) {
        if let Some(link) = self.links.get_mut(&end.link) {
            link.is_broken = true;
            link.held -= 1;
            if link.held == 0 {
                self.links.remove(&end.link);
            }
        }
    }

    fn hosts_reach_each_other(&self, one: usize, other: usize) -> bool {
        self.passes(one, other) && self.passes(other, one)
    }

    fn passes(&self, from: usize, to: usize) -> bool {
        let (from_group, to_group) = (self.hosts[from].group, self.hosts[to].group);
        self.network.passes((from, from_group), (to, to_group))
    }

    fn delay_ms(&mut self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.hosts[from].place, self.hosts[to].place);
        self.network.delay_ms(&mut self.dice, from, to)
    }
}

/// The IP address of a host, which is the only one in its /24 network: nodes have a quota for each.
fn ip_address(host: usize) -> String {
    format!("10.{}.{}.1", host / 250, host % 250)
}
