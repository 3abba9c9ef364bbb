//! Many names at once.

use futures_util::future::join_all;
use selfsame_host::{Error, Node, ServeOptions};

use crate::common::nodes::{member, ring, says};
use crate::common::{get, text, within};

fn names() -> Vec<String> {
    (0..1000).map(|index| format!("name-{index}")).collect()
}

async fn publish_all(node: &Node, names: &[String]) -> Vec<Result<(), Error>> {
    let options = ServeOptions::new().replicas(0);
    within(join_all(names.iter().map(|name| node.publish(name, &options)))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_names_as_a_node_may_have_are_published_and_withdrawn_at_once() {
    let nodes = ring(2).await;
    let names = names();
    for published in publish_all(&nodes[0], &names).await {
        published.expect("published");
    }
    for name in ["name-0", "name-499", "name-999"] {
        assert_eq!(within(nodes[1].find(name)).await.expect(name).len(), 1);
    }
    // Beside all the others, a service still answers.
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "hello");
    for withdrawn in within(join_all(names.iter().map(|name| nodes[0].withdraw(name)))).await {
        withdrawn.expect("withdrawn");
    }
    assert!(within(nodes[1].find("name-499")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_its_own_publishes_as_many_names_as_it_may_have() {
    let node = within(member().start()).await.expect("a node");
    for published in publish_all(&node, &names()).await {
        published.expect("published");
    }
}
