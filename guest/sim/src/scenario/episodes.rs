//! Faults of one member that take time: a store restored or cloned, an address or a clock changed and changed back.

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};

use clap::ValueEnum;
use fastrand::Rng;
use selfsame_codec::{Code, Input};

use super::schedules::{Failure, LOOK_EVERY_MS, Play, SETTLE_MS};
use crate::disk::Disk;
use crate::world::End;

/// Time between two changes of one episode that the member is to live with, in milliseconds.
const STAGE_MS: Range<u64> = 1_000..40_000;
/// Time between the end of a process and its next start, in milliseconds.
const DOWN_MS: Range<u64> = 0..3_000;
/// Longest that a clone may run beside the original before it has found out and stopped.
const CLONE_STOPS_MS: u64 = 30_000;
/// How far a clock is wrong when a time zone was mistaken.
const HOUR_MS: u64 = 60 * 60_000;
/// How far a clock is wrong that jumps beyond the life of all records.
const TWO_DAYS_MS: u64 = 48 * HOUR_MS;
/// How long the clock is two days ahead.
const TWO_DAYS_FOR_MS: u64 = 30_000;

/// A kind of fault in a schedule
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Members join, leave, die and return; leaves come and go; frames do not pass for a while.
    Churn,
    /// A store is copied while its node runs; later the node is stopped and started from the copy.
    Restore,
    /// A copy of a store runs as a second node at another address for a while.
    Clone,
    /// A copy of a store runs as a second node at another address until it stops by itself.
    Duplicate,
    /// A node moves to another address, and is then restored from an older copy at the earlier one.
    Move,
    /// A clock is an hour ahead for a while; some nodes get another address meanwhile, some are started again after it.
    HourAhead,
    /// All clocks are an hour ahead for a while, as those of one machine; a node gets another address
    /// meanwhile and is started again after it.
    AllAhead,
    /// A clock is two days ahead for 30 s.
    DaysAhead,
    /// A node gets another address, and later the earlier one again.
    Readdress,
}

impl Fault {
    /// Those that befall one member and take time.
    pub const EPISODES: [Self; 8] = [
        Self::Restore,
        Self::Clone,
        Self::Duplicate,
        Self::Move,
        Self::HourAhead,
        Self::AllAhead,
        Self::DaysAhead,
        Self::Readdress,
    ];
}

/// Where a member starts again
enum Site {
    Same,
    New,
    At(String),
}

/// A change within an episode
enum Step {
    Stop,
    Start { site: Site, store: Option<Disk> },
    StartClone { store: Disk },
    StopClone,
    ExpectDuplicate,
    SetClock { ahead_ms: u64 },
    SetClocks { ahead_ms: u64 },
}

/// A fault that a member is in the middle of
pub(super) struct Episode {
    pub(super) subject: usize,
    clone: Option<usize>,
    due_ms: u64,
    /// What comes next, each with the time from what came before.
    steps: VecDeque<(u64, Step)>,
}

impl Play {
    /// Whether the ring may be in pieces, because all clocks are or were wrong.
    pub(super) fn is_unwatched(&self) -> bool {
        self.world.now_ms() < self.unwatched_until_ms
    }

    /// Members in the middle of an episode: others may miss them, and they may know nobody.
    pub(super) fn unreliable(&self) -> BTreeSet<[u8; 32]> {
        let subjects = self.episodes.iter().map(|episode| episode.subject);
        let subjects = subjects.map(|host| self.world.hosts()[host].id().0);
        let now_ms = self.world.now_ms();
        let corrected = self.corrected.iter().filter(|(_, until_ms)| now_ms < *until_ms);
        subjects.chain(corrected.map(|(id, _)| *id)).collect()
    }

    /// Begins an episode of a member.
    pub(super) fn begin(&mut self, fault: Fault, subject: usize) {
        let steps = self.steps_of(fault, subject);
        let due_ms = self.world.now_ms() + steps.front().map_or(0, |(after_ms, _)| *after_ms);
        self.returning.insert(self.world.hosts()[subject].id().0);
        self.episodes.push(Episode {
            subject,
            clone: None,
            due_ms,
            steps,
        });
    }

    /// What happens to a member, each with the time from what came before.
    fn steps_of(&mut self, fault: Fault, subject: usize) -> VecDeque<(u64, Step)> {
        let store = self.world.copy_store(subject);
        let earlier = Site::At(self.world.hosts()[subject].address().to_owned());
        let dice = self.world.dice();
        let (first_ms, second_ms) = (dice.u64(STAGE_MS), dice.u64(STAGE_MS));
        let restart = |dice: &mut Rng, after_ms: u64, site, store| {
            let start = Step::Start { site, store };
            [(after_ms, Step::Stop), (dice.u64(DOWN_MS), start)]
        };
        let restore = restart(dice, first_ms, Site::Same, Some(store.copy()));
        let elsewhere = restart(dice, 0, Site::New, None);
        let meanwhile = restart(dice, second_ms, Site::New, None);
        let again = restart(dice, second_ms, Site::Same, None);
        let clone = (dice.u64(DOWN_MS), Step::StartClone { store: store.copy() });
        let clock = |after_ms, ahead_ms| [(after_ms, Step::SetClock { ahead_ms })];
        let clocks = |after_ms, ahead_ms| [(after_ms, Step::SetClocks { ahead_ms })];
        let mut steps = VecDeque::new();
        match fault {
            Fault::Churn => {}
            Fault::Restore => steps.extend(restore),
            Fault::Clone => steps.extend([clone, (second_ms, Step::StopClone)]),
            Fault::Duplicate => steps.extend([clone, (CLONE_STOPS_MS, Step::ExpectDuplicate)]),
            Fault::Move => {
                steps.extend(elsewhere);
                steps.extend(restart(dice, first_ms, earlier, Some(store)));
            }
            Fault::Readdress => {
                steps.extend(elsewhere);
                steps.extend(restart(dice, first_ms, earlier, None));
            }
            Fault::HourAhead => {
                let (moves, starts_again) = (dice.bool(), dice.bool());
                steps.extend(clock(0, HOUR_MS));
                steps.extend(meanwhile.into_iter().filter(|_| moves));
                steps.extend(clock(first_ms, 0));
                steps.extend(again.into_iter().filter(|_| starts_again));
            }
            Fault::AllAhead => {
                steps.extend(clocks(0, HOUR_MS));
                steps.extend(meanwhile);
                steps.extend(clocks(first_ms, 0));
                steps.extend(again);
            }
            Fault::DaysAhead => {
                steps.extend(clock(0, TWO_DAYS_MS));
                steps.extend(clock(TWO_DAYS_FOR_MS, 0));
            }
        }
        steps
    }

    /// Takes the steps of all episodes that are due.
    pub(super) fn go_on(&mut self) -> Result<(), Failure> {
        let now_ms = self.world.now_ms();
        for mut episode in core::mem::take(&mut self.episodes) {
            while episode.due_ms <= now_ms
                && let Some((_, step)) = episode.steps.pop_front()
            {
                if let Some(step) = self.take_step(&mut episode, step)? {
                    episode.steps.push_front((0, step));
                    episode.due_ms = now_ms + LOOK_EVERY_MS;
                } else if let Some((after_ms, _)) = episode.steps.front() {
                    episode.due_ms = now_ms + after_ms;
                }
            }
            if !episode.steps.is_empty() {
                self.episodes.push(episode);
            }
        }
        Ok(())
    }

    /// Takes a step, or gives it back when it has to wait.
    fn take_step(&mut self, episode: &mut Episode, step: Step) -> Result<Option<Step>, Failure> {
        let subject = episode.subject;
        match step {
            Step::Stop if !self.is_dispensable(self.world.hosts()[subject].id().0) => return Ok(Some(step)),
            Step::Stop => self.stop(subject),
            // It is still leaving.
            Step::Start { .. } if self.world.hosts()[subject].is_up() => return Ok(Some(step)),
            Step::Start { site, store } => {
                match site {
                    Site::Same => {}
                    Site::New => self.world.readdress(subject),
                    Site::At(address) => self.world.move_to(subject, &address),
                }
                if let Some(store) = store {
                    self.world.restore_store(subject, store);
                }
                self.start(subject, subject);
            }
            Step::StartClone { store } => {
                let clone = self.world.add_clone(subject, store);
                episode.clone = Some(clone);
                self.start(clone, subject);
            }
            Step::StopClone => {
                let clone = episode.clone.filter(|clone| self.world.hosts()[*clone].is_up());
                clone.into_iter().for_each(|clone| self.stop(clone));
            }
            Step::ExpectDuplicate => {
                let clone = episode.clone.filter(|clone| self.world.hosts()[*clone].is_up());
                clone.map_or(Ok(()), |clone| Err(Failure::CloneRuns(clone)))?;
            }
            Step::SetClock { ahead_ms } => {
                // Everybody whom it knew had expired: it may know nobody yet, or only others that were as far ahead.
                let until_ms = self.world.now_ms() + SETTLE_MS;
                self.corrected
                    .push((self.world.hosts()[subject].id().0, until_ms));
                self.world.set_clock(subject, ahead_ms);
            }
            Step::SetClocks { ahead_ms } => {
                // What everybody holds goes out of date at once: the ring may be in pieces until it has recovered.
                self.unwatched_until_ms = match ahead_ms {
                    0 => self.world.now_ms() + SETTLE_MS,
                    _ => u64::MAX,
                };
                self.world.set_clocks(ahead_ms);
            }
        }
        Ok(None)
    }

    /// Ends a process: it leaves first, is killed, or loses power.
    fn stop(&mut self, host: usize) {
        match self.world.dice().u32(0..3) {
            0 => {
                let tag = self.world.command(host, |tag| Input::Leave { tag });
                self.leaving.push((host, tag));
            }
            1 => self.world.end(host, End::Killed),
            _ => self.world.end(host, End::PowerLost),
        }
    }

    /// No node may stop by itself but a clone, and that one for one reason.
    pub(super) fn check_stopped(&self) -> Result<(), Failure> {
        for (number, host) in self.world.hosts().iter().enumerate() {
            let fatal = host.fatal();
            let may_stop = host.is_clone() && fatal == Some(Code::DuplicateIdentity);
            if let Some(code) = fatal.filter(|_| !may_stop) {
                return Err(Failure::Stopped(number, code));
            }
        }
        Ok(())
    }
}
