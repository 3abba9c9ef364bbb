//! What lies between the hosts.

use std::collections::BTreeSet;

use fastrand::Rng;

/// First time after which a lost segment is sent again (RFC 6298, section 2, as deployed).
const RETRANSMIT_MS: u64 = 200;
/// Longest way from one side of the map to the other, in milliseconds.
const MAP_MS: u32 = 80;

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
    walls: BTreeSet<(u8, u8)>,
}

impl Network {
    /// Lets nothing pass from hosts of one group to those of another; the other way it still may.
    pub fn wall(&mut self, from: u8, to: u8) {
        self.walls.insert((from, to));
    }

    /// Takes all walls away.
    pub fn heal(&mut self) {
        self.walls.clear();
    }

    pub(crate) fn passes(&self, from: u8, to: u8) -> bool {
        self.walls.is_empty() || !self.walls.contains(&(from, to))
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
