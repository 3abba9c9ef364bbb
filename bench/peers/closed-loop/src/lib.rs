//! Operations repeated in a closed loop: always as many at a time, and as soon as one is done the next begins.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// What a closed loop came to
#[derive(Clone, Debug)]
pub struct LoopResult {
    elapsed: Duration,
    took: Vec<Duration>,
    requests: u64,
}

/// Repeats `work` `count` times, `window` at a time; each tells how many requests to other nodes it took.
///
/// # Errors
/// The first failure.
pub async fn closed_loop<F>(
    window: u64,
    count: u64,
    work: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<LoopResult, String>
where
    F: Future<Output = Result<u64, String>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..window {
        let (next, work) = (Arc::clone(&next), work.clone());
        workers.spawn(async move {
            let (mut took, mut requests) = (Vec::new(), 0);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok((took, requests));
                }
                let before = Instant::now();
                requests += work(index).await?;
                took.push(before.elapsed());
            }
        });
    }
    let (mut took, mut requests) = (Vec::new(), 0);
    while let Some(worker) = workers.join_next().await {
        let result: Result<(Vec<Duration>, u64), String> = worker.map_err(|error| error.to_string())?;
        let (of_worker, requests_of_worker) = result?;
        took.extend(of_worker);
        requests += requests_of_worker;
    }
    took.sort_unstable();
    Ok(LoopResult {
        elapsed: begin.elapsed(),
        took,
        requests,
    })
}

impl LoopResult {
    /// The result as the harness reads it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let quantile = |percent: usize| {
            let last = self.took.len().saturating_sub(1);
            let took = self.took.get(last * percent / 100).copied().unwrap_or_default();
            took.as_nanos() as f64 / 1000.0
        };
        format!(
            r#"{{"ns":{},"p50_us":{},"p99_us":{},"requests":{}}}"#,
            self.elapsed.as_nanos(),
            quantile(50),
            quantile(99),
            self.requests
        )
    }
}

/// 32 random bytes.
///
/// # Errors
/// When the operating system gives none.
pub fn random_id() -> Result<[u8; 32], String> {
    let mut id = [0; 32];
    getrandom::fill(&mut id).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(id)
}
