//! When a silent peer is asked whether it lives, and when it is given up.

use core::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The side that dialled asks for a sign of life after this long without one.
const ASK_AFTER: Duration = Duration::from_secs(20);
/// It does so this often before it gives the path up.
const QUESTIONS: u32 = 2;
/// The other side gives up later: it hears at least one question in this time.
const PATIENCE: Duration = Duration::from_secs(75);

/// Which end of a path this is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// It dialled, and asks.
    Dialled,
    /// It was dialled, and answers.
    Accepted,
}

/// What to do about a peer that is silent
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silent {
    /// Ask whether it lives.
    Ask,
    /// Close the path.
    GiveUp,
}

/// How long a peer has been silent
#[derive(Debug)]
pub(super) struct Silence {
    side: Side,
    questions: u32,
    until: Instant,
}

impl Silence {
    /// A peer that was heard just now, as this side sees it.
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            questions: 0,
            until: Instant::now() + patience(side),
        }
    }

    /// Notes that the peer was heard.
    pub(super) fn heard(&mut self) {
        *self = Self::new(self.side);
    }

    /// Completes when something has to be done. May be dropped and called again.
    pub(super) async fn lasts(&mut self) -> Silent {
        sleep_until(self.until).await;
        if self.side == Side::Accepted || self.questions == QUESTIONS {
            return Silent::GiveUp;
        }
        self.questions += 1;
        self.until = Instant::now() + patience(self.side);
        Silent::Ask
    }
}

fn patience(side: Side) -> Duration {
    match side {
        Side::Dialled => ASK_AFTER,
        Side::Accepted => PATIENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_dialled_asks_twice_and_then_gives_up() {
        let mut silence = Silence::new(Side::Dialled);
        for _ in 0..2 {
            assert_eq!(silence.lasts().await, Silent::Ask);
        }
        silence.heard();
        for _ in 0..2 {
            assert_eq!(silence.lasts().await, Silent::Ask);
        }
        assert_eq!(silence.lasts().await, Silent::GiveUp);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_dialled_waits_longer_than_two_questions_take() {
        let (mut dialled, mut accepted) = (Silence::new(Side::Dialled), Silence::new(Side::Accepted));
        let began = Instant::now();
        while dialled.lasts().await == Silent::Ask {}
        let asked = began.elapsed();
        assert_eq!(accepted.lasts().await, Silent::GiveUp);
        assert!(began.elapsed() > asked);
    }
}
