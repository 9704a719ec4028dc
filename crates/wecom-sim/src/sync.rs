//! Locks that are held for a few instructions and never across an await. A panic elsewhere does not
//! poison them: a simulator that goes on is worth more than one that fails twice.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A mutex.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that is read all the time and replaced as a whole now and then.
#[derive(Debug, Default)]
pub(crate) struct Slot<T>(RwLock<Arc<T>>);

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }

    /// Replaces the value by one made from it, nobody else in between.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&T) -> (T, R)) -> R {
        let mut slot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (value, result) = change(&slot);
        *slot = Arc::new(value);
        result
    }
}

const SHARDS: usize = 64;

/// A map in so many parts that two calls seldom meet.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    hasher: RandomState,
    parts: Vec<Lock<HashMap<K, V>>>,
}

impl<K: Hash + Eq, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            parts: std::iter::repeat_with(|| Lock::new(HashMap::new()))
                .take(SHARDS)
                .collect(),
        }
    }
}

impl<K: Hash + Eq, V> Shards<K, V> {
    /// The part that holds `key`, locked.
    pub(crate) fn part<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, HashMap<K, V>> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.parts[index].lock()
    }

    /// Every part in turn, for dumps and counts.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&K, &V)) {
        for part in &self.parts {
            for (key, value) in part.lock().iter() {
                visit(key, value);
            }
        }
    }
}
