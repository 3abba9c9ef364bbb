//! Streams of a session against a peer that keeps to no rule.

use std::collections::BTreeMap;

use selfsame_core::channel::{Data, Frame, MAX_STREAMS, STREAM_WINDOW, Side, StreamEvent, Streams};

use super::Target;
use crate::items::{self, Item};
use crate::mutate::Shape;

/// The application opens a stream.
const OPEN: u8 = 0;
/// The peer opens one: its number.
const ACCEPT: u8 = 1;
/// The application sends so many bytes: number, length.
const SEND: u8 = 2;
/// The application ends its half: number.
const END: u8 = 3;
/// The application consumed: number, how much.
const CONSUME: u8 = 4;
/// The peer sends bytes: number, offset, length.
const DATA: u8 = 5;
/// The peer ends its half: number, offset.
const PEER_END: u8 = 6;
/// The peer grants credit: number, limit.
const CREDIT: u8 = 7;
/// Somebody gives a stream up: number.
const RESET: u8 = 8;
/// Most operations of one input.
const MAX_OPERATIONS: usize = 700;

/// The peer sends bytes where the last ones ended: number, length.
const NEXT_DATA: u8 = 9;

/// What was delivered of a stream, and up to where the peer may send
struct Delivered {
    bytes: u64,
    consumed: u64,
    limit: u64,
    has_ended: bool,
}

impl Default for Delivered {
    fn default() -> Self {
        Self {
            bytes: 0,
            consumed: 0,
            limit: STREAM_WINDOW,
            has_ended: false,
        }
    }
}

/// One end of a session; the first byte of an input says whether its path keeps the order
pub(super) struct StreamPair;

impl Target for StreamPair {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn weight(&self) -> usize {
        60
    }

    fn shape(&self) -> Shape {
        Shape::Items
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let numbers = |numbers: &[u32]| {
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let list = [
            Item::new(OPEN, []),
            Item::new(ACCEPT, numbers(&[1])),
            Item::new(SEND, numbers(&[0, 100])),
            Item::new(DATA, numbers(&[1, 0, 16_000])),
            Item::new(DATA, numbers(&[1, 32_000, 16_000])),
            Item::new(DATA, numbers(&[1, 8_000, 16_000])),
            Item::new(DATA, numbers(&[1, 20_000, 16_000])),
            Item::new(CONSUME, numbers(&[1, 20_000])),
            Item::new(NEXT_DATA, numbers(&[1, 16_000])),
            Item::new(CREDIT, numbers(&[0, 1 << 20])),
            Item::new(PEER_END, numbers(&[1, 64_000])),
            Item::new(END, numbers(&[1])),
            Item::new(DATA, numbers(&[0, 0, 5])),
            Item::new(PEER_END, numbers(&[0, 5])),
            Item::new(END, numbers(&[0])),
            Item::new(DATA, numbers(&[3, 0, 10])),
            Item::new(ACCEPT, numbers(&[3])),
            Item::new(RESET, numbers(&[3])),
        ];
        let ordered = [&[Item::new(200, [1])][..], &list].concat();
        vec![items::encode(&list), items::encode(&ordered)]
    }

    fn run(&mut self, input: &[u8]) {
        let list = items::parse(input);
        let is_ordered = list.first().is_some_and(|item| item.kind == 200);
        let mut end = End {
            streams: Streams::new(Side::Initiator, is_ordered),
            delivered: BTreeMap::new(),
            fault: false,
        };
        for item in list.iter().take(MAX_OPERATIONS) {
            end.run(item);
        }
    }
}

struct End {
    streams: Streams,
    /// By the number of the stream, which here is its handle too.
    delivered: BTreeMap<u32, Delivered>,
    /// The peer broke a rule, which ends the session of a node.
    fault: bool,
}

impl End {
    fn run(&mut self, Item { kind, payload }: &Item) {
        let mut numbers = payload.chunks_exact(4).map(|bytes| {
            let mut word = [0; 4];
            word.copy_from_slice(bytes);
            u32::from_le_bytes(word)
        });
        let mut next = || numbers.next().unwrap_or(0);
        let (id, second, third) = (next(), next(), next());
        let delivered = &mut self.delivered;
        let mut sink = |event: StreamEvent<'_>| deliver(delivered, event);
        match *kind {
            OPEN => {
                let id = self.streams.next_number();
                if self.streams.open(id).is_ok() {
                    self.delivered.insert(id, Delivered::default());
                }
            }
            ACCEPT if self.streams.check_open(id).is_ok() => {
                self.delivered.insert(id, Delivered::default());
                let delivered = &mut self.delivered;
                _ = self
                    .streams
                    .accept(id, id, &mut |event| deliver(delivered, event));
            }
            SEND => {
                let bytes = vec![1; (second % 20_000) as usize];
                if let Ok(Frame::Data(data)) = self.streams.send(id, &bytes) {
                    assert_eq!((data.stream, data.bytes), (id, &bytes[..]));
                }
            }
            END => _ = self.streams.end(id),
            CONSUME => self.consume(id, second),
            DATA => self.receive(id, wide(second), third),
            NEXT_DATA => {
                let offset = self.delivered.get(&id).map_or(0, |stream| stream.bytes);
                self.receive(id, offset, second);
            }
            PEER_END => _ = self.streams.end_received(id, wide(second), &mut sink),
            CREDIT => self.streams.credit_received(id, wide(second), &mut sink),
            RESET => _ = self.streams.reset(id),
            _ => {}
        }
        assert!(
            self.streams.handles().count() <= 2 * MAX_STREAMS,
            "the number of streams is bounded"
        );
        let windows = self.streams.handles().count() as u64 * STREAM_WINDOW;
        let early = 16 * 20_000;
        assert!(
            self.fault || self.streams.unread_bytes() <= windows + early,
            "a window bounds what waits on each stream"
        );
    }

    fn receive(&mut self, id: u32, offset: u64, len: u32) {
        let bytes = vec![2; (len % 20_000) as usize];
        let data = Data {
            stream: id,
            offset,
            bytes: &bytes,
        };
        let is_open = self.streams.contains(id);
        let delivered = &mut self.delivered;
        let taken = self.streams.data(data, &mut |event| deliver(delivered, event));
        self.fault |= taken.is_err();
        if taken.is_ok() && is_open {
            let limit = self.delivered.get(&id).map_or(0, |stream| stream.limit);
            assert!(
                offset + u64::from(len % 20_000) <= limit,
                "more than the credit is taken"
            );
        }
    }

    fn consume(&mut self, id: u32, bytes: u32) {
        let result = self.streams.consumed(id, bytes);
        let Some(delivered) = self.delivered.get_mut(&id) else {
            return;
        };
        if let Ok(announced) = result {
            delivered.consumed += u64::from(bytes);
            assert!(
                delivered.consumed <= delivered.bytes,
                "only what was delivered is consumed"
            );
            if let Some(Frame::Credit { limit, .. }) = announced {
                assert_eq!(limit, delivered.consumed + STREAM_WINDOW);
                delivered.limit = limit;
            }
        }
    }
}

/// Most offsets are small; the highest ones stand for those near the end of 64 bits.
fn wide(number: u32) -> u64 {
    if number > 0xffff_0000 {
        u64::MAX - u64::from(u32::MAX - number)
    } else {
        u64::from(number)
    }
}

/// Bytes come in order, within the window, and none after the end.
fn deliver(delivered: &mut BTreeMap<u32, Delivered>, event: StreamEvent<'_>) {
    match event {
        StreamEvent::Data(id, bytes) => {
            let stream = delivered.get_mut(&id).expect("a stream that was opened");
            assert!(
                !stream.has_ended && !bytes.is_empty(),
                "bytes come before the end"
            );
            stream.bytes += bytes.len() as u64;
            assert!(
                stream.bytes <= stream.consumed + STREAM_WINDOW,
                "the window bounds what comes"
            );
        }
        StreamEvent::End(id) => {
            let stream = delivered.get_mut(&id).expect("a stream that was opened");
            assert!(
                !core::mem::replace(&mut stream.has_ended, true),
                "a stream ends once"
            );
        }
        StreamEvent::Done(id) => {
            let stream = delivered.get(&id).expect("a stream that was opened");
            assert!(stream.has_ended, "a stream is done after its end");
        }
        StreamEvent::Reset(..) => {}
        StreamEvent::Credit(id, bytes) => {
            assert!(
                bytes > 0 && delivered.contains_key(&id),
                "credit is for a stream that was opened"
            );
        }
    }
}
