//! Following who serves a name.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::unfold;
use selfsame_codec::reply::{Provider, decode_providers};
use tokio::sync::watch::Receiver;

use crate::error::Error;
use crate::handle::{Handle, Item, Told};

/// Who serves a name: a stream of lists, the first at once and one more whenever the list has changed
///
/// A reader that is slow gets the latest list and not those between. The stream ends after an error, and when the node is
/// stopped.
pub struct Watch(Pin<Box<dyn Stream<Item = Result<Vec<Provider>, Error>> + Send>>);

impl Watch {
    /// Gives the command; the core is told when nobody watches any more.
    pub(crate) fn start(handle: &Handle, input: impl FnOnce(u32) -> Item) -> Self {
        let watched = handle.watch(input);
        Self(Box::pin(unfold(Some(watched), |watched| async {
            let (guard, mut told) = watched?;
            let item = next(&mut told).await?;
            let goes_on = item.is_ok().then_some((guard, told));
            Some((item, goes_on))
        })))
    }

    /// The next list; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Vec<Provider>, Error>> {
        core::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Watch {
    type Item = Result<Vec<Provider>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

async fn next(told: &mut Receiver<Told>) -> Option<Result<Vec<Provider>, Error>> {
    told.changed().await.ok()?;
    let latest = told.borrow_and_update().clone()?;
    Some(match latest {
        Ok(body) => decode_providers(&body).map_err(|_| Error::version_skew()),
        Err(code) => Err(Error::from_code(code)),
    })
}
