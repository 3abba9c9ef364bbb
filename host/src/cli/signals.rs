//! What the system and whoever started the process tell it.

use std::{io, thread};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::output::Failure;

/// Completes when the process is asked to end.
pub(crate) fn interrupted(end_with_input: bool) -> Result<impl Future<Output = ()>, Failure> {
    let failed = |error| Failure::other(format!("no signals: {error}"));
    #[cfg(unix)]
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    #[cfg(not(unix))]
    let mut terminated = tokio::signal::windows::ctrl_close().map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            Ok(()) = tokio::signal::ctrl_c() => {}
            () = input_ended(), if end_with_input => {}
        }
    })
}

/// Completes when a process that ends already is asked to once more.
pub(crate) fn interrupted_again() -> Result<impl Future<Output = ()>, Failure> {
    interrupted(false)
}

/// Completes when the standard input ends.
async fn input_ended() {
    let (told, ended) = oneshot::channel::<()>();
    // Not one of the runtime's threads: it would keep the process from ending for as long as it reads.
    let reader = thread::Builder::new().name("stdin".into()).spawn(move || {
        // What is written to the node means nothing to it.
        _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(told);
    });
    if let Err(error) = reader {
        tracing::warn!(%error, "the end of the standard input is not noticed");
        core::future::pending::<()>().await;
    }
    _ = ended.await;
}

/// Tells when the process is asked to read its files again: by SIGHUP, where there is one
#[derive(Debug)]
pub(crate) struct Reloads {
    #[cfg(unix)]
    hangups: Signal,
}

impl Reloads {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            hangups: signal(SignalKind::hangup())
                .map_err(|error| Failure::other(format!("no signals: {error}")))?,
        })
    }

    /// Completes the next time.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if self.hangups.recv().await.is_some() {
            return;
        }
        core::future::pending().await
    }
}
