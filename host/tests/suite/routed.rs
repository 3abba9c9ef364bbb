//! Messages that members pass on to each other over real sockets.

use core::time::Duration;

use selfsame_host::{BoxError, Code, Node, RouteTarget, RoutedMessage};

use crate::common::nodes::{bootstrap, ring};
use crate::common::within;

/// The body of a message, backwards; nothing is answered to an empty one.
async fn backwards(message: RoutedMessage) -> Result<Vec<u8>, BoxError> {
    if message.body.is_empty() {
        return Err("nothing was said".into());
    }
    Ok(message.body.iter().rev().copied().collect())
}

/// Who of the nodes is responsible for an id.
fn owner(nodes: &[Node], id: [u8; 32]) -> usize {
    let after = |index: &usize| {
        let peer = nodes[*index].id().0;
        (peer < id, peer)
    };
    (0..nodes.len()).min_by_key(after).expect("a node")
}

fn code(error: &selfsame_host::Error) -> Option<Code> {
    error.code()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_to_whoever_is_responsible_and_to_members_by_their_ids() {
    let nodes = ring(6).await;
    for (index, node) in nodes.iter().enumerate() {
        node.serve_routed(move |message| async move {
            let mut answer = backwards(message).await?;
            answer.push(index as u8);
            Ok(answer)
        });
    }
    for seed in 0..12 {
        let id = [seed * 21; 32];
        let answer = within(nodes[0].route(RouteTarget::Responsible(id), b"abc"))
            .await
            .expect("an answer");
        assert_eq!(answer[..3], *b"cba");
        assert_eq!(usize::from(answer[3]), owner(&nodes, id));
    }
    for (index, node) in nodes.iter().enumerate() {
        let target = RouteTarget::Member(node.id());
        let long = vec![7; 16 * 1024 - 1];
        let answer = within(nodes[2].route(target, &long)).await.expect("an answer");
        assert_eq!(usize::from(answer[long.len()]), index);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_are_those_who_have_sent() {
    let nodes = ring(3).await;
    nodes[1].serve_routed(async |message: RoutedMessage| Ok::<_, BoxError>(message.from.0.to_vec()));
    let target = RouteTarget::Member(nodes[1].id());
    for node in &nodes {
        let answer = within(node.route(target, b"who?")).await.expect("an answer");
        assert_eq!(answer[..], node.id().0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_answered_fail_with_the_reason() {
    let nodes = ring(3).await;
    nodes[1].serve_routed(backwards);
    let to = |index: usize| RouteTarget::Member(nodes[index].id());
    let refused = within(nodes[0].route(to(1), b"")).await.expect_err("a refusal");
    assert_eq!(code(&refused), Some(Code::StreamRefused));
    let unserved = within(nodes[0].route(to(2), b"abc"))
        .await
        .expect_err("a refusal");
    assert_eq!(code(&unserved), Some(Code::StreamRefused));
    let too_large = within(nodes[0].route(to(1), &[0; 16 * 1024 + 1]))
        .await
        .expect_err("a limit");
    assert_eq!(code(&too_large), Some(Code::TooLarge));
    let nobody = RouteTarget::Member(selfsame_host::PeerId([9; 32]));
    let late = within(nodes[0].route_within(nobody, b"abc", Duration::from_millis(300)))
        .await
        .expect_err("a time-out");
    assert_eq!(code(&late), Some(Code::Deadline));
    let leaf = Node::builder("test")
        .in_memory()
        .allow_private(true)
        .unowned()
        .bootstrap(bootstrap(&nodes[0]));
    let leaf = within(leaf.start()).await.expect("a leaf");
    let outside = within(leaf.route(to(1), b"abc")).await.expect_err("a leaf");
    assert_eq!(code(&outside), Some(Code::NotMember));
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_panic_refuse_their_message_alone() {
    let nodes = ring(2).await;
    nodes[1].serve_routed(async |message: RoutedMessage| {
        assert!(!message.body.is_empty(), "on purpose");
        Ok::<_, BoxError>(message.body)
    });
    let target = RouteTarget::Member(nodes[1].id());
    let refused = within(nodes[0].route(target, b"")).await.expect_err("a refusal");
    assert_eq!(code(&refused), Some(Code::StreamRefused));
    let answer = within(nodes[0].route(target, b"abc")).await.expect("an answer");
    assert_eq!(answer[..], *b"abc");
}
