//! How a proxy ends: what is under way finishes first.

use core::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Time to answer the requests that are given up.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a proxy still does
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It takes requests.
    Running,
    /// It finishes those that are under way.
    Draining,
    /// It gives up those that are left.
    Over,
}

/// Sets the stage, and knows whether anything is under way
pub(super) struct Ending(watch::Sender<Stage>);

/// Follows the stage; whoever holds this is under way
pub(super) struct Stages(watch::Receiver<Stage>);

impl Ending {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Stage::Running))
    }

    pub(super) fn stages(&self) -> Stages {
        Stages(self.0.subscribe())
    }

    /// Lets what is under way finish, for at most so long, then gives it up.
    pub(super) async fn drain(&self, longest: Duration) {
        self.0.send_replace(Stage::Draining);
        if timeout(longest, self.0.closed()).await.is_err() {
            self.0.send_replace(Stage::Over);
            // Whoever does not take the answer in time gets none.
            _ = timeout(FAREWELL, self.0.closed()).await;
        }
    }
}

impl Stages {
    /// Completes when the proxy has come to a stage.
    pub(super) async fn reached(&mut self, stage: Stage) {
        // A proxy that is gone has come to its end.
        _ = self.0.wait_for(|now| *now >= stage).await;
    }
}
