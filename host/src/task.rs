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
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
