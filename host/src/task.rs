use tokio::runtime::Handle as Runtime;
use tokio::task::{AbortHandle, JoinHandle};

/// A task that ends with this
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    /// Starts the task.
    pub(crate) fn spawn(work: impl Future<Output: Send> + Send + 'static) -> Self {
        let task: JoinHandle<_> = tokio::spawn(work);
        Self(task.abort_handle())
    }

    /// Starts the task in a runtime.
    pub(crate) fn spawn_on(runtime: &Runtime, work: impl Future<Output: Send> + Send + 'static) -> Self {
        let task: JoinHandle<_> = runtime.spawn(work);
        Self(task.abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
