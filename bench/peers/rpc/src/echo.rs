//! Sequential echoes of four bytes, timed one by one.

use core::fmt::Write as _;
use core::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_pair::{Outcome, Task};
use tokio::runtime::Runtime;

use crate::clock::cpu_time;

/// How long an echo may take. Loopback loses no datagram of a sequence, so one that does is a fault.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// A client and a server that echoes
pub(crate) trait Echo: Send + 'static {
    /// Gets ready for so many echoes; not timed.
    fn prepare(&mut self, _count: u64) -> impl Future<Output = Outcome<()>> {
        async { Ok(()) }
    }

    /// Sends four bytes and returns those that come back.
    fn echo(&mut self, payload: [u8; 4]) -> impl Future<Output = Outcome<[u8; 4]>>;

    /// Ends what an echo leaves behind: it counts as processor time alone.
    fn settle(&mut self) -> impl Future<Output = Outcome<()>> {
        async { Ok(()) }
    }
}

/// A task that echoes as often as it is told; answers with processor time and the nanoseconds of each echo.
pub(crate) fn task(runtime: &Arc<Runtime>, mut echo: impl Echo) -> Task {
    let runtime = Arc::clone(runtime);
    Box::new(move |count| {
        let mut took = Vec::new();
        runtime.block_on(echo.prepare(count))?;
        let before = cpu_time();
        runtime.block_on(async {
            for number in 0..count {
                let payload = (number as u32).to_le_bytes();
                let begin = Instant::now();
                let answer = echo.echo(payload).await?;
                took.push(begin.elapsed());
                echo.settle().await?;
                if answer != payload {
                    return Err(format!("{payload:?} came back as {answer:?}"));
                }
            }
            Ok(())
        })?;
        let cpu = cpu_time() - before;
        Ok(to_json(&took, cpu))
    })
}

/// Waits for an answer; an error when it takes too long.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(LONGEST, work)
        .await
        .map_err(|_| "an echo did not come back".into())
}

/// The four bytes of an answer.
pub(crate) fn four(bytes: &[u8]) -> Outcome<[u8; 4]> {
    bytes
        .try_into()
        .map_err(|_| format!("{} bytes came back in place of 4", bytes.len()))
}

fn to_json(took: &[Duration], cpu: Duration) -> String {
    let mut list = String::new();
    for took in took {
        let comma = if list.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        _ = write!(list, "{comma}{}", took.as_nanos());
    }
    let cpu_ns = cpu.as_nanos() as f64 / took.len().max(1) as f64;
    format!(r#"{{"cpu_ns":{cpu_ns},"took":[{list}]}}"#)
}
