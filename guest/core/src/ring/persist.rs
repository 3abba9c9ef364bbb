//! What survives a restart: neighbours, remembered members, attached leaves, the object table, and what is published.
//!
//! ```cddl
//! ; ring/own                       node-record
//! ; ring/route/ + id               node-record
//! ; ring/leaf/ + id                source, 8 bytes, and node-record
//! ; ring/object/ + object + publisher   source, 8 bytes, and entry
//! ; ring/published/ + object       published
//! ; ring/neighbours                neighbours
//! ; ring/revocations               revocations
//! ; ring/lease                     lease-statement, of the last epoch
//! ; ring/contradiction/ + key      contradiction
//! published = [association: bytes .cbor association, holder: id]
//! neighbours = [predecessors: [0*4 id], successors: [0*16 id]]         ; the nearest first
//! ```

use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use super::message::{MAX_NODES, entry_from_bytes, entry_to_bytes};
use super::objects::Key;
use super::{Action, Context, Ring};
use crate::admission::KNOWS_CLOSED;
use crate::association::{Association, MAX_ASSOCIATION_BYTES, ObjectId};
use crate::gather::read_list;
use crate::identity::{PeerId, PublicKey};
use crate::quota::Holder;
use crate::record::NodeRecord;
use selfsame_sorted_map::Map;

const OWN: &[u8] = b"ring/own";
const ROUTE: &[u8] = b"ring/route/";
const LEAF: &[u8] = b"ring/leaf/";
const OBJECT: &[u8] = b"ring/object/";
const PUBLISHED: &[u8] = b"ring/published/";
const NEIGHBOURS: &[u8] = b"ring/neighbours";
const REVOCATIONS: &[u8] = b"ring/revocations";
pub(super) const LEASE: &[u8] = b"ring/lease";
const CONTRADICTION: &[u8] = b"ring/contradiction/";

/// What the store holds of the routes
#[derive(Debug, Default)]
pub(super) struct Persisted {
    written_ms: u64,
    routes: Map<PeerId, u64>,
    neighbours: Vec<u8>,
}

impl Ring {
    /// Takes what was stored under a key that begins with [`Ring::STORE_PREFIX`]; before anything else. What has
    /// expired in the meantime is deleted.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] when it does not decode.
    pub fn load(&mut self, cx: &mut Context<'_>, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let loaded = if key == NEIGHBOURS {
            self.load_neighbours(cx, value).map_err(|_| Code::StoreCorrupt)
        } else if KNOWS_CLOSED && key == REVOCATIONS {
            self.gate.take_revocations(value).map(|_| self.shut_out(cx))
        } else if KNOWS_CLOSED && key == LEASE {
            self.load_lease(cx, value)
        } else if KNOWS_CLOSED && key.starts_with(CONTRADICTION) {
            self.load_contradiction(cx, value)
        } else if key == OWN {
            self.load_own(cx, value)
        } else if key.starts_with(ROUTE) {
            self.load_route(cx, key, value)
        } else if key.starts_with(LEAF) {
            self.load_leaf(cx, key, value)
        } else if key.starts_with(OBJECT) {
            self.load_object(cx, key, value)
        } else if key.starts_with(PUBLISHED) {
            self.load_published(cx, key, value)
        } else {
            Err(Code::StoreCorrupt)
        };
        match loaded {
            // Somebody has brought a newer list meanwhile, which takes the place of this one in the store.
            Ok(()) | Err(Code::StaleRevocations) => Ok(()),
            // Time has passed, or the settings are stricter now: neither is the store's fault.
            Err(
                Code::StaleRecord
                | Code::WrongClock
                | Code::NotGranted
                | Code::ForbiddenAddress
                | Code::TooManyAssociations
                | Code::WrongNetwork
                | Code::RevokedCertificate
                | Code::Convicted
                | Code::ExpiredCertificate
                | Code::EarlyCertificate,
            ) => {
                self.actions.push_back(Action::Delete { key: key.to_vec() });
                Ok(())
            }
            Err(_) => Err(Code::StoreCorrupt),
        }
    }

    fn load_record(&mut self, cx: &Context<'_>, id: &[u8], value: &[u8]) -> Result<NodeRecord, Code> {
        let record = self.verify_record(value, cx.wall_ms)?;
        if record.id().0 == *id {
            Ok(record)
        } else {
            Err(Code::StoreCorrupt)
        }
    }

    /// Takes up the own record, of whatever time: the next one has to be above it.
    fn load_own(&mut self, cx: &Context<'_>, value: &[u8]) -> Result<(), Code> {
        let settings = &self.settings;
        let record = NodeRecord::decode(&mut self.gate, value)?;
        if !record.is_from_future(cx.wall_ms) && !record.is_current(cx.wall_ms) {
            // Everybody has forgotten it.
            return Err(Code::StaleRecord);
        }
        if record.id() != settings.id {
            // The authority has moved this node elsewhere since.
            return Err(if self.gate.is_closed() {
                Code::StaleRecord
            } else {
                Code::StoreCorrupt
            });
        }
        let is_true = record.role() == settings.role
            && record.addresses() == settings.addresses
            && record.domain() == settings.domain;
        self.own.restore(record, is_true);
        Ok(())
    }

    pub(super) fn put_own(&mut self, record: &NodeRecord) {
        self.put(OWN.to_vec(), record.encoded().to_vec());
    }

    fn load_route(&mut self, cx: &Context<'_>, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let record = self.load_record(cx, &key[ROUTE.len()..], value)?;
        let peer = record.id();
        self.persisted.routes.insert(peer, record.sequence());
        self.meet(record);
        // An earlier start had it among its neighbours or fingers.
        self.book.trust(&peer);
        Ok(())
    }

    fn load_leaf(&mut self, cx: &Context<'_>, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let (source, value) = value.split_first_chunk().ok_or(Code::StoreCorrupt)?;
        let record = self.load_record(cx, &key[LEAF.len()..], value)?;
        self.attach.restore_leaf(record.id(), Holder::from_bytes(*source));
        self.meet(record);
        Ok(())
    }

    fn load_object(&mut self, cx: &mut Context<'_>, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let (source, value) = value.split_first_chunk().ok_or(Code::StoreCorrupt)?;
        let entry = entry_from_bytes(value).map_err(|_| Code::StoreCorrupt)?;
        let proven = self.verify_entry(cx, &entry)?;
        self.keep_entry(&proven, &entry, Holder::from_bytes(*source))?;
        // What was loaded need not be written.
        if self
            .objects
            .take_changed()
            .iter()
            .all(|stored| object_key(stored) != key)
        {
            return Err(Code::NotGranted);
        }
        Ok(())
    }

    fn load_neighbours(&mut self, cx: &Context<'_>, value: &[u8]) -> Result<(), Malformed> {
        let mut decoder = Decoder::new(value);
        decoder.array_of(2)?;
        let mut read_ids = || read_list(&mut decoder, MAX_NODES, &|decoder| decoder.fixed().map(PeerId));
        let (predecessors, successors) = (read_ids()?, read_ids()?);
        decoder.finish()?;
        self.routing.restore_before(predecessors);
        if let Some((first, rest)) = successors.split_first() {
            self.routing.adopt_successor(*first, rest);
        }
        self.persisted.neighbours = value.to_vec();
        if self.is_member() {
            self.resume(cx.now_ms);
        }
        Ok(())
    }

    fn load_published(&mut self, cx: &Context<'_>, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let (bytes, holder) = read_published(value).map_err(|_| Code::StoreCorrupt)?;
        let association =
            Association::decode_verified(&mut self.gate, &|key| cx.identity.id_of(key), bytes, cx.wall_ms)?;
        if association.publisher() != self.me() || published_key(&association.object()) != key {
            return Err(Code::StoreCorrupt);
        }
        self.publisher.restore(association, holder);
        Ok(())
    }

    /// Keeps what was stored at a holder, so that a restart does not have to store it anew.
    pub(super) fn put_published(&mut self, association: &Association, holder: &PeerId) {
        let mut value = Vec::new();
        Encoder::new(&mut value)
            .array(2)
            .bytes(association.encoded())
            .bytes(&holder.0);
        self.put(published_key(&association.object()), value);
    }

    pub(super) fn delete_published(&mut self, object: &ObjectId) {
        let key = published_key(object);
        self.actions.push_back(Action::Delete { key });
    }

    /// Takes neighbours out whose records have expired: nobody could dial them. A member that has lost all so, because its
    /// clock jumped or it slept for long, is in no ring: alone it would claim every place.
    pub(super) fn forget_neighbours_without_record(&mut self) {
        let was_alone = self.is_alone();
        for peer in self.routing.all() {
            if self.book.get(&peer).is_none() {
                self.routing.remove(&peer);
            }
        }
        if !was_alone && self.is_alone() && self.serves() {
            self.lost_all();
        }
    }

    /// Writes what was stored in the object table and deletes what was dropped; says what that was.
    pub(super) fn persist_objects(&mut self) -> Vec<Key> {
        let changed = self.objects.take_changed();
        for stored in &changed {
            let key = object_key(stored);
            match self.objects.get_stored(stored) {
                Some((entry, source)) => {
                    let value = [&source.to_bytes()[..], &entry_to_bytes(&entry)].concat();
                    self.put(key, value);
                }
                None => self.actions.push_back(Action::Delete { key }),
            }
        }
        changed
    }

    pub(super) fn put_leaf(&mut self, peer: &PeerId, source: Holder) {
        if let Some(record) = self.book.get(peer) {
            let value = [&source.to_bytes()[..], record.encoded()].concat();
            self.put([LEAF, &peer.0].concat(), value);
        }
    }

    pub(super) fn delete_leaf(&mut self, peer: &PeerId) {
        let key = [LEAF, &peer.0].concat();
        self.actions.push_back(Action::Delete { key });
    }

    /// Keeps whom the network admits no more: this must not be undone by a restart.
    pub(super) fn put_revocations(&mut self, list: Vec<u8>) {
        self.actions.push_back(Action::Put {
            key: REVOCATIONS.to_vec(),
            value: list,
            durable: true,
        });
    }

    /// Associations are published anew and routes found anew, so nothing here has to survive a power loss.
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.actions.push_back(Action::Put {
            key,
            value,
            durable: false,
        });
    }

    /// Writes what changed of the routes, at most once a minute.
    pub(super) fn persist_routes(&mut self, cx: &mut Context<'_>) {
        let next_ms = self
            .persisted
            .written_ms
            .saturating_add(self.parameters.write_routes_ms);
        if self.persisted.written_ms != 0 && cx.now_ms < next_ms {
            return;
        }
        self.persisted.written_ms = cx.now_ms;
        let mut current = self.routing.all();
        current.extend(self.attach.relays());
        for peer in &current {
            let Some(record) = self.book.get(peer) else {
                continue;
            };
            let sequence = record.sequence();
            if self.persisted.routes.get(peer) != Some(&sequence) {
                let value = record.encoded().to_vec();
                self.persisted.routes.insert(*peer, sequence);
                self.put([ROUTE, &peer.0].concat(), value);
            }
        }
        self.drop_old_routes(&current);
        let neighbours = self.encode_neighbours();
        if neighbours != self.persisted.neighbours {
            self.persisted.neighbours.clone_from(&neighbours);
            self.put(NEIGHBOURS.to_vec(), neighbours);
        }
    }

    fn drop_old_routes(&mut self, current: &[PeerId]) {
        while self.persisted.routes.len() > self.parameters.max_stored_routes {
            let old = self.persisted.routes.iter();
            let old = old
                .filter(|(peer, _)| !current.contains(peer))
                .min_by_key(|(_, sequence)| **sequence);
            let Some(peer) = old.map(|(peer, _)| *peer) else {
                return;
            };
            self.persisted.routes.remove(&peer);
            let key = [ROUTE, &peer.0].concat();
            self.actions.push_back(Action::Delete { key });
        }
    }

    fn encode_neighbours(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.array(2);
        for peers in [self.routing.before(), self.routing.successors()] {
            encoder.array(peers.len());
            for peer in peers {
                encoder.bytes(&peer.0);
            }
        }
        out
    }

    /// One that left does not take up its old place at the next start.
    pub(super) fn forget_neighbours(&mut self) {
        self.persisted.neighbours.clear();
        self.actions.push_back(Action::Delete {
            key: NEIGHBOURS.to_vec(),
        });
    }
}

fn read_published(value: &[u8]) -> Result<(&[u8], PeerId), Malformed> {
    let mut decoder = Decoder::new(value);
    decoder.array_of(2)?;
    let published = (decoder.bytes(MAX_ASSOCIATION_BYTES)?, PeerId(decoder.fixed()?));
    decoder.finish()?;
    Ok(published)
}

/// Where the evidence against a key is stored.
pub(super) fn contradiction_key(public: &PublicKey) -> Vec<u8> {
    [CONTRADICTION, &public.0].concat()
}

fn published_key(object: &ObjectId) -> Vec<u8> {
    [PUBLISHED, &object.0].concat()
}

fn object_key(key: &Key) -> Vec<u8> {
    [OBJECT, &key.0.0, &key.1.0].concat()
}
