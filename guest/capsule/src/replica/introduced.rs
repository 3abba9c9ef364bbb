//! Sessions whose writers are known.

use alloc::collections::{BTreeMap, VecDeque};

use selfsame_codec::Code;

use super::Source;
use crate::authority::Authority;
use crate::hash::CapsuleName;
use crate::introduction::{Introduction, Place};
use crate::message::SessionId;
use crate::refusal::{Refusal, Result};
use crate::verifier::Verifier;

/// Most sessions of all writers; the writer of one that is forgotten is verified again.
const MAX_SESSIONS: usize = 4096;
/// Most sessions of one writer of a capsule: it takes nobody else's places.
const MAX_OF_WRITER: usize = 16;

/// A writer of a capsule
type Writer = (CapsuleName, u16);

/// Sessions by the writer whose they are, the one introduced longest ago first
#[derive(Debug, Default)]
pub(super) struct Introduced {
    of: BTreeMap<Writer, VecDeque<(SessionId, Source)>>,
    count: usize,
}

impl Introduced {
    /// Checks who asks. A session belongs to the source that it came from first: who has overheard an introduction is somebody
    /// else elsewhere.
    ///
    /// # Errors
    /// [`Code::NotAWriter`], [`Code::RevokedWriter`], [`Code::Replayed`], [`Code::BadSignature`].
    pub(super) fn check(
        &mut self,
        (authority, verifier): (&Authority, &mut Verifier),
        place: &Place<'_>,
        (source, now_ms): (&Source, u64),
        introduction: &Introduction,
    ) -> Result<()> {
        let refused = |code| Refusal::new(code, 0);
        let key = authority.key_of(introduction.writer).map_err(refused)?;
        let writer = (*place.capsule, introduction.writer);
        let known = self.of.get(&writer).and_then(|sessions| {
            let session = sessions.iter().find(|(session, _)| session == place.session);
            session.map(|(_, source)| *source)
        });
        match known {
            Some(known) if known == *source => return Ok(()),
            Some(_) => return Err(refused(Code::Replayed)),
            None => {}
        }
        introduction
            .verify(verifier, &key, place, now_ms)
            .map_err(refused)?;
        self.insert(writer, (*place.session, *source));
        Ok(())
    }

    fn insert(&mut self, writer: Writer, session: (SessionId, Source)) {
        if self.count >= MAX_SESSIONS {
            // The writer with the most makes room.
            let largest = self.of.iter().max_by_key(|(_, sessions)| sessions.len());
            if let Some(largest) = largest.map(|(writer, _)| *writer) {
                self.forget_oldest(&largest);
            }
        }
        let sessions = self.of.entry(writer).or_default();
        sessions.push_back(session);
        let is_full = sessions.len() > MAX_OF_WRITER;
        self.count += 1;
        if is_full {
            self.forget_oldest(&writer);
        }
    }

    fn forget_oldest(&mut self, writer: &Writer) {
        if let Some(sessions) = self.of.get_mut(writer) {
            self.count -= usize::from(sessions.pop_front().is_some());
            if sessions.is_empty() {
                self.of.remove(writer);
            }
        }
    }
}
