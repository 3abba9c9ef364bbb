//! A sorted map in one vector.
//!
//! The tables of a node hold tens to a few thousand entries. At that size a sorted vector is as fast as a B-tree,
//! takes less memory, and its code is a tenth of the size in a module that people download. Values are boxed, so that it is
//! compiled once for each kind of key and not for each kind of value.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Keys in order, each with its value
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<K, V> {
    entries: Vec<(K, Box<V>)>,
}

/// Entries that stand next to each other, in order
pub type Entries<'a, K, V> = &'a [(K, Box<V>)];

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Ord, V> Map<K, V> {
    /// An empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn place(&self, key: &K) -> Result<usize, usize> {
        // New numbers are mostly the highest.
        match self.entries.last() {
            Some((last, _)) if last < key => Err(self.entries.len()),
            _ => self.entries.binary_search_by(|(other, _)| other.cmp(key)),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|at| &*self.entries[at].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|at| &mut *self.entries[at].1)
    }

    /// Whether the key is there.
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    /// Sets the value of a key and gives the old one.
    pub fn insert(&mut self, key: K, value: V) -> Option<Box<V>> {
        self.insert_boxed(key, Box::new(value))
    }

    #[inline(never)]
    fn insert_boxed(&mut self, key: K, value: Box<V>) -> Option<Box<V>> {
        match self.place(&key) {
            Ok(at) => Some(core::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    /// The value of a key, made by `make` if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = match self.place(&key) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (key, Box::new(make())));
                at
            }
        };
        &mut self.entries[at].1
    }

    /// Removes a key and gives its value.
    #[inline(never)]
    pub fn remove(&mut self, key: &K) -> Option<Box<V>> {
        self.place(key).ok().map(|at| self.entries.remove(at).1)
    }

    /// Removes the lowest key.
    pub fn pop_first(&mut self) -> Option<(K, Box<V>)> {
        if self.entries.is_empty() {
            None
        } else {
            Some(self.entries.remove(0))
        }
    }

    /// The lowest key and its value.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        self.entries.first().map(|(key, value)| (key, &**value))
    }

    /// Entries in order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, &**value))
    }

    /// The entries before a key, and those from it on, in order.
    #[must_use]
    pub fn split(&self, key: &K) -> (Entries<'_, K, V>, Entries<'_, K, V>) {
        let at = self.place(key).unwrap_or_else(|at| at);
        self.entries.split_at(at)
    }

    /// Keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Values in order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| &**value)
    }

    /// Values in order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| &mut **value)
    }

    /// Values in order of their keys, taken out.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.entries.into_iter().map(|(_, value)| *value)
    }

    /// Entries in order of their keys, their values to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, &mut **value))
    }

    /// Keys in order, taken out.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> {
        self.entries.into_iter().map(|(key, _)| key)
    }

    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Values in order, each once
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<K> {
    values: Map<K, ()>,
}

impl<K> Default for Set<K> {
    fn default() -> Self {
        Self {
            values: Map::default(),
        }
    }
}

impl<K: Ord> Set<K> {
    /// An empty set.
    pub const fn new() -> Self {
        Self { values: Map::new() }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a value is there.
    pub fn contains(&self, value: &K) -> bool {
        self.values.contains_key(value)
    }

    /// Adds a value; says whether it is new.
    pub fn insert(&mut self, value: K) -> bool {
        self.values.insert(value, ()).is_none()
    }

    /// Adds values.
    pub fn extend(&mut self, values: impl IntoIterator<Item = K>) {
        for value in values {
            self.insert(value);
        }
    }

    /// Removes a value; says whether it was there.
    pub fn remove(&mut self, value: &K) -> bool {
        self.values.remove(value).is_some()
    }

    /// The lowest value.
    #[must_use]
    pub fn first(&self) -> Option<&K> {
        self.values.first().map(|(value, ())| value)
    }

    /// Values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.values.keys()
    }

    /// Keeps the values for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.values.retain(|value, ()| keep(value));
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.values = Map::new();
    }
}

impl<K: Ord> FromIterator<K> for Set<K> {
    fn from_iter<I: IntoIterator<Item = K>>(values: I) -> Self {
        Self {
            values: values.into_iter().map(|value| (value, ())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_does_what_a_b_tree_does() {
        let mut map = Map::new();
        let mut tree = BTreeMap::new();
        let mut state = 1_u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (state >> 16) % 300;
            match state % 5 {
                0 | 1 => assert_eq!(map.insert(key, state), tree.insert(key, state).map(Box::new)),
                2 => assert_eq!(map.remove(&key), tree.remove(&key).map(Box::new)),
                3 => assert_eq!(map.get(&key), tree.get(&key)),
                _ => assert_eq!(
                    *map.get_or_insert_with(key, || state),
                    *tree.entry(key).or_insert(state)
                ),
            }
            assert!(map.len() == tree.len());
        }
        assert!(map.iter().eq(tree.iter()));
        for key in [0, 50, 299, 300] {
            let (before, from) = map.split(&key);
            let pairs = |entries: Entries<'_, u32, u32>| {
                let pairs = entries.iter().map(|(key, value)| (*key, **value));
                pairs.collect::<Vec<_>>()
            };
            assert_eq!(
                pairs(before),
                tree.range(..key)
                    .map(|(key, value)| (*key, *value))
                    .collect::<Vec<_>>()
            );
            assert_eq!(
                pairs(from),
                tree.range(key..)
                    .map(|(key, value)| (*key, *value))
                    .collect::<Vec<_>>()
            );
        }
        assert_eq!(map.first(), tree.first_key_value());
        map.retain(|key, _| key % 2 == 0);
        tree.retain(|key, _| key % 2 == 0);
        assert!(map.iter().eq(tree.iter()));
        let first = map.pop_first().map(|(key, value)| (key, *value));
        assert_eq!(first, tree.pop_first());
    }
}
