//! Calls of services: deadlines, retries, providers that fail, and names that are followed.

use crate::support::rings::{HEAD, any_provider, call, call_within, publish, ring};
use crate::support::{Net, Seen};
use selfsame_codec::http::ResponseHead;
use selfsame_codec::reply::{Provider, decode_providers};
use selfsame_codec::{Code, Input, Policy};
use selfsame_core::identity::PeerId;

/// A ring of four whose nodes 1 and 2 serve a name, and node 3 calls.
fn two_providers() -> Net {
    let mut net = ring(4);
    publish(&mut net, 1, "check");
    publish(&mut net, 2, "check");
    net
}

fn begins(status: u16) -> Vec<u8> {
    ResponseHead {
        status,
        headers: vec![],
    }
    .encode()
}

/// The call of node 3 and how it ends: which node was called, or why none was.
fn called(net: &mut Net, input: &Input<'_>, tag: u32) -> Result<usize, Code> {
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    net.step(3, core::slice::from_ref(input));
    net.run_ms(100);
    let opened = net.hosts[3].seen.iter().find_map(|seen| match seen {
        Seen::StreamOpened { tag: other, peer, .. } if *other == tag => Some(*peer),
        _ => None,
    });
    match opened {
        Some(peer) => Ok(index_of(net, peer)),
        None => Err(net.failed(3, tag).expect("the call is answered")),
    }
}

fn index_of(net: &Net, peer: [u8; 32]) -> usize {
    let found = net.hosts.iter().position(|host| host.id == PeerId(peer));
    found.expect("the peer is one of ours")
}

fn reset_of(net: &Net, index: usize, stream: u32) -> Option<u16> {
    net.hosts[index].seen.iter().find_map(|seen| match seen {
        Seen::StreamReset { stream: other, code } if *other == stream => Some(*code),
        _ => None,
    })
}

/// What node 3 was told last of a name that it follows.
fn followed(net: &Net, tag: u32) -> Option<Vec<Provider>> {
    let told = net.hosts[3].seen.iter().rev().find_map(|seen| match seen {
        Seen::Providers { tag: other, body } if *other == tag => Some(body),
        _ => None,
    });
    told.map(|body| decode_providers(body).expect("sound providers"))
}

#[test]
fn a_provider_that_says_nothing_holds_up_no_call() {
    let mut net = two_providers();
    net.cut(1);
    net.hosts[1].stopped = true;
    for round in 0..40 {
        let (_, callee, _) =
            call_within(&mut net, 3, "check", 10 + round, 300).expect("a provider is reached");
        assert_eq!(callee, 2, "call {round}");
    }
    // Two learn that it says nothing, by waiting for it; the others go past it.
    let waited = net.hosts[3]
        .seen
        .iter()
        .filter(|seen| matches!(seen, Seen::Log { .. }))
        .count();
    assert!(waited <= 2, "{waited}");
}

#[test]
fn a_provider_without_room_is_told_by_its_error() {
    let mut net = two_providers();
    let peer = net.hosts[1].id.0;
    for tag in 1000..1300 {
        let call = Input::CallPeer {
            tag,
            peer,
            owner: &[],
            name: "check",
            timeout_ms: 0,
            head: HEAD,
        };
        net.step(3, &[call]);
    }
    net.deliver();
    assert_eq!(net.failed(3, 1299), Some(Code::TooManyStreams));
    net.kill(2);
    for tag in 10..30 {
        let call = any_provider(tag, "check");
        assert_eq!(
            called(&mut net, &call, tag),
            Err(Code::TooManyStreams),
            "call {tag}"
        );
    }
}

#[test]
fn a_call_of_one_peer_waits_for_it_alone() {
    let mut net = two_providers();
    net.cut(1);
    net.hosts[1].stopped = true;
    let peer = net.hosts[1].id.0;
    let call = Input::CallPeer {
        tag: 6,
        peer,
        owner: &[],
        name: "check",
        timeout_ms: 0,
        head: HEAD,
    };
    net.hosts[3].seen.clear();
    net.step(3, &[call]);
    net.run_ms(20_000);
    assert_eq!(net.failed(3, 6), Some(Code::TimedOut));
}

#[test]
fn a_handler_that_never_answers_is_cut_at_the_deadline() {
    let mut net = ring(2);
    publish(&mut net, 1, "check");
    let mut input = any_provider(6, "check");
    if let Input::Call { timeout_ms, .. } = &mut input {
        *timeout_ms = 1_000;
    }
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    net.step(0, &[input]);
    net.run_ms(900);
    let stream_of = |net: &Net, index: usize| {
        let opened = |seen: &Seen| match seen {
            Seen::StreamOpened { stream, .. } => Some(*stream),
            _ => None,
        };
        net.hosts[index]
            .seen
            .iter()
            .find_map(opened)
            .expect("a stream is open")
    };
    let (mine, theirs) = (stream_of(&net, 0), stream_of(&net, 1));
    assert_eq!(reset_of(&net, 0, mine), None);
    net.run_ms(200);
    assert_eq!(reset_of(&net, 0, mine), Some(Code::Deadline.as_u16()));
    assert!(reset_of(&net, 1, theirs).is_some(), "the handler is told");
}

#[test]
fn an_answer_that_has_begun_may_take_its_time() {
    let mut net = ring(2);
    publish(&mut net, 1, "check");
    let (mine, callee, theirs) = call(&mut net, 0, "check", 6).expect("the call reaches its provider");
    let data = begins(200);
    net.step(
        callee,
        &[Input::StreamData {
            stream: theirs,
            data: &data,
        }],
    );
    net.run_ms(60_000);
    assert_eq!(reset_of(&net, 0, mine), None);
}

#[test]
fn a_call_that_reaches_nobody_says_who_was_tried_and_fails_by_its_deadline() {
    let mut net = ring(3);
    publish(&mut net, 1, "check");
    net.hosts[1].up = false;
    net.cut(1);
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    net.step(2, &[any_provider(6, "check")]);
    net.run_ms(31_000);
    let (code, detail) = net.hosts[2]
        .seen
        .iter()
        .find_map(|seen| match seen {
            Seen::Failed { tag: 6, code, detail } => Some((*code, detail.clone())),
            _ => None,
        })
        .expect("the call fails");
    assert_eq!(code, Code::DialFailed);
    let expected = format!("{}={}", net.hosts[1].id, Code::DialFailed.as_u16());
    assert_eq!(detail, expected);
}

#[test]
fn a_retry_goes_to_another_provider() {
    let mut net = two_providers();
    let ids = [net.hosts[1].id.0, net.hosts[2].id.0];
    for (tried, expected) in [
        (&ids[..1], Ok(2)),
        (&ids[1..], Ok(1)),
        (&ids[..], Err(Code::NoProvider)),
    ] {
        let tried = tried.concat();
        let input = Input::Call {
            tag: 6,
            owner: &[],
            name: "check",
            key: &[],
            tried: &tried,
            policy: Policy::PowerOfTwo,
            timeout_ms: 0,
            head: HEAD,
        };
        net.run_ms(1_000);
        assert_eq!(called(&mut net, &input, 6), expected);
    }
}

#[test]
fn a_list_of_those_tried_that_is_no_list_of_ids_or_too_long_is_refused() {
    let mut net = two_providers();
    for (tried, expected) in [(vec![1; 33], Code::BadInput), (vec![1; 32 * 17], Code::TooLarge)] {
        let mut input = any_provider(6, "check");
        if let Input::Call { tried: field, .. } = &mut input {
            *field = &tried;
        }
        assert_eq!(called(&mut net, &input, 6), Err(expected));
    }
    let mut input = any_provider(6, "check");
    if let Input::Call { key, .. } = &mut input {
        *key = &[7; 257];
    }
    assert_eq!(called(&mut net, &input, 6), Err(Code::TooLarge));
}

#[test]
fn retries_have_a_budget() {
    let mut net = two_providers();
    let tried = net.hosts[1].id.0;
    let mut input = any_provider(6, "check");
    if let Input::Call { tried: field, .. } = &mut input {
        *field = &tried;
    }
    let mut codes = vec![];
    for _ in 0..40 {
        net.hosts[3].seen.clear();
        net.step(3, core::slice::from_ref(&input));
        codes.extend(net.failed(3, 6));
    }
    assert!(codes.len() >= 25, "{} of 40 retries are refused", codes.len());
    assert!(codes.iter().all(|code| *code == Code::RetryBudget), "{codes:?}");
}

#[test]
fn a_provider_whose_answers_say_that_it_fails_is_ejected() {
    let mut net = two_providers();
    let bad = net.hosts[1].id;
    let mut asked = [0; 4];
    for round in 0..60 {
        let (_, callee, theirs) =
            call_within(&mut net, 3, "check", 10 + round, 50).expect("a provider is reached");
        asked[callee] += 1;
        let data = begins(if net.hosts[callee].id == bad { 503 } else { 200 });
        let answer = [
            Input::StreamData {
                stream: theirs,
                data: &data,
            },
            Input::StreamEnd { stream: theirs },
        ];
        net.step(callee, &answer);
        net.deliver();
        let mine = net.hosts[3].seen.iter().find_map(|seen| match seen {
            Seen::StreamOpened { stream, .. } => Some(*stream),
            _ => None,
        });
        net.step(
            3,
            &[Input::StreamEnd {
                stream: mine.expect("a stream was opened"),
            }],
        );
        net.deliver();
    }
    assert!(asked[1] <= 10, "{asked:?}");
    net.step(
        3,
        &[Input::Watch {
            tag: 5,
            owner: &[],
            name: "check",
        }],
    );
    net.run_ms(1_000);
    let providers = followed(&net, 5).expect("the providers are told");
    assert!(
        providers.iter().all(|provider| provider.in_flight == 0),
        "{providers:?}"
    );
    assert!(
        providers.iter().all(|provider| provider.latency_ms.is_some()),
        "{providers:?}"
    );
}

#[test]
fn whoever_follows_a_name_is_told_of_new_providers_until_the_watch_is_cancelled() {
    let mut net = ring(4);
    let watch = Input::Watch {
        tag: 5,
        owner: &[],
        name: "check",
    };
    net.step(3, &[watch]);
    net.run_ms(3_000);
    assert_eq!(followed(&net, 5), Some(vec![]), "nobody serves the name");
    publish(&mut net, 1, "check");
    net.run_ms(6_000);
    assert_eq!(followed(&net, 5).map(|list| list.len()), Some(1));
    publish(&mut net, 2, "check");
    net.run_ms(6_000);
    assert_eq!(followed(&net, 5).map(|list| list.len()), Some(2));
    net.step(3, &[Input::Cancel { tag: 5 }]);
    net.hosts[3].seen.clear();
    net.step(
        2,
        &[Input::Withdraw {
            tag: 9,
            owner: &[],
            name: "check",
        }],
    );
    net.run_ms(20_000);
    assert_eq!(followed(&net, 5), None);
}

#[test]
fn a_weight_above_the_whole_is_refused() {
    let mut net = ring(1);
    let publish = Input::Publish {
        tag: 4,
        grant: &[],
        name: "check",
        replicas: 0,
        version: "",
        weight: 10_001,
    };
    net.step(0, &[publish]);
    assert_eq!(net.failed(0, 4), Some(Code::BadInput));
}

#[test]
fn a_stream_that_both_sides_have_ended_is_forgotten_whoever_ended_first() {
    let mut net = ring(2);
    publish(&mut net, 1, "check");
    let (mine, callee, theirs) = call(&mut net, 0, "check", 6).expect("the call reaches its provider");
    net.step(0, &[Input::StreamEnd { stream: mine }]);
    net.deliver();
    net.step(callee, &[Input::StreamEnd { stream: theirs }]);
    net.deliver();
    for (index, stream) in [(0, mine), (callee, theirs)] {
        net.hosts[index].seen.clear();
        net.step(index, &[Input::StreamReset { stream, code: 0 }]);
        let is_unknown = |seen: &Seen| {
            matches!(
                seen,
                Seen::Refused {
                    code: Code::UnknownStream,
                    ..
                }
            )
        };
        assert!(
            net.hosts[index].seen.iter().any(is_unknown),
            "node {index} holds stream {stream}"
        );
    }
}

#[test]
fn a_name_that_was_withdrawn_is_answered_to_until_callers_must_know() {
    let mut net = ring(2);
    publish(&mut net, 1, "check");
    net.step(
        1,
        &[Input::Withdraw {
            tag: 301,
            owner: &[],
            name: "check",
        }],
    );
    let peer = net.hosts[1].id.0;
    let ask = |net: &mut Net, tag: u32| {
        net.hosts.iter_mut().for_each(|host| host.seen.clear());
        let call = Input::CallPeer {
            tag,
            peer,
            owner: &[],
            name: "check",
            timeout_ms: 0,
            head: HEAD,
        };
        net.step(0, &[call]);
        net.run_ms(1_000);
        let is_call = |seen: &Seen| matches!(seen, Seen::StreamOpened { tag: 0, .. });
        net.hosts[1].seen.iter().any(is_call)
    };
    assert!(ask(&mut net, 6));
    net.run_ms(27_000);
    assert!(ask(&mut net, 7));
    net.run_ms(1_000);
    assert!(!ask(&mut net, 8));
}
