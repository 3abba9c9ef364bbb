//! Publishing: this node's associations are signed, stored where they belong, checked and renewed.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::lookup::Owner;
use super::message::{EntryBytes, Request};
use super::publications::{Publication, Publications, State};
use super::walk::Purpose;
use super::{Action, Call, Context, Parameters, Phase, Ring, Service};
use crate::association::{
    Association, Leaf, MAX_LEAVES, MAX_REPLICAS, MAX_VERSION_BYTES, ObjectId, Validity,
};
use crate::gather::Gather as _;
use crate::grant::{Grant, check_name};
use crate::identity::{PeerId, PublicKey};
use crate::record::CLOCK_SKEW_MS;
use selfsame_sorted_map::{Map, Set};

/// An owner, or none, and a name of its
pub(super) type NameKey = (Option<PublicKey>, String);

/// How long a name that was withdrawn is still answered to: as long as callers use the providers they know.
const LINGER_MS: u64 = 30_000;

#[derive(Debug)]
struct Name {
    service: Service,
    /// Set on withdrawal: until then the last published associations could still count.
    withdrawn_until_ms: Option<u64>,
    commands: Vec<u32>,
    is_announced: bool,
}

/// What this node publishes
#[derive(Debug)]
pub(super) struct Publisher {
    parameters: &'static Parameters,
    names: Map<NameKey, Name>,
    publications: Publications,
    /// Names whose associations are to be signed once nothing else waits to be stored: they share one signature.
    unsigned: Set<NameKey>,
    last_sequence_ms: u64,
    refresh_at_ms: u64,
    check_at_ms: u64,
    check_soon_at_ms: Option<u64>,
    is_ready: bool,
    /// The store is that of this run, which slept.
    pub(super) has_slept: bool,
    /// What an earlier start published and where it was stored, until the application publishes it again.
    restored: Map<ObjectId, (Association, PeerId)>,
}

impl Publisher {
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            names: Map::new(),
            publications: Publications::new(parameters),
            unsigned: Set::new(),
            last_sequence_ms: 0,
            refresh_at_ms: 0,
            check_at_ms: 0,
            check_soon_at_ms: None,
            is_ready: false,
            has_slept: false,
            restored: Map::new(),
        }
    }

    pub(super) fn services(&self) -> Vec<&Service> {
        let served = self
            .names
            .values()
            .filter(|name| name.withdrawn_until_ms.is_none());
        served.map(|name| &name.service).gather()
    }

    /// Whether callers may count on this node for a name: it is published, or was withdrawn so lately that they may not know.
    pub(super) fn answers_to(&self, owner: Option<&PublicKey>, name: &str, now_ms: u64) -> bool {
        let withdrawn_since = |until_ms: u64| until_ms.saturating_sub(self.parameters.life_ms);
        self.names.iter().any(|(key, entry)| {
            let until_ms = entry.withdrawn_until_ms;
            let answers = until_ms.is_none_or(|until_ms| now_ms < withdrawn_since(until_ms) + LINGER_MS);
            answers && key.0.as_ref() == owner && key.1 == name
        })
    }

    /// Retries and checks after a change have their own wake-up; all that is periodic rides on the rounds.
    pub(super) fn next_wake_ms(&self) -> u64 {
        if !self.is_ready {
            return u64::MAX;
        }
        let next = if !self.publications.may_begin() {
            u64::MAX
        } else if self.unsigned.is_empty() {
            self.publications.next_due_ms()
        } else {
            0
        };
        let soon = self.check_soon_at_ms.filter(|_| !self.publications.is_empty());
        soon.map_or(next, |soon_ms| soon_ms.min(next))
    }

    /// The node is in the ring as it was before.
    pub(super) fn resume(&mut self) {
        self.is_ready = true;
    }

    /// Takes what an earlier start published.
    pub(super) fn restore(&mut self, association: Association, holder: PeerId) {
        self.last_sequence_ms = self.last_sequence_ms.max(association.validity().sequence_ms);
        self.restored.insert(association.object(), (association, holder));
    }

    pub(super) fn cancel(&mut self, command: u32) {
        for name in self.names.values_mut() {
            name.commands.retain(|other| *other != command);
        }
    }

    /// Whether an answer about this association is awaited, and not about one whose place it took.
    pub(super) fn is_storing(&self, object: &ObjectId, sequence_ms: u64) -> bool {
        let place = self.publications.get(object);
        place.is_some_and(|place| {
            place.state == State::Storing && place.association.validity().sequence_ms == sequence_ms
        })
    }

    /// The next round signs and stores everything anew.
    pub(super) fn refresh_soon(&mut self) {
        self.refresh_at_ms = 0;
    }

    /// A sequence above the last one, unless that is from a clock that ran ahead: no holder has accepted it then.
    fn next_sequence_ms(&mut self, wall_ms: u64) -> u64 {
        let next_ms = self.last_sequence_ms.saturating_add(1);
        let is_ahead = next_ms > wall_ms.saturating_add(CLOCK_SKEW_MS);
        self.last_sequence_ms = if is_ahead { wall_ms } else { next_ms.max(wall_ms) };
        self.last_sequence_ms
    }

    /// Whether nothing is left to be stored.
    pub(super) fn is_settled(&self) -> bool {
        self.unsigned.is_empty() && self.publications.iter().all(|(_, place)| place.was_stored)
    }

    fn leaves(&self) -> usize {
        let names = self.names.values();
        names.map(|name| usize::from(name.service.replicas) + 1).sum()
    }
}

impl Ring {
    /// Publishes this node as a provider of a name until [`Ring::withdraw`]. Before the join is done it waits.
    pub fn publish(&mut self, cx: &mut Context<'_>, command: u32, service: Service) {
        if let Err(code) = self.check_service(cx, &service) {
            self.fail(command, code);
            return;
        }
        let key = (service.owner, service.name.clone());
        let mut commands = match self.publisher.names.remove(&key) {
            Some(old) => old.commands,
            None => Vec::new(),
        };
        commands.push(command);
        let is_stored = self.take_restored(cx, &key, &service);
        self.publisher.names.insert(
            key.clone(),
            Name {
                service,
                withdrawn_until_ms: None,
                commands,
                is_announced: false,
            },
        );
        if is_stored {
            self.settle(&key);
        } else {
            self.publisher.unsigned.insert(key);
        }
    }

    /// Whether an earlier start published exactly this not long ago; then its places are taken as they are.
    fn take_restored(&mut self, cx: &mut Context<'_>, key: &NameKey, service: &Service) -> bool {
        if self.publisher.restored.is_empty() || self.own.has_moved() {
            return false;
        }
        let objects = (0..=service.replicas)
            .map(|r| ObjectId::of(&self.settings.network, key.0.as_ref(), &key.1, r))
            .gather();
        let refresh_ms = self.parameters.refresh_ms;
        let refresh_at_ms = |association: &Association| association.validity().not_before_ms + refresh_ms;
        let is_current = |object: &ObjectId| {
            let restored = self.publisher.restored.get(object);
            restored.is_some_and(|(association, _)| {
                is_leaf_of(association.leaf(), service) && cx.wall_ms < refresh_at_ms(association)
            })
        };
        if !objects.iter().all(is_current) {
            return false;
        }
        if self.publisher.names.is_empty() {
            self.publisher.refresh_at_ms = u64::MAX;
            self.publisher.check_at_ms = cx.now_ms.saturating_add(self.parameters.check_ms);
        }
        for object in &objects {
            if let Some(restored) = self.publisher.restored.remove(object) {
                let (association, holder) = *restored;
                let left_ms = refresh_at_ms(&association).saturating_sub(cx.wall_ms);
                let due_ms = cx.now_ms.saturating_add(left_ms.min(refresh_ms));
                self.publisher.refresh_at_ms = self.publisher.refresh_at_ms.min(due_ms);
                self.publisher
                    .publications
                    .insert(cx.now_ms, key.clone(), association);
                self.publisher.publications.stored(object, holder);
            }
        }
        // The store may be an old copy, and what was published after it withdrawn.
        if !self.publisher.has_slept {
            self.check_publications_soon(cx);
        }
        true
    }

    fn check_service(&mut self, cx: &Context<'_>, service: &Service) -> Result<(), Code> {
        check_name(&service.name)?;
        if service.replicas > MAX_REPLICAS || service.version.len() > MAX_VERSION_BYTES {
            return Err(Code::BadConfig);
        }
        let key = (service.owner, service.name.clone());
        let is_known = self.publisher.names.contains_key(&key);
        if !is_known && self.publisher.leaves() + usize::from(service.replicas) >= MAX_LEAVES {
            return Err(Code::TooManyAssociations);
        }
        let Some(owner) = &service.owner else {
            return if service.grant.is_empty() {
                Ok(())
            } else {
                Err(Code::BadGrant)
            };
        };
        let grant = Grant::decode_with(&mut self.gate, &service.grant, cx.wall_ms);
        match grant {
            Ok(grant) if grant.permits(owner, &service.name, &self.me()) => Ok(()),
            _ => Err(Code::BadGrant),
        }
    }

    /// Stops publishing a name: a withdrawal takes the place of what was stored.
    pub fn withdraw(&mut self, cx: &mut Context<'_>, command: u32, owner: Option<PublicKey>, name: &str) {
        let key = (owner, name.into());
        let Some(name) = self.publisher.names.get_mut(&key) else {
            self.fail(command, Code::NoService);
            return;
        };
        let commands = core::mem::replace(&mut name.commands, [command].into());
        name.withdrawn_until_ms = Some(cx.now_ms.saturating_add(self.parameters.life_ms));
        for cancelled in commands {
            self.fail(cancelled, Code::Cancelled);
        }
        self.publisher.unsigned.insert(key);
    }

    /// Signs the root over everything anew. The associations of `only` these names are stored next, or all.
    fn sign(&mut self, cx: &mut Context<'_>, only: Option<&Set<NameKey>>) {
        self.publisher.unsigned.clear();
        let mut leaves = Vec::new();
        let mut keys = Vec::new();
        for (key, name) in self.publisher.names.iter() {
            let withdrawn = name.withdrawn_until_ms.is_some();
            let service = &name.service;
            let grant = Grant::decode_with(&mut self.gate, &service.grant, cx.wall_ms);
            // Once its grant is over, a withdrawal can only take the place of what is stored.
            let grant = if withdrawn && grant.is_err() {
                &[][..]
            } else {
                &service.grant
            };
            for r in 0..=service.replicas {
                keys.push(key.clone());
                leaves.push(Leaf {
                    salt: cx.random.bytes(),
                    owner: service.owner,
                    name: service.name.clone(),
                    r,
                    withdrawn,
                    version: service.version.clone(),
                    weight: service.weight,
                    grant: grant.to_vec(),
                });
            }
        }
        let sequence_ms = self.publisher.next_sequence_ms(cx.wall_ms);
        let validity = Validity {
            sequence_ms,
            not_before_ms: cx.wall_ms,
            expiry_ms: cx.wall_ms.saturating_add(self.parameters.life_ms),
        };
        let Ok(associations) = Association::publish(cx.identity, &leaves, validity) else {
            unreachable!("every service was checked when it was published");
        };
        for (key, association) in keys.into_iter().zip(associations) {
            if only.is_none_or(|only| only.contains(&key)) {
                self.publisher.publications.insert(cx.now_ms, key, association);
            }
        }
        // The first name starts the clock for all.
        if only.is_none() || self.publisher.refresh_at_ms == 0 {
            self.publisher.refresh_at_ms = cx.now_ms.saturating_add(self.parameters.refresh_ms);
            self.publisher.check_at_ms = cx.now_ms.saturating_add(self.parameters.check_ms);
        }
    }

    /// The join is done.
    pub(super) fn publisher_may_start(&mut self, cx: &mut Context<'_>) {
        self.publisher.is_ready = true;
        self.refresh_publications(cx);
    }

    /// Signs and stores everything anew: the own record changed, or time has passed.
    pub(super) fn refresh_publications(&mut self, cx: &mut Context<'_>) {
        if !self.publisher.names.is_empty() {
            self.sign(cx, None);
            self.tick_publisher(cx);
        }
    }

    /// Part of each round: renewal, checks, and the end of withdrawals.
    pub(super) fn keep_publications(&mut self, cx: &mut Context<'_>) {
        let is_over = |name: &Name| {
            name.withdrawn_until_ms
                .is_some_and(|until_ms| until_ms <= cx.now_ms)
        };
        if self.publisher.names.values().any(is_over) {
            self.publisher.names.retain(|_, name| !is_over(name));
            let names = &self.publisher.names;
            self.publisher
                .publications
                .retain(|name| names.contains_key(name));
        }
        if cx.now_ms >= self.publisher.refresh_at_ms {
            self.refresh_publications(cx);
        } else if cx.now_ms >= self.publisher.check_at_ms {
            self.publisher.check_at_ms = cx.now_ms.saturating_add(self.parameters.check_ms);
            self.publisher.publications.check_all(cx.now_ms);
        }
        self.tick_publisher(cx);
    }

    /// Neighbours changed: what is stored may have lost its holder.
    pub(super) fn check_publications_soon(&mut self, cx: &mut Context<'_>) {
        if self.publisher.check_soon_at_ms.is_none() && !self.publisher.publications.is_empty() {
            let jitter = cx.random.below(self.parameters.check_soon_ms as usize) as u64;
            self.publisher.check_soon_at_ms =
                Some(cx.now_ms.saturating_add(self.parameters.check_soon_ms + jitter));
        }
    }

    /// Begins what is due, a few places at a time.
    pub(super) fn tick_publisher(&mut self, cx: &mut Context<'_>) {
        if self.phase != Phase::In {
            return;
        }
        if self
            .publisher
            .check_soon_at_ms
            .is_some_and(|at_ms| at_ms <= cx.now_ms)
        {
            self.publisher.check_soon_at_ms = None;
            self.publisher.publications.check_all(cx.now_ms);
        }
        while self.publisher.publications.may_begin()
            && let Some((object, wants_entries)) = self.begin_place(cx)
        {
            self.walk(
                cx,
                object.place(),
                wants_entries,
                Purpose::Publish { object },
                Vec::new(),
            );
        }
    }

    /// Begins with a place that is due. What has come since the last signature is signed as late as it can be.
    fn begin_place(&mut self, cx: &mut Context<'_>) -> Option<(ObjectId, bool)> {
        let begun = self.publisher.publications.begin(cx.now_ms);
        if begun.is_some() || self.publisher.unsigned.is_empty() {
            return begun;
        }
        let unsigned = core::mem::take(&mut self.publisher.unsigned);
        self.sign(cx, Some(&unsigned));
        self.publisher.publications.begin(cx.now_ms)
    }

    /// The member responsible for a place is known: what it does not hold yet is sent to it.
    pub(super) fn place_found(
        &mut self,
        cx: &mut Context<'_>,
        object: ObjectId,
        result: Result<Owner, Code>,
    ) {
        let own = self.own_record(cx).clone();
        let me = self.me();
        let Some(place) = self.publisher.publications.get_mut(&object) else {
            return;
        };
        if place.state != State::Looking {
            return;
        }
        let owner = match result {
            Ok(owner) => owner,
            Err(code) => {
                self.store_failed(cx, object, code);
                return;
            }
        };
        place.state = State::Storing;
        let is_there = |(association, _): &(Vec<u8>, Vec<u8>)| association == place.association.encoded();
        if owner.entries.iter().any(is_there) {
            self.stored(object, owner.peer);
        } else if owner.peer == me {
            let association = place.association.clone();
            let entry = EntryBytes {
                association: association.encoded(),
                record: own.encoded(),
            };
            match self.serve_store(cx, me, &entry) {
                Ok(None) => self.stored(object, me),
                Ok(Some(newer)) => {
                    _ = self.meet_own_association(cx, association.validity().sequence_ms, &newer);
                    self.store_failed(cx, object, Code::Superseded);
                }
                Err(code) => self.store_failed(cx, object, code),
            }
        } else {
            // It may store this even if its answer is lost: it is to hear of a withdrawal.
            place.holder = Some(owner.peer);
            let sequence_ms = place.association.validity().sequence_ms;
            let body = store_message(&place.association, own.encoded());
            self.call_encoded(
                owner.peer,
                Call::Store { object, sequence_ms },
                body,
                self.parameters.store_timeout_ms,
            );
        }
    }

    /// Takes an association of this node from its holder: if it is not below the sequence that is published, an earlier or
    /// another run has signed it, and everything is signed anew above it. A holder can show each only once.
    ///
    /// # Errors
    /// Why it does not verify.
    pub(super) fn meet_own_association(
        &mut self,
        cx: &mut Context<'_>,
        sequence_ms: u64,
        held: &[u8],
    ) -> Result<(), Code> {
        let held =
            Association::decode_verified(&mut self.gate, &|key| cx.identity.id_of(key), held, cx.wall_ms)?;
        let held_ms = held.validity().sequence_ms;
        if held.publisher() == self.me() && held_ms >= sequence_ms {
            self.publisher.last_sequence_ms = self.publisher.last_sequence_ms.max(held_ms);
            self.publisher.refresh_soon();
            self.maintenance.hurry(cx.now_ms);
        }
        Ok(())
    }

    pub(super) fn stored(&mut self, object: ObjectId, holder: PeerId) {
        let Some((place, was_known)) = self.publisher.publications.stored(&object, holder) else {
            return;
        };
        let (name, association) = (place.name.clone(), place.association.clone());
        if association.leaf().withdrawn {
            self.delete_published(&object);
        } else if !was_known {
            self.put_published(&association, &holder);
        }
        self.settle(&name);
    }

    pub(super) fn store_failed(&mut self, cx: &mut Context<'_>, object: ObjectId, code: Code) {
        if let Some(place) = self.publisher.publications.failed(&object, cx.now_ms, code) {
            let name = place.name.clone();
            self.settle(&name);
        }
    }

    /// Answers the commands about a name once each of its places was stored or tried often enough.
    fn settle(&mut self, key: &NameKey) {
        if self.publisher.unsigned.contains(key) {
            return;
        }
        let Some(name) = self.publisher.names.get_mut(key) else {
            return;
        };
        let network = &self.settings.network;
        let object = |r| ObjectId::of(network, key.0.as_ref(), &key.1, r);
        let objects: Vec<ObjectId> = (0..=name.service.replicas).map(object).gather();
        let places = || {
            objects
                .iter()
                .filter_map(|object| self.publisher.publications.get(object))
        };
        let tries = self.parameters.tries;
        if !places().all(|place| place.was_stored || place.tries >= tries) {
            return;
        }
        let is_stored = places().any(|place| place.was_stored);
        let error = places().map(|place| place.error).next().unwrap_or(Code::NoRoute);
        let commands = core::mem::take(&mut name.commands);
        if is_stored && !name.is_announced && name.withdrawn_until_ms.is_none() {
            name.is_announced = true;
            let name = key.1.clone();
            self.actions.push_back(Action::Published { name });
        }
        for command in commands {
            if is_stored {
                self.done(command);
            } else {
                self.fail(command, error);
            }
        }
    }

    /// Withdraws everything; says whether there is anything.
    pub(super) fn withdraw_all(&mut self, cx: &mut Context<'_>) -> bool {
        for name in self.publisher.names.values_mut() {
            name.withdrawn_until_ms = Some(cx.now_ms.saturating_add(self.parameters.life_ms));
        }
        self.sign(cx, None);
        !self.publisher.publications.is_empty()
    }

    /// Sends the withdrawals that were not stored straight to those who held what they withdraw; says how many were told.
    pub(super) fn bid_farewell(&mut self, cx: &mut Context<'_>) -> usize {
        let record = self.own_record(cx).clone();
        let publisher = core::mem::replace(&mut self.publisher, Publisher::new(self.parameters));
        let me = self.me();
        let mut told = 0;
        let not_stored = |place: &&Publication| !place.was_stored;
        let places = publisher.publications.iter().map(|(_, place)| place);
        for place in places.filter(not_stored) {
            match place.holder {
                Some(holder) if holder == me => {
                    // It goes to the successor with everything else.
                    let entry = EntryBytes {
                        association: place.association.encoded(),
                        record: record.encoded(),
                    };
                    _ = self.serve_store(cx, me, &entry);
                }
                Some(holder) => {
                    let body = store_message(&place.association, record.encoded());
                    self.call_encoded(holder, Call::Farewell, body, self.parameters.store_timeout_ms);
                    told += 1;
                }
                None => {}
            }
        }
        let objects = publisher.publications.iter().map(|(object, _)| object);
        objects.for_each(|object| self.delete_published(object));
        let commands = publisher.names.into_values().flat_map(|name| name.commands);
        commands.for_each(|command| self.fail(command, Code::Cancelled));
        self.publisher.last_sequence_ms = publisher.last_sequence_ms;
        told
    }
}

/// Whether a leaf says what the service says.
fn is_leaf_of(leaf: &Leaf, service: &Service) -> bool {
    !leaf.withdrawn
        && leaf.owner == service.owner
        && leaf.grant == service.grant
        && leaf.version == service.version
        && leaf.weight == service.weight
}

fn store_message(association: &Association, record: &[u8]) -> Vec<u8> {
    let entry = EntryBytes {
        association: association.encoded(),
        record,
    };
    Request::Store { entry }.encode()
}
