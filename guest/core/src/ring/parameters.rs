//! What could be chosen otherwise, in one place, each value with its reason.
//!
//! Sizes that a message cannot exceed are part of its encoding and stand with it; how long a member rests when nothing
//! changes is its host's to say ([`Settings::idle_ms`](super::Settings::idle_ms)).

use crate::association::MAX_REPLICAS;
use crate::record::MAX_RECORD_LIFE_MS;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;

/// The constants of the ring: how much is kept how often, how long is waited, and how much memory others can take
///
/// Members of one network may differ in all of them; a network whose members keep different numbers of successors or
/// mirrors is as safe as its worst ones. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Sibling objects of a name beyond the first that are looked up (Themis: k, the bound of the network). Four places
    /// under random ids: with one member in ten lying, all of them lie for one name in 10,000.
    pub siblings: u8,
    /// Length of the successor list (Chord: r). The ring falls apart only if all 16 die within one interval: with half
    /// of all members gone at once, that is one member in 65,536.
    pub successors: usize,
    /// Successors that keep copies of what a member stores: an association survives three neighbours that die at once.
    pub mirrors: usize,

    /// Most requests of one lookup in flight (Kademlia: alpha). A platform allows six connections at once, and there are
    /// other lookups.
    pub parallel: usize,
    /// How long an answer may take before the next member is asked beside it: twice a slow round trip with a handshake.
    pub hedge_ms: u64,
    /// How long a step of a lookup may take, dialling and a handshake included.
    pub step_timeout_ms: u32,
    /// Most members that one lookup asks: enough to walk 1000 members by successor lists before fingers exist.
    pub max_asked: usize,
    /// Most members that one lookup keeps in mind; the nearest come first, so the rest is never needed.
    pub max_candidates: usize,
    /// Known members, beside neighbours and fingers, that a lookup may begin at: the nearest before the position.
    pub routes: usize,
    /// How far before a responsible member those that vouch for it may lie: k of them k times k halves of the usual way
    /// between two members, of which this is the second factor at most; 0 believes everybody. With one member in twenty
    /// lying, so many that lie are as close as that around one position in 2000.
    pub half_spacings: u64,
    /// How far before a member its mirrored positions may begin, in halves of the usual way between two members: four
    /// members lie so far apart once in 100,000 times, and no predecessor that lies makes a member keep more.
    pub mirrored_half_spacings: u64,
    /// Least time between two lookups of whether a member is responsible for what it hands over without being known.
    pub vet_ms: u64,
    /// Closer members named in an answer: two may be dead.
    pub named_closer: usize,
    /// Successors named in an answer to a lookup: the one that counts and three to fall back to.
    pub named_successors: usize,

    /// Members of a group, an odd number from 5 to 15; 0 for none (Secure Chord: g). Members of one network should not differ:
    /// a smaller group's leader would not be in the middle of a larger one's list.
    pub group: usize,

    /// First interval between updates after a change; it doubles with each quiet round up to the host's idle time.
    pub first_round_ms: u64,
    /// Longest time until the next update after a change further on in the successor list, which counts only when
    /// everybody before is gone: while many join, lists change all the time.
    pub list_round_ms: u64,
    /// Least time between two looks after a finger: a wrong one costs a step of a lookup, a look costs several.
    pub finger_ms: u64,
    /// How long a neighbour may take to answer, dialling included.
    pub answer_timeout_ms: u32,
    /// How long a neighbour that was late once may take to answer at all.
    pub probe_timeout_ms: u32,
    /// Silence after which the predecessor is asked whether it lives when somebody else claims its place.
    pub doubt_ms: u64,
    /// How long a member that did not answer is not taken from others' lists: they find out within an update.
    pub dead_ms: u64,
    /// How long a member that did not answer is not asked again even if its successor vouches for it.
    pub rest_ms: u64,
    /// Rounds, on average, between two looks into what may be another ring: when nothing changes, once a minute.
    pub merge_every: usize,
    /// Least time between two looks into what may be another ring: each costs a lookup.
    pub merge_ms: u64,
    /// Members that a newcomer is told of beside its successor, should that one not answer.
    pub newcomer_fallbacks: usize,

    /// Life of an association (Themis: t): a publisher that is gone is forgotten after an hour.
    pub life_ms: u64,
    /// Age at which associations are signed and stored anew: two attempts may fail.
    pub refresh_ms: u64,
    /// Time between two checks that everything is still stored (Themis, section 6.2).
    pub check_ms: u64,
    /// Time from a change of neighbours to a check, and as much again at random: changes come in bursts.
    pub check_soon_ms: u64,
    /// First time until a store that failed is tried again; it doubles.
    pub retry_ms: u64,
    /// Longest time until a store that failed is tried again.
    pub max_retry_ms: u64,
    /// Attempts at each place after which a command counts as answered.
    pub tries: u32,
    /// How long storing may take, dialling included.
    pub store_timeout_ms: u32,
    /// How long a mirror may take to store a message of entries.
    pub mirror_timeout_ms: u32,
    /// How long the successor of a member that leaves may take to store a message of entries.
    pub hand_over_timeout_ms: u32,
    /// How long a node withdraws what it publishes before it leaves.
    pub withdraw_timeout_ms: u64,
    /// How long leaving may take after that: a Durable Object has ten seconds when it is told to go.
    pub leave_timeout_ms: u64,
    /// How long before its expiry the own record is signed anew: others always hold one that outlives what they store.
    pub renew_record_ms: u64,

    /// Members that a leaf attaches to: one may die.
    pub relays: usize,
    /// How long an attachment may take, dialling included.
    pub attach_timeout_ms: u32,

    /// Most publishers of one object: more replicas of a service than one answer can name.
    pub max_publishers: usize,
    /// Most associations altogether: the share of one member among few when thousands of services are published.
    pub max_associations: usize,
    /// Most associations of one publisher: as many as it can sign at once, so that none fills the table alone.
    pub max_of_publisher: usize,
    /// Most bytes of associations altogether: a quarter of the memory of the smallest platform (128 MB).
    pub max_table_bytes: usize,
    /// Most records kept: the neighbourhood, the fingers, and what lookups of some minutes met.
    pub max_records: usize,
    /// Most of those records whose node has not spoken itself: what lookups under way may still need.
    pub max_heard: usize,
    /// Most peers presumed dead that are remembered at a time.
    pub max_dead: usize,
    /// Most leaves of one member: each costs a session and a record, and half of both are for members.
    pub max_leaves: usize,
    /// Most updates in flight: one to the successor, the rest to members that may be closer.
    pub max_updating: usize,
    /// Most newcomers whose place is looked up at a time.
    pub max_newcomers: usize,
    /// Most lookups of the place of one newcomer at a time: one that hears nothing asks again.
    pub max_of_newcomer: usize,
    /// Most remembered members that a joining node asks beside its bootstraps.
    pub max_remembered: usize,
    /// Most looks into other rings at a time.
    pub max_merges: usize,
    /// Most names looked for at a time.
    pub max_finds: usize,
    /// Most places of own associations looked up or stored at a time: a platform lets six connections wait for an answer, and
    /// fewer leave a publisher of a thousand names waiting for round trips.
    pub max_storing: usize,
    /// Most members remembered over a restart: the neighbourhood, the fingers, and some for a bad day.
    pub max_stored_routes: usize,
    /// Least time between two writes of routes: each costs a row where rows cost money.
    pub write_routes_ms: u64,
}

impl Parameters {
    /// What every node uses.
    pub const DEFAULT: Self = Self {
        siblings: MAX_REPLICAS,
        successors: 16,
        mirrors: 3,

        parallel: 3,
        hedge_ms: 700,
        step_timeout_ms: 3_000,
        max_asked: 64,
        max_candidates: 256,
        routes: 8,
        half_spacings: 8,
        mirrored_half_spacings: 64,
        vet_ms: 5 * SECOND_MS,
        named_closer: 3,
        named_successors: 4,

        group: 0,

        first_round_ms: 500,
        list_round_ms: 2 * SECOND_MS,
        finger_ms: 5 * SECOND_MS,
        answer_timeout_ms: 3_000,
        probe_timeout_ms: 1_500,
        doubt_ms: 3 * SECOND_MS,
        dead_ms: 30 * SECOND_MS,
        rest_ms: 2 * SECOND_MS,
        merge_every: 4,
        merge_ms: 10 * SECOND_MS,
        newcomer_fallbacks: 3,

        life_ms: 60 * MINUTE_MS,
        refresh_ms: 20 * MINUTE_MS,
        check_ms: 5 * MINUTE_MS,
        check_soon_ms: 2 * SECOND_MS,
        retry_ms: SECOND_MS,
        max_retry_ms: MINUTE_MS,
        tries: 3,
        store_timeout_ms: 5_000,
        mirror_timeout_ms: 10_000,
        hand_over_timeout_ms: 3_000,
        withdraw_timeout_ms: 4 * SECOND_MS,
        leave_timeout_ms: 5 * SECOND_MS,
        renew_record_ms: MAX_RECORD_LIFE_MS / 2,

        relays: 2,
        attach_timeout_ms: 5_000,

        max_publishers: 256,
        max_associations: 65_536,
        max_of_publisher: 1024,
        max_table_bytes: 32 * 1024 * 1024,
        max_records: 1024,
        max_heard: 256,
        max_dead: 1024,
        max_leaves: 512,
        max_updating: 16,
        max_newcomers: 64,
        max_of_newcomer: 4,
        max_remembered: 8,
        max_merges: 4,
        max_finds: 1024,
        max_storing: 6,
        max_stored_routes: 64,
        write_routes_ms: MINUTE_MS,
    };
}

impl Default for Parameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}
