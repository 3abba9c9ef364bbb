//! What members and leaves of a closed network try that they must not.

use selfsame_codec::Role;
use selfsame_core::channel::{Frame, FrameReader};

use crate::support::closed;
use crate::support::strangers::{Outside, Stranger};

/// The frames of packets that a node sent to a stranger that are requests of this kind.
fn requests(stranger: &mut Stranger, now_ms: u64, packets: Vec<Vec<u8>>, kind: u8) -> usize {
    let mut count = 0;
    for mut packet in packets {
        let Ok(payload) = stranger.session.open(now_ms, &mut packet) else {
            continue;
        };
        let frames = FrameReader::new(payload).map_while(Result::ok);
        let asks = |frame: &Frame<'_>| matches!(frame, Frame::Request { body, .. } if body[1] == kind);
        count += frames.filter(asks).count();
    }
    count
}

#[test]
fn peer_that_boasts_of_new_revocations_is_asked_a_few_times_at_once() {
    let mut net = closed::ring(3);
    let outside = Outside::new(&mut net);
    let mut liar = outside
        .enter_closed(&mut net, 0, 90, Role::Leaf)
        .expect("a session");
    // [11, the highest serial]
    let mut body = vec![0x82, 11, 0x1b];
    body.extend_from_slice(&[0xff; 8]);
    let mut asked = 0;
    for id in 0..2_000 {
        let answers = outside.say(&mut net, &mut liar, &Frame::Request { id, body: &body });
        asked += requests(&mut liar, net.now_ms, answers, 11);
    }
    assert!((1..=4).contains(&asked), "{asked}");
}
