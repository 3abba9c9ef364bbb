//! Memory for requests: what all have, and what each source may take of it.

use alloc::sync::{Arc, Weak};
use core::fmt;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{MAX_CAPSULE_REQUEST, Source};

/// Bytes of requests that are read or carried out, of which many fit the module's memory.
const MAX_BYTES: usize = 64 << 20;
/// What a request takes besides its bytes.
const OVERHEAD: usize = 256;
/// Bytes of the requests of one source: two of the longest. What it sends beyond waits for its own requests only.
const MAX_OF_SOURCE: usize = 2 * (MAX_CAPSULE_REQUEST + OVERHEAD);

/// Memory for the requests of a replica
#[derive(Debug)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    /// The shares of those sources that hold something or wait.
    sources: Mutex<HashMap<Source, Weak<Semaphore>>>,
}

/// A source's share, forgotten when nobody uses it
struct SourceShare {
    room: Arc<Room>,
    source: Source,
    free: Arc<Semaphore>,
}

/// What one request takes of the memory; given back when it is dropped
pub(super) struct Place {
    all: OwnedSemaphorePermit,
    own: OwnedSemaphorePermit,
    /// After what is taken of it.
    share: SourceShare,
}

impl Room {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            all: Arc::new(Semaphore::new(MAX_BYTES)),
            sources: Mutex::default(),
        })
    }

    /// Room for a request of at most [`MAX_CAPSULE_REQUEST`] bytes that is here already, once there is some.
    pub(super) async fn take(self: &Arc<Self>, source: Source, bytes: usize) -> Option<Place> {
        let mut place = self.reserve(source, bytes).await?;
        let all = Arc::clone(&self.all).acquire_many_owned(permits(bytes + OVERHEAD)?);
        place.all.merge(all.await.ok()?);
        Some(place)
    }

    /// A place in the share of a source for a request that is still to be read, of at most so many bytes and
    /// [`MAX_CAPSULE_REQUEST`], once there is one. It takes nothing of what all have yet.
    pub(super) async fn reserve(self: &Arc<Self>, source: Source, bytes: usize) -> Option<Place> {
        let share = self.share(source);
        let own = Arc::clone(&share.free).acquire_many_owned(permits(bytes + OVERHEAD)?);
        Some(Place {
            all: Arc::clone(&self.all).try_acquire_many_owned(0).ok()?,
            own: own.await.ok()?,
            share,
        })
    }

    fn share(self: &Arc<Self>, source: Source) -> SourceShare {
        let mut sources = self.lock();
        let known = sources.get(&source).and_then(Weak::upgrade);
        let free = known.unwrap_or_else(|| {
            let free = Arc::new(Semaphore::new(MAX_OF_SOURCE));
            sources.insert(source, Arc::downgrade(&free));
            free
        });
        SourceShare {
            room: Arc::clone(self),
            source,
            free,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Source, Weak<Semaphore>>> {
        // Nothing panics between two changes of the table.
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Counts bytes that were read; whether all have room for them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let all = &self.share.room.all;
        let more = permits(bytes).and_then(|more| Arc::clone(all).try_acquire_many_owned(more).ok());
        more.map(|more| self.all.merge(more)).is_some()
    }

    /// Gives back what was reserved beyond the request's bytes, now that all of them are here.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.own.num_permits().saturating_sub(bytes + OVERHEAD);
        drop(self.own.split(surplus));
    }
}

impl Drop for SourceShare {
    fn drop(&mut self) {
        let mut sources = self.room.lock();
        // Whoever else uses it has got it from the table, which is locked.
        if Arc::strong_count(&self.free) == 1 {
            sources.remove(&self.source);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("source", &self.share.source)
            .finish_non_exhaustive()
    }
}

fn permits(bytes: usize) -> Option<u32> {
    u32::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LONGEST: usize = MAX_CAPSULE_REQUEST;

    fn source(number: u8) -> Source {
        Source([number; 32])
    }

    fn take(room: &Arc<Room>, number: u8) -> Option<Place> {
        room.take(source(number), LONGEST).now_or_never().flatten()
    }

    #[test]
    fn a_source_waits_for_its_own_requests_alone() {
        let room = Room::new();
        let mut held = vec![take(&room, 1).expect("room"), take(&room, 1).expect("room")];
        assert!(take(&room, 1).is_none());
        assert!(take(&room, 2).is_some());
        held.pop();
        assert!(take(&room, 1).is_some());
        held.clear();
        assert!(room.lock().is_empty(), "who holds nothing is forgotten");
    }

    #[test]
    fn what_is_announced_and_not_sent_takes_nothing_of_others() {
        let room = Room::new();
        let reserve = |number| room.reserve(source(number), LONGEST).now_or_never().flatten();
        let stalled: Vec<_> = (0..100)
            .flat_map(|number| [reserve(number), reserve(number)])
            .collect();
        assert!(stalled.iter().all(Option::is_some));
        assert!(take(&room, 200).is_some());
    }

    #[test]
    fn what_is_read_counts_until_all_is_taken() {
        let room = Room::new();
        let mut places = Vec::new();
        for number in 0.. {
            let reserved = room.reserve(source(number), LONGEST).now_or_never().flatten();
            let mut place = reserved.expect("a place");
            if !place.grow(LONGEST) {
                break;
            }
            places.push(place);
        }
        assert_eq!(places.len(), MAX_BYTES / LONGEST);
        places.pop();
        assert_eq!(room.all.available_permits(), LONGEST);
    }

    #[test]
    fn a_short_request_of_unknown_length_leaves_room_once_it_is_read() {
        let room = Room::new();
        let mut places = Vec::new();
        for _ in 0..100 {
            let reserved = room.reserve(source(1), LONGEST).now_or_never().flatten();
            let mut place = reserved.expect("a place");
            place.shrink_to(1000);
            places.push(place);
        }
    }
}
