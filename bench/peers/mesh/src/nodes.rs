use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_closed_loop::{closed_loop, random_id};
use bench_pair::Outcome;
use selfsame_host::{Builder, Code, CoreModule, Error, Node, Seed};

/// Where every node listens.
const LISTEN: &str = "ws://127.0.0.1:0";
/// How often an id is looked up, and the pause before the next time.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// Name of the network.
const NETWORK: &str = "bench";

/// The nodes of this process
pub(crate) struct Nodes {
    core: CoreModule,
    running: RefCell<Arc<Vec<Node>>>,
}

impl Nodes {
    pub(crate) fn new(core: CoreModule) -> Self {
        Self {
            core,
            running: RefCell::default(),
        }
    }

    fn builder(&self, bootstrap: &str) -> Builder {
        let builder = Node::builder(NETWORK)
            .core(self.core.clone())
            .in_memory()
            .unowned()
            .allow_private(true);
        if bootstrap.is_empty() {
            builder
        } else {
            builder.bootstrap([bootstrap])
        }
    }

    fn add(&self, node: Node) {
        Arc::make_mut(&mut self.running.borrow_mut()).push(node);
    }

    /// The node that was started first.
    pub(crate) fn first(&self) -> Outcome<Node> {
        self.running
            .borrow()
            .first()
            .cloned()
            .ok_or_else(|| "no node is started".to_owned())
    }

    /// Starts members one after the other; without a bootstrap the first one begins a network.
    ///
    /// Members have the same seeds each time, and so the same places: what a lookup costs depends on them, and networks that
    /// are compared are to differ in nothing else.
    pub(crate) async fn start(&self, bootstrap: &str, count: u64) -> Outcome<String> {
        let process = u8::from(!bootstrap.is_empty());
        let mut known = bootstrap.to_owned();
        for index in 0..count {
            let builder = self.builder(&known).seed(seed(process, index)).listen(LISTEN);
            let node = builder.start().await.map_err(told)?;
            if known.is_empty() {
                known = address(&node)?;
            }
            self.add(node);
        }
        Ok(known)
    }

    /// Starts a node that owns no key space.
    pub(crate) async fn start_client(&self, bootstrap: &str) -> Outcome<String> {
        let node = self.builder(bootstrap).start().await.map_err(told)?;
        self.add(node);
        Ok(String::new())
    }

    /// Starts nodes that own no key space, for names to be published by.
    pub(crate) async fn start_publishers(&self, bootstrap: &str, count: u64) -> Outcome<Vec<Node>> {
        let mut publishers = Vec::new();
        for _ in 0..count {
            publishers.push(self.builder(bootstrap).start().await.map_err(told)?);
        }
        Ok(publishers)
    }

    /// Looks random ids up, from each node in turn.
    pub(crate) async fn lookup(&self, window: u64, count: u64) -> Outcome<String> {
        let nodes = Arc::clone(&self.running.borrow());
        if nodes.is_empty() {
            return Err("no node is started".into());
        }
        let work = move |turn: u64| {
            let nodes = Arc::clone(&nodes);
            async move {
                let node = &nodes[turn as usize % nodes.len()];
                look_up(node, random_id()?).await
            }
        };
        Ok(closed_loop(window, count, work).await?.to_json())
    }

    /// Lets a node with a new identity join and leave.
    pub(crate) async fn blink(&self, bootstrap: &str) -> Outcome<String> {
        let began = Instant::now();
        let node = self
            .builder(bootstrap)
            .listen(LISTEN)
            .start()
            .await
            .map_err(told)?;
        let joined = began.elapsed();
        let began = Instant::now();
        node.leave().await.map_err(told)?;
        let left = began.elapsed();
        Ok(format!(
            r#"{{"join_ns":{},"leave_ns":{}}}"#,
            joined.as_nanos(),
            left.as_nanos()
        ))
    }
}

/// Looks an id up, and again when members that have just joined did not know yet who is responsible: the time counts.
async fn look_up(node: &Node, id: [u8; 32]) -> Outcome<u64> {
    let mut tries = 1;
    loop {
        match node.find_node(id).await {
            Ok((_, hops)) => return Ok(u64::from(hops)),
            Err(error) if error.code() == Some(Code::NoProgress) && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(told(error)),
        }
    }
}

/// Seed of one member of a process of a network, no secret.
fn seed(process: u8, index: u64) -> Seed {
    let mut bytes = [process; 32];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    Seed::from_bytes(bytes)
}

fn address(node: &Node) -> Outcome<String> {
    let address = node.addresses().first().ok_or("a node has no address")?;
    Ok(format!("{address}#{}", node.id()))
}

/// An error in one line.
pub(crate) fn told(error: Error) -> String {
    error.to_string()
}
