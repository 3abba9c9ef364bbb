//! Anti-entropy: two replicas of a capsule come to hold the same (DCS, section 3.4).
//!
//! The one that begins asks the other, and itself, through the requests that every replica answers, so the other keeps nothing
//! in between, and what comes from it is verified as what any client writes. First they compare fingerprints of all that they
//! hold, then sketches of it, as large as the difference, and at last they exchange what the other lacks, until the
//! fingerprints are the same.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Malformed, Reader};
use selfsame_sodium::hash::derive_key;

use super::answer::{BAD, Compared, Results};
use super::transfer::{Transfer, begin};
use crate::hash::CapsuleName;
use crate::message::{Envelope, Fingerprint, MAX_IDS, Operation, Part, REPLICAS};
use crate::refusal::{Refusal, Result};
use crate::sketch::{Differing, Element, FIRST_SYMBOLS, MAX_SYMBOLS, Salt, Shortener, Sketch, symbols_for};

/// Most times that two replicas exchange what differs before they leave the rest to the next synchronisation: each time but the
/// last has brought something.
const MAX_PASSES: usize = 64;
/// Most parts that one pass cuts a set into, each with its own sketch: of millions that differ.
const MAX_PARTS: u64 = 256;
/// Most sketches of one synchronisation from which nothing could be taken out: an honest one fails once in hundreds of times.
const MAX_FAILURES: usize = 16;
/// So many times more symbols than what differs are more than any honest estimate asks for.
const MUCH: usize = 4;
/// How often, in so many synchronisations, the whole sets are compared under a fresh salt although their fingerprints are the
/// same: a writer could make records that have the same fingerprint as others, with much work, but not the same ids.
const FULL_EVERY: u8 = 16;
/// Most sides that may lack the capsule itself.
const MAX_CREATED: usize = 2;

const SALT: &str = "selfsame/1 capsule salt";

/// Whom the host knows as another replica: a peer's id
pub type PeerId = [u8; 32];

/// Who is asked
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// This replica.
    Here,
    /// The other one.
    There,
}

impl Side {
    /// The other side.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Here => Self::There,
            Self::There => Self::Here,
        }
    }
}

/// A request, and to whom
pub(super) type Request = (Side, Vec<u8>);

/// How a synchronisation ended
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both hold the same.
    Agreed,
    /// They still differ: one refuses what the other has, or new records have come faster than these were exchanged.
    Differs,
    /// One of them has refused a request, or has answered what is not understood.
    Refused(Refusal),
    /// There was no answer.
    Unreachable,
}

/// What came of a synchronisation
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The other replica.
    pub peer: PeerId,
    /// The capsule.
    pub capsule: CapsuleName,
    /// How it ended.
    pub outcome: Outcome,
    /// How many records and signatures this replica has got.
    pub pulled: u64,
    /// How many it has given.
    pub pushed: u64,
}

/// How much had arrived at either replica when both held the same: what arrived before needs no comparing
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watermark {
    here: u64,
    there: u64,
}

/// What a synchronisation does next
pub(super) enum Action {
    /// It asks somebody.
    Ask(Request),
    /// It has ended; both have agreed if there is a watermark.
    End(Outcome, Option<Watermark>),
}

/// A part of the set, and how many symbols its difference most likely needs
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: u64,
    last: u64,
    /// Only what arrived since the watermark.
    since: Watermark,
    symbols: usize,
}

impl Piece {
    fn part(&self, side: Side) -> Part {
        Part {
            since: match side {
                Side::Here => self.since.here,
                Side::There => self.since.there,
            },
            first: self.first,
            last: self.last,
        }
    }
}

/// What was asked last
#[derive(Debug)]
enum State {
    /// This replica, how much it holds.
    Counting,
    /// One that has the capsule, for its metadata.
    Describing(Side),
    /// The other one, to create it.
    Creating,
    /// The other replica, for its sketch.
    Comparing,
    /// This one, for its own.
    Sketching(Sketch),
    /// This one, what it alone holds; the other holds these ids.
    NamingHere(Vec<u64>),
    /// The other one, what it alone holds; this one holds these elements.
    NamingThere(Vec<u64>, Vec<Element>),
    /// Either one, what the other lacks; these are to be given afterwards.
    Pulling(Transfer, Vec<Element>),
    Pushing(Transfer),
}

/// A synchronisation under way
#[derive(Debug)]
pub(super) struct Sync {
    pub(super) peer: PeerId,
    pub(super) capsule: CapsuleName,
    pub(super) pulled: u64,
    pub(super) pushed: u64,
    entropy: [u8; 32],
    salts: u64,
    state: State,
    watermark: Watermark,
    fingerprint: Fingerprint,
    arrivals: u64,
    pieces: Vec<Piece>,
    piece: Piece,
    salt: Salt,
    passes: usize,
    failures: usize,
    created: usize,
    /// What the other side said when it was asked for its sketch.
    there: (Fingerprint, u64),
    /// Whether the piece is the whole set, with which a pass begins.
    is_whole: bool,
    /// How many elements were stored on either side so far, and when the pass began.
    stored: u64,
    stored_before: u64,
    /// Whether the pass before compared everything and moved nothing.
    is_stuck: bool,
}

impl Sync {
    /// With another replica, from a watermark on; `entropy` is random and used once.
    pub(super) fn new(peer: PeerId, capsule: CapsuleName, watermark: Watermark, entropy: [u8; 32]) -> Self {
        let piece = Piece {
            first: 0,
            last: u64::MAX,
            since: watermark,
            symbols: FIRST_SYMBOLS,
        };
        Self {
            peer,
            capsule,
            pulled: 0,
            pushed: 0,
            entropy,
            salts: 0,
            state: State::Counting,
            watermark,
            fingerprint: [0; 32],
            arrivals: 0,
            pieces: Vec::new(),
            piece,
            salt: [0; 16],
            passes: 0,
            failures: 0,
            created: 0,
            there: ([0; 32], 0),
            is_whole: false,
            stored: 0,
            stored_before: 0,
            is_stuck: false,
        }
    }

    /// What it asks first.
    pub(super) fn begin(&mut self) -> Action {
        self.count()
    }

    /// Takes a response to what it asked last.
    pub(super) fn answered(&mut self, response: &[u8]) -> Action {
        let action = self.take(response);
        action.unwrap_or_else(|refusal| Action::End(Outcome::Refused(refusal), None))
    }

    fn take(&mut self, response: &[u8]) -> Result<Action> {
        match core::mem::replace(&mut self.state, State::Counting) {
            State::Counting => match read_one(response, |reader| reader.field::<Compared>()) {
                Err(refusal) => self.create(refusal, Side::Here),
                Ok(compared) => {
                    (self.fingerprint, self.arrivals) = (compared.fingerprint, compared.arrivals);
                    Ok(self.first_piece())
                }
            },
            State::Describing(side) => {
                let metadata = read_one(response, |reader| reader.field::<&[u8]>())?;
                self.state = State::Creating;
                Ok(self.ask(side.other(), &Operation::Create { metadata }))
            }
            State::Creating => {
                read_one(response, |_| Ok(()))?;
                Ok(self.count())
            }
            State::Comparing => match read_one(response, |reader| reader.field()) {
                Err(refusal) if refusal.code == Code::NoRecord => Ok(self.forget_watermark()),
                Err(refusal) => self.create(refusal, Side::There),
                Ok(compared) => self.compared(compared),
            },
            State::Sketching(theirs) => match read_one(response, |reader| reader.field::<Compared>()) {
                Err(refusal) if refusal.code == Code::NoRecord => Ok(self.forget_watermark()),
                Err(refusal) => Err(refusal),
                Ok(ours) => Ok(self.sketched(&ours.sketch.ok_or(BAD)?, &theirs)),
            },
            State::NamingHere(theirs) => {
                let ours = read_one(response, read_elements)?;
                Ok(self.name_there(theirs, ours))
            }
            State::NamingThere(theirs, ours) => {
                let mut named = read_one(response, read_elements)?;
                // Whatever was not asked for is not asked about further.
                let ids = Shortener::new(&self.capsule, &self.salt);
                named.retain(|element| theirs.binary_search(&ids.id(element)).is_ok());
                Ok(self.pull(&named, ours))
            }
            State::Pulling(mut pull, ours) => {
                let next = pull.take(&self.envelope(), response)?;
                Ok(self.pulling(pull, next, ours))
            }
            State::Pushing(mut push) => {
                let next = push.take(&self.envelope(), response)?;
                Ok(self.pushing(push, next))
            }
        }
    }

    /// Begins a pass: how much is here?
    fn count(&mut self) -> Action {
        self.state = State::Counting;
        let question = Operation::Compare {
            salt: [0; 16],
            part: Part::WHOLE,
            symbols: 0,
            unless: [0; 32],
        };
        self.ask(Side::Here, &question)
    }

    /// One side has no such capsule; the other says what it is.
    fn create(&mut self, refusal: Refusal, side: Side) -> Result<Action> {
        if refusal.code != Code::NoCapsule || self.created >= MAX_CREATED {
            return Err(refusal);
        }
        self.created += 1;
        self.passes = 0;
        self.state = State::Describing(side.other());
        Ok(self.ask(side.other(), &Operation::Describe))
    }

    fn first_piece(&mut self) -> Action {
        if self.passes >= MAX_PASSES {
            return Action::End(Outcome::Differs, None);
        }
        let was_whole = self.piece.since == Watermark::default();
        self.is_stuck = self.passes > 0 && was_whole && self.stored == self.stored_before;
        self.stored_before = self.stored;
        self.is_whole = true;
        let is_full = self.passes == 0 && self.entropy[0].is_multiple_of(FULL_EVERY);
        // If what has arrived since the watermark is all that differs, the first pass has found it.
        let has_watermark = self.passes == 0 && !is_full;
        self.passes += 1;
        self.piece = Piece {
            first: 0,
            last: u64::MAX,
            since: if has_watermark {
                self.watermark
            } else {
                Watermark::default()
            },
            symbols: FIRST_SYMBOLS,
        };
        self.compare(if is_full { [0; 32] } else { self.fingerprint })
    }

    /// Asks the other replica for a sketch of the piece.
    fn compare(&mut self, unless: Fingerprint) -> Action {
        self.salts += 1;
        let mut material = Vec::from(self.entropy);
        self.salts.write(&mut material);
        self.salt.copy_from_slice(&derive_key(SALT, &material)[..16]);
        self.state = State::Comparing;
        let question = self.question(Side::There, unless);
        self.ask(Side::There, &question)
    }

    fn question(&self, side: Side, unless: Fingerprint) -> Operation<'static> {
        Operation::Compare {
            salt: self.salt,
            part: self.piece.part(side),
            symbols: self.piece.symbols as u32,
            unless,
        }
    }

    /// One of both has lost what the watermark says that it had.
    fn forget_watermark(&mut self) -> Action {
        if self.piece.since == Watermark::default() {
            return Action::End(Outcome::Differs, None);
        }
        self.piece.since = Watermark::default();
        self.compare(self.fingerprint)
    }

    fn compared(&mut self, theirs: Compared) -> Result<Action> {
        self.there = (theirs.fingerprint, theirs.arrivals);
        let is_same = theirs.fingerprint == self.fingerprint;
        let Some(sketch) = theirs.sketch else {
            return if self.is_whole && is_same {
                Ok(self.agree())
            } else {
                Err(BAD)
            };
        };
        if sketch.symbols() != self.piece.symbols {
            return Err(BAD);
        }
        if self.is_whole && self.is_stuck {
            return Ok(Action::End(Outcome::Differs, None));
        }
        self.state = State::Sketching(sketch);
        let question = self.question(Side::Here, [0; 32]);
        Ok(self.ask(Side::Here, &question))
    }

    fn agree(&self) -> Action {
        let watermark = Watermark {
            here: self.arrivals,
            there: self.there.1,
        };
        Action::End(Outcome::Agreed, Some(watermark))
    }

    fn sketched(&mut self, ours: &Sketch, theirs: &Sketch) -> Action {
        let difference = ours.difference(theirs);
        let differing = difference.estimate();
        let Some(Differing { ours, mut theirs }) = difference.decode() else {
            return self.refine(differing);
        };
        if (ours.len() + theirs.len()) * MUCH < self.piece.symbols {
            self.join_pieces();
        }
        if ours.is_empty() && theirs.is_empty() {
            let is_same = self.is_whole && self.there.0 == self.fingerprint;
            return if is_same { self.agree() } else { self.next_piece() };
        }
        theirs.sort_unstable();
        if ours.is_empty() {
            return self.name_there(theirs, Vec::new());
        }
        self.state = State::NamingHere(theirs);
        self.ask_elements(Side::Here, &ours)
    }

    /// Asks for more symbols, or in parts.
    fn refine(&mut self, differing: u64) -> Action {
        let Piece { symbols, since, .. } = self.piece;
        let mut needed = symbols_for(differing);
        if symbols > FIRST_SYMBOLS {
            self.failures += 1;
            needed = needed.max(2 * symbols as u64);
        }
        if self.failures > MAX_FAILURES {
            return Action::End(Outcome::Differs, None);
        }
        if needed <= MAX_SYMBOLS as u64 {
            self.piece.symbols = needed as usize;
            return self.compare([0; 32]);
        }
        if since != Watermark::default() {
            self.piece.since = Watermark::default();
            self.piece.symbols = FIRST_SYMBOLS;
            return self.compare([0; 32]);
        }
        self.split(differing, needed);
        self.next_piece()
    }

    /// Cuts the piece into parts whose differences fit half a sketch.
    fn split(&mut self, differing: u64, needed: u64) {
        let parts = (needed / (MAX_SYMBOLS as u64 / 2) + 1).clamp(2, MAX_PARTS);
        let Piece { first, last, .. } = self.piece;
        let width = (last - first) / parts;
        let each = differing / parts;
        let symbols = symbols_for(each + each / 4).clamp(FIRST_SYMBOLS as u64 + 1, MAX_SYMBOLS as u64);
        if width == 0 {
            return;
        }
        self.pieces.extend((0..parts).rev().map(|part| Piece {
            first: first + part * width,
            last: if part + 1 == parts {
                last
            } else {
                first + (part + 1) * width - 1
            },
            since: Watermark::default(),
            symbols: symbols as usize,
        }));
    }

    /// Looks at the parts that are left as one, and anew: the estimate for which they were cut was wrong, or a lie, from which
    /// hundreds of large sketches would follow.
    fn join_pieces(&mut self) {
        if let [last, .., next] = self.pieces[..] {
            self.pieces = Vec::from([Piece {
                last: last.last,
                symbols: FIRST_SYMBOLS,
                ..next
            }]);
        }
    }

    /// Goes on with the next part, or with the next pass.
    fn next_piece(&mut self) -> Action {
        self.is_whole = false;
        match self.pieces.pop() {
            Some(piece) => {
                self.piece = piece;
                self.compare([0; 32])
            }
            None => self.count(),
        }
    }

    fn name_there(&mut self, theirs: Vec<u64>, ours: Vec<Element>) -> Action {
        if theirs.is_empty() {
            return self.pull(&[], ours);
        }
        let action = self.ask_elements(Side::There, &theirs);
        self.state = State::NamingThere(theirs, ours);
        action
    }

    fn pull(&mut self, theirs: &[Element], ours: Vec<Element>) -> Action {
        let mut pull = Transfer::new(Side::There, theirs);
        let next = pull.next(&self.envelope());
        self.pulling(pull, next, ours)
    }

    fn pulling(&mut self, pull: Transfer, next: Option<Request>, ours: Vec<Element>) -> Action {
        if let Some(request) = next {
            self.state = State::Pulling(pull, ours);
            return Action::Ask(request);
        }
        self.pulled += pull.moved();
        self.stored += pull.stored();
        let mut push = Transfer::new(Side::Here, &ours);
        let next = push.next(&self.envelope());
        self.pushing(push, next)
    }

    fn pushing(&mut self, push: Transfer, next: Option<Request>) -> Action {
        if let Some(request) = next {
            self.state = State::Pushing(push);
            return Action::Ask(request);
        }
        self.pushed += push.moved();
        self.stored += push.stored();
        self.next_piece()
    }

    fn ask_elements(&self, side: Side, ids: &[u64]) -> Action {
        let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let question = Operation::Elements {
            salt: self.salt,
            part: self.piece.part(side),
            ids: &ids,
        };
        self.ask(side, &question)
    }

    fn ask(&self, side: Side, operation: &Operation<'_>) -> Action {
        let mut message = begin(&self.envelope());
        operation.write(&mut message);
        Action::Ask((side, message))
    }

    fn envelope(&self) -> Envelope {
        Envelope {
            capsule: self.capsule,
            session: REPLICAS,
            verified: 0,
        }
    }
}

/// Reads the result of the one operation that was asked for.
fn read_one<'a, T>(
    response: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> core::result::Result<T, Malformed>,
) -> Result<T> {
    Results::read(response)?.next(read)
}

fn read_elements(reader: &mut Reader<'_>) -> core::result::Result<Vec<Element>, Malformed> {
    let count = reader.field::<u32>()? as usize;
    if count > MAX_IDS {
        return Err(Malformed);
    }
    (0..count).map(|_| reader.field()).collect()
}
