//! Two connections in a network that loses, delays, repeats and reorders, on a clock of its own.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use tokio::time::Instant;

use super::super::incoming::MAX_WINDOW;
use super::super::packet::{Datagram, Packet, SEGMENT};
use super::{Connection, Gone, Ids};

/// What a network does to datagrams, in thousandths
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    loss: u64,
    copies: u64,
    delay: Duration,
    jitter: Duration,
}

/// Random numbers that a seed repeats (SplitMix64)
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }
}

struct Side {
    connection: Connection,
    /// What it sends, and how much of it was queued.
    text: Vec<u8>,
    queued: usize,
    heard: Vec<u8>,
    /// Whether somebody reads what arrives.
    reads: bool,
    /// Bytes of the stream in all packets that it sent.
    sent: usize,
}

struct Net {
    now: Instant,
    began: Instant,
    random: Random,
    weather: Weather,
    sides: [Side; 2],
    under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl Net {
    fn new(seed: u64, weather: Weather, lengths: [usize; 2]) -> Self {
        let now = Instant::now();
        let side = |id: u8, len: usize| Side {
            connection: Connection::new(
                Ids {
                    own: [3 - id; 8],
                    peer: [id; 8],
                },
                now,
            ),
            text: (0..len).map(|at| (at as u8) ^ (at >> 8) as u8 ^ id).collect(),
            queued: 0,
            heard: Vec::new(),
            reads: true,
            sent: 0,
        };
        Self {
            now,
            began: now,
            random: Random(seed),
            weather,
            sides: [side(2, lengths[0]), side(1, lengths[1])],
            under_way: BTreeMap::new(),
            count: 0,
        }
    }

    fn elapsed(&self) -> Duration {
        self.now - self.began
    }

    /// Lets both sides write, read and send what they may now.
    fn turn(&mut self) -> Result<(), Gone> {
        for from in 0..2 {
            let side = &mut self.sides[from];
            side.connection.woken(self.now)?;
            let room = (2 * 1024 * 1024_usize).saturating_sub(side.connection.outgoing.queued());
            let piece = &side.text[side.queued..(side.queued + room).min(side.text.len())];
            side.connection.outgoing.queue().extend_from_slice(piece);
            side.queued += piece.len();
            if side.queued == side.text.len() {
                side.connection.outgoing.end();
            }
            while side.reads && !side.connection.incoming.ready().is_empty() {
                let len = side.connection.incoming.ready().len();
                side.heard.extend_from_slice(side.connection.incoming.ready());
                side.connection.incoming.taken(len, self.now);
            }
            self.send(from);
        }
        Ok(())
    }

    fn send(&mut self, from: usize) {
        loop {
            let mut datagram = Vec::new();
            if !self.sides[from].connection.write_next(self.now, &mut datagram) {
                return;
            }
            let Some(Datagram::Packet(packet)) = Datagram::parse(&datagram) else {
                panic!("a connection sends packets");
            };
            self.sides[from].sent += packet.bytes.len();
            let copies = match self.random.next(1000) {
                roll if roll < self.weather.loss => 0,
                roll if roll < self.weather.loss + self.weather.copies => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let late = self.random.next(self.weather.jitter.as_micros() as u64);
                let at = self.now + self.weather.delay + Duration::from_micros(late);
                self.count += 1;
                self.under_way
                    .insert((at, self.count), (1 - from, datagram.clone()));
            }
        }
    }

    /// Goes on to what happens next; `None` when nothing will.
    fn step(&mut self) -> Result<Option<()>, Gone> {
        self.turn()?;
        let arrival = self.under_way.first_key_value().map(|(key, _)| key.0);
        let wakes = self.sides.iter().filter_map(|side| side.connection.wake_at());
        let Some(next) = arrival.into_iter().chain(wakes).min() else {
            return Ok(None);
        };
        self.now = self.now.max(next);
        while let Some(entry) = self
            .under_way
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)
        {
            let (to, datagram) = entry.remove();
            let Some(Datagram::Packet(packet)) = Datagram::parse(&datagram) else {
                panic!("a connection sends packets");
            };
            self.sides[to].connection.received(&packet, self.now);
        }
        Ok(Some(()))
    }

    fn is_done(&self) -> bool {
        self.sides.iter().all(|side| {
            side.connection.outgoing.is_done()
                && side.connection.incoming.has_ended()
                && side.connection.incoming.ready().is_empty()
        })
    }

    fn run(&mut self) -> Result<(), Gone> {
        while !self.is_done() {
            self.step()?.expect("it goes on until all is there");
        }
        Ok(())
    }

    fn assert_whole(&self, what: &str) {
        assert!(self.sides[0].heard == self.sides[1].text, "{what}: to the first");
        assert!(self.sides[1].heard == self.sides[0].text, "{what}: to the second");
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn everything_arrives_in_order_whatever_the_network_does() {
    for (loss, copies, jitter) in [(0, 0, 0), (10, 0, 0), (0, 100, 30), (100, 50, 5), (300, 100, 60)] {
        for seed in 0..8 {
            let weather = Weather {
                loss,
                copies,
                delay: 10 * MS,
                jitter: jitter * MS,
            };
            let mut net = Net::new(seed, weather, [300_000, 77_777]);
            assert_eq!(net.run(), Ok(()), "seed {seed}, {weather:?}");
            net.assert_whole(&format!("seed {seed}, {weather:?}"));
        }
    }
}

#[test]
fn nothing_is_sent_twice_when_nothing_is_lost_and_the_window_opens() {
    let weather = Weather {
        delay: 20 * MS,
        ..Weather::default()
    };
    let mut net = Net::new(1, weather, [8 * 1024 * 1024, 0]);
    net.run().expect("a connection");
    net.assert_whole("8 MiB");
    assert_eq!(net.sides[0].sent, 8 * 1024 * 1024);
    // Ten packets, doubled in each round trip of 40 ms up to a MiB, and that much in each from then on.
    let round_trips = net.elapsed().as_millis() / 40;
    assert!((12..20).contains(&round_trips), "{round_trips}");
}

#[test]
fn a_lost_last_packet_is_sent_again() {
    let mut net = Net::new(
        1,
        Weather {
            delay: 5 * MS,
            ..Weather::default()
        },
        [100, 0],
    );
    net.weather.loss = 1000;
    net.turn().expect("a connection");
    net.weather.loss = 0;
    net.run().expect("a connection");
    net.assert_whole("100 bytes");
    assert!(
        net.elapsed() >= Duration::from_secs(1),
        "the first retransmission time"
    );
}

#[test]
fn a_reader_that_stops_holds_the_sender_back_and_may_go_on() {
    let mut net = Net::new(
        3,
        Weather {
            delay: 5 * MS,
            ..Weather::default()
        },
        [4 * 1024 * 1024, 10],
    );
    net.sides[1].reads = false;
    while net.elapsed() < Duration::from_secs(100) {
        net.step().expect("a connection").expect("a probe");
    }
    let held = net.sides[1].connection.incoming.acknowledged();
    assert_eq!(held, MAX_WINDOW, "what was announced, and no more");
    net.sides[1].reads = true;
    net.run().expect("a connection");
    net.assert_whole("after the pause");
}

#[test]
fn a_break_heals_unless_it_lasts() {
    let weather = Weather {
        delay: 5 * MS,
        ..Weather::default()
    };
    for (seconds, expected) in [(10, Ok(())), (60, Err(Gone))] {
        let mut net = Net::new(4, weather, [1024 * 1024, 1024]);
        while net.sides[1].heard.len() < 100_000 {
            net.step().expect("a connection");
        }
        net.weather.loss = 1000;
        let until = net.now + Duration::from_secs(seconds);
        let broken = loop {
            match net.step() {
                Ok(Some(())) if net.now < until => {}
                Ok(_) => break Ok(()),
                Err(gone) => break Err(gone),
            }
        };
        assert_eq!(broken, expected, "{seconds} s");
        if broken.is_ok() {
            net.weather.loss = 0;
            net.run().expect("a connection");
            net.assert_whole("after the break");
        }
    }
}

#[test]
fn a_hostile_peer_disturbs_nothing_and_fills_no_memory() {
    let now = Instant::now();
    let mut random = Random(9);
    let ids = Ids {
        own: [2; 8],
        peer: [1; 8],
    };
    let mut connection = Connection::new(ids, now);
    connection.outgoing.queue().extend_from_slice(&[7; 5000]);
    let mut sent = VecDeque::new();
    let mut out = Vec::new();
    while connection.write_next(now, &mut out) {
        sent.push_back(core::mem::take(&mut out));
    }
    let bytes = [0; SEGMENT];
    for _ in 0..200_000 {
        let acknowledged = random.next(3) * random.next(10_000);
        let from = acknowledged + 1 + random.next(5000);
        let offset = random.next(4) * random.next(MAX_WINDOW);
        let packet = Packet {
            id: [2; 8],
            ends: random.next(500) == 0,
            acknowledged,
            window: random.next(1 << 32) as u32,
            ranges: core::iter::once(from..from + 1 + random.next(5000)).collect(),
            offset: if random.next(10) == 0 { 1 << 61 } else { offset },
            bytes: &bytes[..random.next(3) as usize * random.next(20) as usize],
        };
        connection.received(&packet, now);
        out.clear();
        connection.write_next(now, &mut out);
        assert!(connection.incoming.ready().len() as u64 <= MAX_WINDOW);
        assert!(connection.incoming.pieces() <= 2048);
    }
}
