//! Whether the members form one correct ring.

use std::collections::BTreeMap;

use selfsame_codec::reply::Status;
use selfsame_codec::{Input, Role};

use crate::host::{Answer, Outcome};
use crate::machine::Machine;
use crate::world::World;

/// What the members know of each other at one time
#[derive(Debug)]
pub struct RingState {
    members: BTreeMap<[u8; 32], Status>,
}

/// How far the members are from one ring in which everybody knows its neighbours
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Members that have not joined.
    pub outside: usize,
    /// Members whose first successor is not the next member.
    pub successors: usize,
    /// Members whose predecessor is not the member before.
    pub predecessors: usize,
    /// Members whose successor list differs from the members that follow.
    pub lists: usize,
}

impl Faults {
    /// Whether there is none that lets a lookup go wrong: lists that lag behind do not.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outside + self.successors + self.predecessors == 0
    }
}

impl RingState {
    /// Asks every member whose process runs and is not stopped; clones are left out.
    pub fn of<M: Machine>(world: &mut World<M>) -> Self {
        let up: Vec<usize> = (0..world.hosts().len())
            .filter(|host| world.hosts()[*host].is_running() && !world.hosts()[*host].is_clone())
            .collect();
        let mut members = BTreeMap::new();
        for host in up {
            let answer = world.ask(host, |tag| Input::Status { tag });
            if let Some(Answer {
                outcome: Outcome::Reply(body),
                ..
            }) = answer
            {
                let status = Status::decode(&body).expect("a core encodes its status");
                if status.role == Role::Member {
                    members.insert(status.id, status);
                }
            }
        }
        Self { members }
    }

    /// What each member says of itself.
    #[must_use]
    pub fn members(&self) -> &BTreeMap<[u8; 32], Status> {
        &self.members
    }

    /// The member that is responsible for a position: the first at or after it.
    #[must_use]
    pub fn owner(&self, position: &[u8; 32]) -> Option<[u8; 32]> {
        let after = self.members.range(*position..).next();
        after.or_else(|| self.members.iter().next()).map(|(id, _)| *id)
    }

    /// Compares what the members know with the ring that they should form.
    #[must_use]
    pub fn faults(&self) -> Faults {
        let order: Vec<&[u8; 32]> = self.members.keys().collect();
        let mut faults = Faults::default();
        for (index, status) in self.members.values().enumerate() {
            if !status.joined {
                faults.outside += 1;
                continue;
            }
            let following = |steps: usize| order[(index + steps) % order.len()];
            let is_alone = order.len() == 1;
            let expected = status.successors.len().min(order.len() - 1);
            let next = status.successors.first().map(|node| &node.id);
            let before = status.predecessor.as_ref().map(|node| &node.id);
            let before_expected = order[(index + order.len() - 1) % order.len()];
            faults.successors += usize::from(!is_alone && next != Some(following(1)));
            faults.predecessors += usize::from(!is_alone && before != Some(before_expected));
            let is_list = (0..expected).all(|step| &status.successors[step].id == following(step + 1));
            faults.lists += usize::from(!is_list);
        }
        faults
    }
}
