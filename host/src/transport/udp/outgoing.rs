//! The sending half of a connection over UDP: what to send when, and what was lost.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::incoming::{DELAY, MAX_WINDOW};
use super::packet::{Packet, SEGMENT};

/// Congestion window of a new connection (RFC 6928, section 2).
const FIRST_WINDOW: usize = 10 * SEGMENT;
/// Least congestion window after a loss.
const LEAST_WINDOW: usize = 2 * SEGMENT;
/// A loss leaves seven tenths of the congestion window (RFC 9438, section 4.6).
const DECREASE: (usize, usize) = (7, 10);
/// What was sent this many packets before something that arrived is lost.
const REORDERING: u64 = 3;
/// Retransmission time before the first measurement (RFC 6298, section 2.1).
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Least and longest retransmission time.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Doublings after which it is the longest, whatever was measured.
const MAX_DOUBLINGS: u32 = 6;
/// Most segments under way: a window of whole ones. Tiny ones would cost more than they hold.
const MAX_SEGMENTS: usize = MAX_WINDOW as usize / SEGMENT + 1;
/// A peer that acknowledges nothing for this long is gone.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was sent and may arrive.
    UnderWay,
    /// It is to be sent again.
    Lost,
    /// It arrived.
    Arrived,
}

/// A piece of the stream, sent and not acknowledged with all before it
#[derive(Debug)]
struct Segment {
    offset: u64,
    bytes: Bytes,
    ends: bool,
    state: State,
    sent: Instant,
    /// Number of the packet that carried it last.
    number: u64,
    was_resent: bool,
}

impl Segment {
    fn stop(&self) -> u64 {
        self.offset + self.bytes.len() as u64 + u64::from(self.ends)
    }

    /// What it takes of the congestion window; an end alone is not for nothing.
    fn cost(&self) -> usize {
        self.bytes.len().max(1)
    }
}

/// How long a round trip takes (RFC 6298)
#[derive(Debug)]
struct RoundTrip {
    smoothed: Option<(Duration, Duration)>,
}

impl RoundTrip {
    fn measured(&mut self, sample: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => {
                let off = mean.abs_diff(sample);
                ((mean * 7 + sample) / 8, (deviation * 3 + off) / 4)
            }
        });
    }

    /// After how long something is sent again to hear what arrived (RFC 8985, section 7.2), when that is known.
    fn probe(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean * 2 + DELAY)
    }

    fn timeout(&self) -> Duration {
        self.smoothed.map_or(FIRST_TIMEOUT, |(mean, deviation)| {
            (mean + deviation * 4).clamp(LEAST_TIMEOUT, LONGEST_TIMEOUT)
        })
    }
}

/// A stream as it is sent
#[derive(Debug)]
pub(super) struct Outgoing {
    queue: BytesMut,
    /// Whether it ends behind what is queued, and whether that was sent.
    ends: bool,
    end_was_sent: bool,
    segments: VecDeque<Segment>,
    lost: usize,
    /// Offset of what is sent next for the first time.
    next: u64,
    /// Where the peer's room ends.
    limit: u64,
    under_way: usize,
    window: usize,
    /// Below it the window doubles in each round trip.
    threshold: usize,
    /// Number of the next packet.
    number: u64,
    /// Losses of packets below this were answered for already.
    recovers_until: u64,
    /// Highest number of what arrived.
    arrived_number: u64,
    round_trip: RoundTrip,
    timeouts: u32,
    /// Whether something was sent again since something was acknowledged.
    has_probed: bool,
    /// When the retransmission timer was started, and when something was acknowledged last.
    since: Instant,
    progress: Instant,
}

impl Outgoing {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            queue: BytesMut::new(),
            ends: false,
            end_was_sent: false,
            segments: VecDeque::new(),
            lost: 0,
            next: 0,
            limit: MAX_WINDOW,
            under_way: 0,
            window: FIRST_WINDOW,
            threshold: usize::MAX,
            number: 0,
            recovers_until: 0,
            arrived_number: 0,
            round_trip: RoundTrip { smoothed: None },
            timeouts: 0,
            has_probed: false,
            since: now,
            progress: now,
        }
    }

    /// Where bytes to be sent are put.
    pub(super) fn queue(&mut self) -> &mut BytesMut {
        &mut self.queue
    }

    /// Bytes that wait to be sent for the first time.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Nothing follows what is queued.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Whether the peer has everything, the end included.
    pub(super) fn is_done(&self) -> bool {
        self.end_was_sent && self.segments.is_empty()
    }

    /// Offset of what would be sent next: that of a packet which carries nothing.
    pub(super) fn offset(&self) -> u64 {
        self.next
    }

    /// Takes what a packet says of what arrived.
    pub(super) fn acknowledged(&mut self, packet: &Packet<'_>, now: Instant) {
        let sent = self.next + u64::from(self.end_was_sent);
        let highest = packet
            .ranges
            .last()
            .map_or(packet.acknowledged, |range| range.end);
        if highest > sent {
            // Nobody who has the stream can say so.
            return;
        }
        let room = u64::from(packet.window).min(MAX_WINDOW);
        self.limit = self.limit.max(packet.acknowledged + room);
        let was_used = 2 * self.under_way >= self.window;
        let mut gained = 0;
        while self
            .segments
            .front()
            .is_some_and(|first| first.stop() <= packet.acknowledged)
        {
            gained += self.arrived_at(0, now);
            self.segments.pop_front();
        }
        for range in &packet.ranges {
            let mut at = self
                .segments
                .partition_point(|segment| segment.offset < range.start);
            while self
                .segments
                .get(at)
                .is_some_and(|segment| segment.stop() <= range.end)
            {
                gained += self.arrived_at(at, now);
                at += 1;
            }
        }
        if gained == 0 {
            // It lives, and its reader reads nothing: that may last.
            if self
                .segments
                .front()
                .is_some_and(|first| self.limit <= first.offset)
            {
                self.progress = now;
            }
            return;
        }
        (self.since, self.progress, self.timeouts) = (now, now, 0);
        self.has_probed = false;
        if was_used && self.arrived_number >= self.recovers_until {
            self.grow(gained);
        }
        self.find_losses();
    }

    /// Notes that a segment arrived; how many bytes are under way no more, or lost no more.
    fn arrived_at(&mut self, at: usize, now: Instant) -> usize {
        let segment = &mut self.segments[at];
        match core::mem::replace(&mut segment.state, State::Arrived) {
            State::Arrived => return 0,
            State::UnderWay => self.under_way -= segment.cost(),
            State::Lost => self.lost -= 1,
        }
        if segment.number >= self.arrived_number {
            self.arrived_number = segment.number;
            // What was sent twice does not tell which of the two arrived.
            if !segment.was_resent {
                self.round_trip.measured(now - segment.sent);
            }
        }
        segment.cost()
    }

    /// Opens the congestion window by what arrived (RFC 5681, section 3.1).
    fn grow(&mut self, gained: usize) {
        self.window += if self.window < self.threshold {
            gained
        } else {
            SEGMENT * gained / self.window
        };
        self.window = self.window.min(MAX_WINDOW as usize);
    }

    fn find_losses(&mut self) {
        let mut is_new = false;
        for segment in &mut self.segments {
            if segment.state != State::UnderWay {
                continue;
            }
            if segment.number + REORDERING <= self.arrived_number {
                segment.state = State::Lost;
                self.lost += 1;
                self.under_way -= segment.cost();
                is_new |= segment.number >= self.recovers_until;
            } else if !segment.was_resent {
                // Those behind it were sent later.
                break;
            }
        }
        if is_new {
            self.close_window();
            self.window = self.threshold;
        }
    }

    /// Answers for a loss, and for all that is under way with it.
    fn close_window(&mut self) {
        self.threshold = (self.window * DECREASE.0 / DECREASE.1).max(LEAST_WINDOW);
        self.recovers_until = self.number;
    }

    /// When what is under way is asked after, or counts as lost, unless something is acknowledged.
    pub(super) fn timeout_at(&self) -> Option<Instant> {
        let doubled = self.round_trip.timeout() * 2_u32.pow(self.timeouts.min(MAX_DOUBLINGS));
        let timeout = doubled.min(LONGEST_TIMEOUT);
        let probe = self.round_trip.probe().filter(|_| !self.has_probed);
        (self.under_way > 0).then(|| self.since + probe.map_or(timeout, |probe| probe.min(timeout)))
    }

    /// The time for an acknowledgement is over; whether the peer may still be there.
    pub(super) fn timed_out(&mut self, now: Instant) -> bool {
        if !core::mem::replace(&mut self.has_probed, true) && self.round_trip.smoothed.is_some() {
            self.lose_first();
            return true;
        }
        if self.timeouts == 0 {
            self.close_window();
        }
        self.window = SEGMENT;
        self.timeouts += 1;
        self.since = now;
        self.under_way = 0;
        for segment in &mut self.segments {
            if segment.state == State::UnderWay {
                segment.state = State::Lost;
                self.lost += 1;
            }
        }
        self.recovers_until = self.number;
        now - self.progress < PATIENCE
    }

    /// Has the first segment under way sent again: its acknowledgement tells what became of those behind it.
    fn lose_first(&mut self) {
        let is_under_way = |segment: &&mut Segment| segment.state == State::UnderWay;
        if let Some(first) = self.segments.iter_mut().find(is_under_way) {
            first.state = State::Lost;
            self.lost += 1;
            self.under_way -= first.cost();
        }
    }

    /// What is to be sent now: where it is in the stream, its bytes, and whether the stream ends behind them.
    pub(super) fn next(&mut self, now: Instant) -> Option<(u64, Bytes, bool)> {
        let at = if self.lost > 0 {
            self.again()?
        } else {
            self.cut(now)?
        };
        if self.under_way == 0 {
            self.since = now;
        }
        let segment = &mut self.segments[at];
        (segment.state, segment.sent, segment.number) = (State::UnderWay, now, self.number);
        self.number += 1;
        self.under_way += segment.cost();
        Some((segment.offset, segment.bytes.clone(), segment.ends))
    }

    /// Whether the congestion window takes so much more; one packet may always be under way.
    fn has_room_for(&self, cost: usize) -> bool {
        self.under_way == 0 || self.under_way + cost <= self.window
    }

    /// The first of what was lost.
    fn again(&mut self) -> Option<usize> {
        let at = self
            .segments
            .iter()
            .position(|segment| segment.state == State::Lost)?;
        if !self.has_room_for(self.segments[at].cost()) {
            return None;
        }
        self.segments[at].was_resent = true;
        self.lost -= 1;
        Some(at)
    }

    /// A new segment of what is queued.
    fn cut(&mut self, now: Instant) -> Option<usize> {
        if self.segments.len() >= MAX_SEGMENTS || !self.has_room_for(self.queue.len().clamp(1, SEGMENT)) {
            return None;
        }
        let room = match self.limit.saturating_sub(self.next) {
            // A window that is closed is asked after.
            0 if self.under_way == 0 => SEGMENT as u64,
            room => room,
        };
        let len = self
            .queue
            .len()
            .min(SEGMENT)
            .min(usize::try_from(room).unwrap_or(SEGMENT));
        let ends = self.ends && !self.end_was_sent && len == self.queue.len();
        if len == 0 && !ends {
            return None;
        }
        if self.segments.is_empty() {
            self.progress = now;
        }
        self.segments.push_back(Segment {
            offset: self.next,
            bytes: self.queue.split_to(len).freeze(),
            ends,
            state: State::UnderWay,
            sent: now,
            number: self.number,
            was_resent: false,
        });
        self.next += len as u64;
        self.end_was_sent |= ends;
        Some(self.segments.len() - 1)
    }
}
