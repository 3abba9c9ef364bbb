//! What lies between the hosts.

use std::collections::BTreeSet;

use fastrand::Rng;

/// First time after which a lost segment is sent again (RFC 6298, section 2, as deployed).
const RETRANSMIT_MS: u64 = 200;
/// Longest way from one side of the map to the other, in milliseconds.
const MAP_MS: u32 = 80;

/// Whether frames on a connection keep their order
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Like a WebSocket: what is lost is sent again, and what follows waits for it.
    Ordered,
    /// Like HTTP requests, one for each frame: they overtake each other, and one that is sent again may arrive twice.
    Exchange,
}

/// Where a host stands; the distance is the time that a frame takes
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    x: u32,
    y: u32,
}

impl Place {
    pub(crate) fn random(dice: &mut Rng) -> Self {
        Self {
            x: dice.u32(0..MAP_MS),
            y: dice.u32(0..MAP_MS),
        }
    }

    fn way_ms(self, other: Self) -> u64 {
        let square = self.x.abs_diff(other.x).pow(2) + self.y.abs_diff(other.y).pow(2);
        u64::from(square.isqrt()) / 2 + 1
    }
}

/// How good or bad the network is
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Of a thousand frames, how many are lost and sent again by the transport.
    pub loss: u32,
    /// Most that a frame may take longer than its way, in milliseconds.
    pub jitter_ms: u64,
    /// Most that a frame of an exchange may be late beside that, while others overtake it, in milliseconds.
    pub reorder_ms: u64,
    /// Of a thousand frames of exchanges, how many arrive twice.
    pub duplicates: u32,
    walls: BTreeSet<(u8, u8)>,
    cuts: BTreeSet<(usize, usize)>,
}

impl Network {
    /// Lets nothing pass from hosts of one group to those of another; the other way it still may.
    pub fn wall(&mut self, from: u8, to: u8) {
        self.walls.insert((from, to));
    }

    /// Lets nothing pass from one host to another; the other way it still may.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Lets everything pass from one host to another again, unless there is a wall.
    pub fn mend(&mut self, from: usize, to: usize) {
        self.cuts.remove(&(from, to));
    }

    /// Takes all walls and cuts away.
    pub fn heal(&mut self) {
        self.walls.clear();
        self.cuts.clear();
    }

    /// Whether frames pass from one host, with its group, to another.
    pub(crate) fn passes(&self, from: (usize, u8), to: (usize, u8)) -> bool {
        let is_walled = !self.walls.is_empty() && self.walls.contains(&(from.1, to.1));
        let is_cut = !self.cuts.is_empty() && self.cuts.contains(&(from.0, to.0));
        !is_walled && !is_cut
    }

    /// How much later than its way each copy of a frame of an exchange arrives.
    pub(crate) fn copies_ms(&self, dice: &mut Rng) -> Vec<u64> {
        let is_double = self.duplicates > 0 && dice.u32(0..1000) < self.duplicates;
        (0..=u32::from(is_double))
            .map(|_| dice.u64(0..=self.reorder_ms))
            .collect()
    }

    /// How long a frame takes, with what a reliable transport needs to send it again when it is lost.
    pub(crate) fn delay_ms(&self, dice: &mut Rng, from: Place, to: Place) -> u64 {
        let mut delay_ms = from.way_ms(to);
        if self.jitter_ms > 0 {
            delay_ms += dice.u64(0..=self.jitter_ms);
        }
        let mut again_ms = RETRANSMIT_MS;
        while self.loss > 0 && dice.u32(0..1000) < self.loss {
            delay_ms += again_ms;
            again_ms *= 2;
        }
        delay_ms
    }
}
