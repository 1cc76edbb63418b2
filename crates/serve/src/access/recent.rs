//! A map of limited size that keeps what was used last.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, in two generations. A value that is used moves to the young generation. When that is full, it becomes
/// the old one, and the former old one is dropped. So each operation takes constant time, and clients that use ever new
/// keys fill no more memory than that of twice the capacity.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    capacity: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Makes a map for twice `capacity` values; the last `capacity` that were used are always in it.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            capacity,
        }
    }

    /// Finds a value and counts this as its use.
    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            self.age();
        }
        self.young.insert(key, value);
    }

    /// Drops values that were not used since the call before the last one.
    pub(super) fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    /// Finds a value, or makes one.
    pub(super) fn get_or_default(&mut self, key: K) -> &mut V {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value);
        } else if !self.young.contains_key(&key) {
            self.insert(key, V::default());
        }
        self.young.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_take_limited_memory_and_the_last_ones_stay() {
        let mut recent = Recent::new(10);
        for key in 0..1000u32 {
            *recent.get_or_default(key) = key;
            *recent.get_or_default(7) += 1;
            assert!(recent.young.len() <= 10 && recent.old.len() <= 10);
        }
        assert_eq!(*recent.get_or_default(7), 1000);
        assert_eq!(recent.get(&999), Some(&mut 999));
        assert_eq!(recent.get(&500), None);
    }

    #[test]
    fn unused_values_are_dropped_by_age() {
        let mut recent = Recent::new(10);
        recent.insert('a', 1);
        recent.insert('b', 2);
        recent.age();
        assert_eq!(recent.get(&'a'), Some(&mut 1));
        recent.age();
        assert_eq!(recent.get(&'b'), None);
        assert_eq!(recent.get(&'a'), Some(&mut 1));
    }
}
