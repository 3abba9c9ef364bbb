//! Heads of requests that do not follow the rules, from an application and from a peer.

use crate::support::rings::{any_provider, publish, ring};
use crate::support::strangers::{Outside, address};
use crate::support::{Net, Seen};
use selfsame_codec::http::RequestHead;
use selfsame_codec::{Code, Input};

fn head(method: &str, path: &str, name: &str, value: &[u8]) -> Vec<u8> {
    RequestHead {
        method: method.into(),
        path: path.into(),
        headers: vec![(name.into(), value.into())],
    }
    .encode()
}

/// What would be read differently by different hosts, or by a server behind one.
fn malformed() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        b"head".to_vec(),
        head("CONNECT", "/", "a", b"b"),
        head("trace", "/", "a", b"b"),
        head("get", "/", "content-length", b"5"),
        head("GET", "/a/../b", "a", b"b"),
        head("GET", "/a b", "a", b"b"),
        head("GET", "/", "transfer-encoding", b"chunked"),
        head("POST", "/", "content-length", b"+5"),
        head("GET", "/", "a", b"b\r\nc: d"),
    ]
}

fn has_opened(net: &Net, index: usize) -> bool {
    let is_open = |seen: &Seen| matches!(seen, Seen::StreamOpened { .. });
    net.hosts[index].seen.iter().any(is_open)
}

#[test]
fn a_call_with_a_malformed_head_is_refused_before_anybody_hears_of_it() {
    let mut net = ring(2);
    publish(&mut net, 1, "check");
    for (tag, bytes) in (10..).zip(malformed()) {
        let mut call = any_provider(tag, "check");
        if let Input::Call { head, .. } = &mut call {
            *head = &bytes;
        }
        net.step(0, &[call]);
        net.run_ms(1_000);
        assert_eq!(net.failed(0, tag), Some(Code::BadInput), "{bytes:?}");
        assert!(!has_opened(&net, 1), "{bytes:?}");
    }
}

#[test]
fn a_peer_that_opens_with_a_malformed_head_is_refused_and_may_open_again() {
    let mut net = ring(1);
    publish(&mut net, 0, "check");
    let outside = Outside::new(&mut net);
    let mut stranger = outside.enter(&mut net, 0, &address(1), 1).expect("a session");
    for (number, bytes) in (0..).zip(malformed()) {
        outside.open_with(&mut net, &mut stranger, 2 * number, "check", &bytes);
        assert!(!has_opened(&net, 0), "{bytes:?}");
        assert_eq!(
            net.counted(0, Code::BadMessage),
            u64::from(number) + 1,
            "{bytes:?}"
        );
    }
    outside.open(&mut net, &mut stranger, 100, "check");
    assert!(has_opened(&net, 0));
}
