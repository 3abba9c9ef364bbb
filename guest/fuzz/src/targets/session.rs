//! Sessions: two ends whose packets arrive changed, twice and in any order, and snapshots that were changed.

use std::collections::BTreeSet;

use selfsame_codec::{Code, Reader};
use selfsame_core::BootId;
use selfsame_core::channel::{MAX_PAYLOAD, ReplayWindow, Session, Side};
use selfsame_core::handshake::SessionSecrets;
use selfsame_core::identity::{Admitted, PeerId, PublicKey};
use selfsame_sodium::aead::Key;

use super::Target;
use super::lab::START_MS;
use super::step::milliseconds;
use crate::items::{self, Item};
use crate::mutate::Shape;

/// Seal so many bytes at the first end; the next one seals at the second.
const SEAL: u8 = 0;
const SEAL_BACK: u8 = 1;
/// Deliver a packet: its number.
const DELIVER: u8 = 2;
/// Deliver a packet changed: its number, a place, and what to combine with the byte there.
const CHANGE: u8 = 3;
/// Deliver a packet cut short: its number, and how much of it is left.
const CUT: u8 = 4;
/// Deliver a packet to the end that sealed it.
const REFLECT: u8 = 5;
/// Let time pass.
const PASS: u8 = 6;
/// Deliver bytes that nobody sealed.
const RAW: u8 = 7;
/// Both ends lose their memory and come back with what they saved.
const RESTORE: u8 = 8;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 200;

fn session(side: Side, peer: u8) -> Session {
    let (send, receive) = match side {
        Side::Initiator => (1, 2),
        Side::Responder => (2, 1),
    };
    let secrets = SessionSecrets {
        send: Key::new([send; 32]),
        receive: Key::new([receive; 32]),
        session_id: [3; 16],
        peer: PeerId([peer; 32]),
        peer_key: PublicKey([peer; 32]),
        peer_boot: BootId([peer; 16]),
        admitted: Admitted::EVER,
    };
    Session::new(secrets, side, u32::from(peer), START_MS)
}

/// A packet that was sealed
struct Sealed {
    from: usize,
    packet: Vec<u8>,
    payload: Vec<u8>,
    was_opened: bool,
}

/// Two ends of a session and all packets between them
struct Wire {
    ends: [Session; 2],
    packets: Vec<Sealed>,
    now_ms: u64,
}

impl Wire {
    fn run(&mut self, Item { kind, payload }: &Item) {
        let number = payload.first().copied().map_or(0, usize::from);
        match *kind {
            SEAL | SEAL_BACK => self.seal(usize::from(*kind == SEAL_BACK), payload),
            DELIVER => self.deliver(number, false, |_| {}),
            REFLECT => self.deliver(number, true, |_| {}),
            CHANGE => {
                let place = usize::from(u16::from_le_bytes([byte(payload, 1), byte(payload, 2)]));
                self.deliver(number, false, |packet| {
                    if let Some(changed) = packet.get_mut(place) {
                        *changed ^= byte(payload, 3);
                    }
                });
            }
            CUT => self.deliver(number, false, |packet| {
                packet.truncate(usize::from(byte(payload, 1)))
            }),
            PASS => {
                self.now_ms += milliseconds(payload);
                let now_ms = self.now_ms;
                self.ends.iter_mut().for_each(|end| end.drop_previous_key(now_ms));
            }
            RAW => {
                let mut packet = payload.clone();
                assert!(
                    self.ends[0].open(self.now_ms, &mut packet).is_err(),
                    "nobody sealed it"
                );
            }
            RESTORE => self.ends.iter_mut().for_each(|end| *end = restored(end)),
            _ => {}
        }
    }

    fn seal(&mut self, from: usize, payload: &[u8]) {
        let mut packet = vec![0xaa];
        let sealed = self.ends[from].seal(self.now_ms, &mut packet, |out| out.extend_from_slice(payload));
        if payload.len() > MAX_PAYLOAD {
            assert_eq!((sealed, packet), (Err(Code::TooLarge), vec![0xaa]));
            return;
        }
        assert_eq!(sealed, Ok(()));
        self.packets.push(Sealed {
            from,
            packet: packet.split_off(1),
            payload: payload.to_vec(),
            was_opened: false,
        });
    }

    /// Only what was sealed opens, at the other end, and only once.
    fn deliver(&mut self, number: usize, reflect: bool, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(sealed) = self.packets.get_mut(number) else {
            return;
        };
        let mut packet = sealed.packet.clone();
        change(&mut packet);
        let is_whole = packet == sealed.packet;
        let to = if reflect { sealed.from } else { 1 - sealed.from };
        let opened = self.ends[to].open(self.now_ms, &mut packet);
        if let Ok(payload) = opened {
            assert!(is_whole, "a changed packet opened");
            assert!(!reflect, "a reflected packet opened");
            assert!(!sealed.was_opened, "a packet opened twice");
            assert_eq!(payload, sealed.payload);
            sealed.was_opened = true;
        }
    }
}

fn restored(end: &Session) -> Session {
    let mut saved = Vec::new();
    end.save(&mut saved);
    let mut reader = Reader::new(&saved);
    let again = Session::load(&mut reader).expect("what was saved loads");
    assert!(reader.is_empty(), "all of it is read");
    again
}

fn byte(payload: &[u8], at: usize) -> u8 {
    payload.get(at).copied().unwrap_or(0)
}

/// Two ends and a wire
pub(super) struct Packets;

impl Packets {
    /// The target.
    pub(super) fn new() -> Self {
        Self
    }
}

impl Target for Packets {
    fn name(&self) -> &'static str {
        "session"
    }

    fn weight(&self) -> usize {
        60
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let hour = (3_600_000_u32 << 7).to_le_bytes();
        let half_minute = (31_000_u32 << 7).to_le_bytes();
        vec![items::encode(&[
            Item::new(SEAL, b"one".as_slice()),
            Item::new(SEAL, b"two".as_slice()),
            Item::new(DELIVER, [1]),
            Item::new(DELIVER, [0]),
            Item::new(DELIVER, [1]),
            Item::new(SEAL_BACK, b"three".as_slice()),
            Item::new(REFLECT, [2]),
            Item::new(CHANGE, [2, 17, 0, 1]),
            Item::new(CUT, [2, 20]),
            Item::new(PASS, hour),
            Item::new(SEAL, b"four".as_slice()),
            Item::new(SEAL, b"five".as_slice()),
            Item::new(DELIVER, [3]),
            Item::new(PASS, half_minute),
            Item::new(RESTORE, []),
            Item::new(DELIVER, [4]),
            Item::new(DELIVER, [2]),
            Item::new(RAW, [16; 40]),
        ])]
    }

    fn run(&mut self, input: &[u8]) {
        let mut wire = Wire {
            ends: [session(Side::Initiator, 8), session(Side::Responder, 9)],
            packets: Vec::new(),
            now_ms: START_MS,
        };
        for item in items::parse(input).iter().take(MAX_OPERATIONS) {
            wire.run(item);
        }
    }
}

/// Saved sessions, and the window against replays beside a set that forgets nothing
pub(super) struct Snapshots {
    saved: Vec<u8>,
}

impl Snapshots {
    /// The target.
    pub(super) fn new() -> Self {
        let mut saved = Vec::new();
        session(Side::Initiator, 8).save(&mut saved);
        Self { saved }
    }
}

impl Target for Snapshots {
    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn weight(&self) -> usize {
        40
    }

    fn shape(&self) -> Shape {
        Shape::Bytes
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let steps: [(u8, u16); 8] = [
            (2, 0),
            (2, 5),
            (0, 2),
            (2, 2047),
            (0, 2047),
            (0, 2048),
            (2, 4096),
            (0, 1),
        ];
        let steps = steps.iter().flat_map(|(way, distance)| {
            let [low, high] = distance.to_le_bytes();
            [*way, low, high]
        });
        vec![self.saved.clone(), steps.collect()]
    }

    fn run(&mut self, input: &[u8]) {
        let mut reader = Reader::new(input);
        if let Ok(mut session) = Session::load(&mut reader) {
            let mut again = Vec::new();
            session.save(&mut again);
            assert_eq!(again[..], input[..input.len() - reader.rest().len()]);
            let mut packet = Vec::new();
            if session.seal(START_MS, &mut packet, |out| out.push(1)).is_ok() {
                assert!(
                    session.open(START_MS, &mut packet).is_err(),
                    "a reflected packet opened"
                );
            }
        }
        run_window(input);
    }
}

/// Each three bytes are a step from the highest counter so far: forward or back, and how far.
fn run_window(input: &[u8]) {
    let mut window = ReplayWindow::default();
    let mut marked: BTreeSet<u64> = BTreeSet::new();
    for step in input.chunks_exact(3) {
        let distance = u64::from(u16::from_le_bytes([step[1], step[2]]));
        let highest = marked.last().copied();
        let from = highest.unwrap_or(0);
        let counter = match step[0] % 4 {
            0 => from.saturating_sub(distance),
            // Some start far up, near the end of what a session counts to.
            1 if marked.is_empty() => u64::MAX - 2 - distance,
            _ => from.saturating_add(distance),
        };
        let is_in_window = highest.is_none_or(|highest| counter > highest || highest - counter < 2048);
        assert_eq!(
            window.is_new(counter),
            is_in_window && !marked.contains(&counter),
            "counter {counter} after {highest:?}"
        );
        // The core never marks the last number: a session ends before its counters do.
        if window.is_new(counter) && counter < u64::MAX - 1 {
            window.mark(counter);
            marked.insert(counter);
        }
    }
}
