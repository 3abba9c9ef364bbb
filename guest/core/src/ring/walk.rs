//! Lookups under way: sends their requests, feeds them the answers, and hands on who is responsible.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::lookup::{Answer, Lookup, Owner, Start, Step, Trail};
use super::message::{EntryBytes, Hop, Request};
use super::{Action, Call, Context, Ring};
use crate::admission::KNOWS_CLOSED;
use crate::association::ObjectId;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, in_half_open};
use selfsame_sorted_map::Map;

/// What a walk is for
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    FindNode {
        command: u32,
    },
    Find {
        command: u32,
    },
    Publish {
        object: ObjectId,
    },
    JoinFor {
        token: u64,
    },
    Finger {
        bit: u8,
    },
    /// This member's place in what may be another ring, reached through a stranger.
    Merge {
        stranger: PeerId,
    },
    /// Whether a member that hands entries over is where its id says.
    Vet {
        from: PeerId,
    },
    /// Members to which a leaf may attach.
    Attach,
}

#[derive(Debug)]
struct Walk {
    lookup: Lookup,
    purpose: Purpose,
    wants_entries: bool,
}

/// All lookups under way
#[derive(Debug, Default)]
pub(super) struct Walks {
    walks: Map<u64, Walk>,
    last: u64,
}

impl Walks {
    pub(super) fn next_wake_ms(&self) -> u64 {
        let hedges = self.walks.values().map(|walk| walk.lookup.hedge_at_ms());
        hedges.min().unwrap_or(u64::MAX)
    }

    pub(super) fn cancel(&mut self, command: u32) {
        let of_command = |purpose: &Purpose| match purpose {
            Purpose::FindNode { command: other } | Purpose::Find { command: other } => *other == command,
            _ => false,
        };
        self.walks.retain(|_, walk| !of_command(&walk.purpose));
    }

    pub(super) fn lookup_mut(&mut self, id: u64) -> Option<&mut Lookup> {
        self.walks.get_mut(&id).map(|walk| &mut walk.lookup)
    }

    /// How many walks there are for purposes like this.
    pub(super) fn count(&self, like: impl Fn(&Purpose) -> bool) -> usize {
        self.walks.values().filter(|walk| like(&walk.purpose)).count()
    }

    /// Ends all walks; gives the commands that looked for a node.
    pub(super) fn clear(&mut self) -> Vec<u32> {
        let walks = core::mem::take(&mut self.walks).into_values();
        walks
            .filter_map(|walk| match walk.purpose {
                Purpose::FindNode { command } => Some(command),
                _ => None,
            })
            .gather()
    }
}

impl Ring {
    /// Looks a position up from what this node knows.
    pub(super) fn walk(
        &mut self,
        cx: &mut Context<'_>,
        target: Place,
        wants_entries: bool,
        purpose: Purpose,
        avoided: Vec<PeerId>,
    ) {
        let is_mine = self.serves() && self.routing.is_responsible(&target);
        if is_mine && self.routing.is_near(&target) {
            let owner = self.own_answer(cx, &target, wants_entries);
            self.walk_done(cx, purpose, Ok(owner), &Trail::default());
            return;
        }
        let mut start = self.known_around(&target);
        start.avoided.extend(avoided);
        if self.is_guarded() {
            self.guard.add_poor(&start.before, &mut start.avoided);
        }
        if matches!(purpose, Purpose::Finger { .. }) {
            // There are many, and a wrong one only makes other lookups longer.
            start.spacing = 0;
        }
        let mut lookup = Lookup::new(self.parameters, target, start);
        if is_mine {
            lookup.claim(&self.me());
        }
        self.start(cx, lookup, wants_entries, purpose);
    }

    /// Where a lookup begins: at members that may lead to a position, and at successors that may be responsible for it.
    fn known_around(&self, target: &Place) -> Start {
        let routes = self.book.routes_before(target);
        let routes = routes.filter(|peer| !self.routing.is_dead(peer));
        if !self.serves() {
            let mut before: Vec<PeerId> = routes.take(self.parameters.max_candidates).copied().gather();
            // Its relays may be gone with all that they told of: then whoever did not answer once may do so now.
            let mut avoided = self.known_members();
            avoided.extend(self.attach.bootstraps());
            avoided.retain(|peer| !before.contains(peer));
            before.extend(&avoided);
            return Start {
                before,
                avoided,
                ..Start::default()
            };
        }
        let mut before = self.routing.all();
        before.extend(routes.take(self.parameters.routes));
        let me = self.me();
        let beyond = |peer: &&PeerId| in_half_open(&me.place(), target, &peer.place());
        Start {
            before,
            after: self.routing.successors().iter().filter(beyond).copied().gather(),
            avoided: Vec::new(),
            spacing: self.routing.spacing(),
        }
    }

    /// Looks a position up from the members given.
    pub(super) fn walk_from(
        &mut self,
        cx: &mut Context<'_>,
        target: Place,
        start: &[PeerId],
        purpose: Purpose,
    ) {
        let start = Start {
            before: start.to_vec(),
            ..Start::default()
        };
        self.start(cx, Lookup::new(self.parameters, target, start), false, purpose);
    }

    fn start(&mut self, cx: &mut Context<'_>, mut lookup: Lookup, wants_entries: bool, purpose: Purpose) {
        lookup.exclude_asker(self.me(), self.routing.predecessor());
        if let Purpose::JoinFor { token } = &purpose
            && let Some(newcomer) = self.maintenance.newcomer(*token)
        {
            lookup.exclude(newcomer);
        }
        self.walks.last += 1;
        let id = self.walks.last;
        self.walks.walks.insert(
            id,
            Walk {
                lookup,
                purpose,
                wants_entries,
            },
        );
        self.advance(cx, id);
    }

    /// This member's own answer for a position it is responsible for.
    fn own_answer(&self, cx: &mut Context<'_>, target: &Place, wants_entries: bool) -> Owner {
        let entries = if wants_entries {
            own_entries(&self.held(cx, &ObjectId(target.0)))
        } else {
            Vec::new()
        };
        Owner {
            peer: self.me(),
            is_inferred: false,
            hops: 0,
            successors: self.routing.successors().to_vec(),
            entries,
        }
    }

    /// What is stored for an object. A long list of publishers begins anywhere, so that each gets its turn.
    pub(super) fn held(&self, cx: &mut Context<'_>, object: &ObjectId) -> Vec<EntryBytes<'_>> {
        let start = match self.objects.publishers(object) {
            0 | 1 => 0,
            count => cx.random.below(count),
        };
        self.objects.find(object, start, cx.wall_ms)
    }

    fn advance(&mut self, cx: &mut Context<'_>, id: u64) {
        while let Some(walk) = self.walks.walks.get_mut(&id) {
            let target = *walk.lookup.target();
            match walk.lookup.next(cx.now_ms) {
                Step::Wait => return,
                Step::Ask(peer) => {
                    if !self.may_be_member(cx, &peer) {
                        self.not_to_be_asked(id, &peer);
                        continue;
                    }
                    let Some(walk) = self.walks.walks.get(&id) else {
                        return;
                    };
                    // A leaf learns of members by long answers.
                    let claimed = walk.lookup.claimed(&peer).filter(|_| self.serves());
                    let request = match claimed {
                        Some(claimed) if claimed != peer || !walk.wants_entries => {
                            Request::Vouch { target, claimed }
                        }
                        _ if walk.wants_entries => Request::Find {
                            object: ObjectId(target.0),
                            held: false,
                        },
                        _ => Request::FindNode { target },
                    };
                    self.call(
                        peer,
                        Call::Walk { walk: id },
                        &request,
                        self.parameters.step_timeout_ms,
                    );
                }
                Step::Finished(result) => {
                    let walk = self.walks.walks.remove(&id).expect("it is under way");
                    let me = self.me();
                    let is_me = result.as_ref().is_ok_and(|owner| owner.peer == me);
                    let result = if is_me {
                        let own = self.own_answer(cx, &target, walk.wants_entries);
                        result.map(|Owner { hops, .. }| Owner { hops, ..own })
                    } else {
                        result
                    };
                    self.walk_done(cx, walk.purpose, result, &walk.lookup.trail());
                }
            }
        }
    }

    /// A candidate turned out to be no member, or its record to be forged, in which case others may know the true one.
    fn not_to_be_asked(&mut self, id: u64, peer: &PeerId) {
        if let Some(walk) = self.walks.walks.get_mut(&id) {
            if self.book.get(peer).is_some() {
                walk.lookup.failed(peer, Code::NotMember);
            } else {
                walk.lookup.forget(peer);
            }
        }
    }

    pub(super) fn tick_walks(&mut self, cx: &mut Context<'_>) {
        let late: Vec<u64> = self
            .walks
            .walks
            .iter_mut()
            .filter(|(_, walk)| walk.lookup.hedge_at_ms() <= cx.now_ms)
            .map(|(id, walk)| {
                walk.lookup.tick(cx.now_ms);
                *id
            })
            .gather();
        late.into_iter().for_each(|id| self.advance(cx, id));
    }

    pub(super) fn step_failed(&mut self, cx: &mut Context<'_>, id: u64, peer: PeerId, code: Code) {
        if self.is_guarded() {
            self.guard.failed(peer);
        }
        if let Some(walk) = self.walks.walks.get_mut(&id) {
            walk.lookup.failed(&peer, code);
            self.advance(cx, id);
        }
    }

    pub(super) fn step_answered(&mut self, cx: &mut Context<'_>, id: u64, peer: PeerId, hop: &Hop<'_>) {
        if !self.walks.walks.contains_key(&id) {
            return;
        }
        let predecessor = hop.predecessor.as_slice();
        let (closer, successors) = (self.parameters.named_closer, self.parameters.named_successors);
        let answer = Answer {
            responsible: hop
                .responsible
                .is_some_and(|bytes| self.is_record_of(cx, peer, bytes)),
            predecessor: self.hear_members(cx, peer, predecessor, 1).pop(),
            closer: self.hear_members(cx, peer, &hop.closer, closer),
            successors: self.hear_members(cx, peer, &hop.successors, successors),
            entries: own_entries(&hop.entries),
        };
        let Some(walk) = self.walks.walks.get_mut(&id) else {
            return;
        };
        for named in answer.closer.iter().chain(&answer.successors) {
            if self.book.is_route(named) {
                walk.lookup.named_anew(named);
            }
        }
        match walk.lookup.answered(&peer, answer) {
            Err(code) => {
                self.book.suspect(&peer);
                if self.is_guarded() {
                    self.guard.failed(peer);
                }
                self.log(LogLevel::Debug, code, "a peer led no closer", Some(peer));
            }
            Ok(()) if self.is_guarded() => self.guard.worked(&peer),
            Ok(()) => {}
        }
        if let Some(lease) = hop.lease.filter(|_| KNOWS_CLOSED) {
            self.have_witnessed(cx, id, peer, lease);
        }
        self.advance(cx, id);
    }

    /// Whether a record is that of the member that sent it; if so, it is kept.
    fn is_record_of(&mut self, cx: &mut Context<'_>, peer: PeerId, bytes: &[u8]) -> bool {
        self.meet_members(cx, peer, &[bytes]).first() == Some(&peer)
    }

    fn walk_done(
        &mut self,
        cx: &mut Context<'_>,
        purpose: Purpose,
        result: Result<Owner, Code>,
        trail: &Trail,
    ) {
        match purpose {
            Purpose::FindNode { command } => self.node_found(cx, command, result),
            Purpose::Find { command } => self.object_found(cx, command, result, trail),
            Purpose::Publish { object } => self.place_found(cx, object, result),
            Purpose::JoinFor { token } => self.place_for_newcomer_found(cx, token, result),
            Purpose::Finger { bit } => {
                if let Ok(owner) = result
                    && self.may_be_neighbour(cx, owner.peer, &owner.peer)
                {
                    self.routing.set_finger(bit, owner.peer);
                    self.ask_for_finger_group(cx, owner.peer);
                }
            }
            Purpose::Merge { stranger } => self.place_in_other_ring_found(cx, stranger, result),
            Purpose::Vet { from } => {
                if result.is_ok_and(|owner| owner.peer == from) {
                    self.let_hand_over(from);
                }
            }
            Purpose::Attach => self.members_found(cx, result),
        }
    }

    fn node_found(&mut self, cx: &mut Context<'_>, command: u32, result: Result<Owner, Code>) {
        let found = result.and_then(|owner| {
            if owner.peer == self.me() {
                return Ok((self.own_record(cx).clone(), owner.hops));
            }
            let record = self.book.get(&owner.peer).cloned().ok_or(Code::NoRoute)?;
            Ok((record, owner.hops))
        });
        match found {
            Ok((record, hops)) => self.actions.push_back(Action::FoundNode {
                command,
                record,
                hops,
            }),
            Err(code) => self.fail(command, code),
        }
    }
}

pub(super) fn own_entries(entries: &[EntryBytes<'_>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries
        .iter()
        .map(|entry| (entry.association.to_vec(), entry.record.to_vec()))
        .gather()
}
