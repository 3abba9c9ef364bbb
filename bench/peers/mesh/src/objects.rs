use std::cell::RefCell;

use bench_closed_loop::closed_loop;
use bench_pair::Outcome;
use selfsame_host::{Node, ServeOptions};

use crate::nodes::told;

/// Odd, with ones and zeros all over: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is published, and who is to publish more
#[derive(Default)]
pub(crate) struct Objects {
    idle: RefCell<Vec<Node>>,
    published: RefCell<u64>,
}

/// The name of an object: 16 bytes.
fn name(index: u64) -> String {
    format!("object-{index:09}")
}

impl Objects {
    /// Takes the nodes that publish what is stored next.
    pub(crate) fn publishers(&self, publishers: Vec<Node>) -> Outcome<String> {
        self.idle.borrow_mut().extend(publishers);
        Ok(String::new())
    }

    /// Publishes names, each publisher as many as the others; then the publishers end, as what they have published stays.
    pub(crate) async fn store(&self, window: u64, count: u64) -> Outcome<String> {
        let publishers = self.idle.take();
        let from = *self.published.borrow();
        let several = u64::try_from(publishers.len()).map_err(|error| error.to_string())?;
        if several == 0 {
            return Err("no publisher is started".into());
        }
        let nodes = publishers.clone();
        let work = move |index: u64| {
            let node = nodes[(index % several) as usize].clone();
            async move {
                let options = ServeOptions::new().replicas(0);
                let published = node.publish(&name(from + index), &options).await;
                published.map_err(told).map(|()| 1)
            }
        };
        let result = closed_loop(window, count, work).await?;
        *self.published.borrow_mut() += count;
        for publisher in publishers {
            publisher.stop().await;
        }
        Ok(result.to_json())
    }

    /// Finds published names, at random.
    pub(crate) async fn find(&self, client: Node, window: u64, count: u64) -> Outcome<String> {
        let published = *self.published.borrow();
        if published == 0 {
            return Err("nothing is published".into());
        }
        let work = move |turn: u64| {
            let client = client.clone();
            async move {
                // As good as at random, and no call of the system.
                let index = (turn.wrapping_mul(SPREAD) >> 32) % published;
                match client.find(&name(index)).await.map_err(told)?.len() {
                    1 => Ok(1),
                    providers => Err(format!("{providers} providers where 1 was published")),
                }
            }
        };
        Ok(closed_loop(window, count, work).await?.to_json())
    }
}
