//! Cache of open files: a hit needs one call to the file system, which checks that the file has not changed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::content::Memory;
use super::resource::Resource;

/// Longest target in bytes that is cached.
const LONGEST_TARGET: usize = 1024;

/// Limit in bytes on the content of short files in a cache.
const CONTENT: usize = 4 << 20;

/// Limits of a [`Cache`].
#[derive(Debug, Clone, Copy)]
pub struct CacheLimits {
    /// Time for which a file is kept, and thus the longest delay until a renamed or replaced file is noticed. Zero disables
    /// the cache.
    pub lifetime: Duration,
    /// Limit on the number of open files.
    pub files: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(1),
            files: 1000,
        }
    }
}

/// Open files of all sites by the target that was requested, for one thread.
///
/// Eviction is first in, first out. With lifetimes this short, the oldest entry also expires next, so that tracking the
/// last use would gain nothing.
#[derive(Debug)]
pub struct Cache {
    limits: CacheLimits,
    sites: HashMap<u64, HashMap<Arc<str>, Kept>>,
    order: VecDeque<Turn>,
    files: usize,
    pub(super) content: Memory,
    /// Number that distinguishes an entry from an older one of the same name.
    count: u64,
}

#[derive(Debug)]
struct Kept {
    resource: Arc<Resource>,
    until: Instant,
    count: u64,
}

/// An entry in the order of eviction.
#[derive(Debug)]
struct Turn {
    site: u64,
    target: Arc<str>,
    until: Instant,
    count: u64,
}

impl Cache {
    #[must_use]
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            sites: HashMap::new(),
            order: VecDeque::new(),
            files: 0,
            content: Memory::new(CONTENT),
            count: 0,
        }
    }

    /// Closes files that have been kept too long. The owner of a cache calls this periodically, so that files that are no
    /// longer requested do not stay open.
    pub fn sweep(&mut self) {
        self.sweep_at(Instant::now());
    }

    /// Number of files that are kept open.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files
    }

    fn sweep_at(&mut self, now: Instant) {
        while self.order.front().is_some_and(|turn| turn.until <= now) {
            self.drop_first();
        }
    }

    pub(super) fn get(&self, site: u64, target: &str, now: Instant) -> Option<Arc<Resource>> {
        let kept = self.sites.get(&site)?.get(target)?;
        (now < kept.until).then(|| Arc::clone(&kept.resource))
    }

    pub(super) fn put(&mut self, site: u64, target: &str, resource: &Arc<Resource>, now: Instant) {
        let files = resource.files();
        if self.limits.lifetime.is_zero()
            || target.len() > LONGEST_TARGET
            || files > self.limits.files
        {
            return;
        }
        self.remove(site, target);
        self.sweep_at(now);
        // An entry that was removed early leaves its place in the queue, so the queue is limited too.
        while self.files + files > self.limits.files || self.order.len() >= self.limits.files {
            self.drop_first();
        }
        self.count += 1;
        let target: Arc<str> = target.into();
        let until = now + self.limits.lifetime;
        let kept = Kept {
            resource: Arc::clone(resource),
            until,
            count: self.count,
        };
        self.files += files;
        self.sites
            .entry(site)
            .or_default()
            .insert(Arc::clone(&target), kept);
        self.order.push_back(Turn {
            site,
            target,
            until,
            count: self.count,
        });
    }

    /// Removes the entry of this target.
    pub(super) fn remove(&mut self, site: u64, target: &str) {
        let Some(targets) = self.sites.get_mut(&site) else {
            return;
        };
        if let Some(kept) = targets.remove(target) {
            self.files -= kept.resource.files();
        }
        if targets.is_empty() {
            self.sites.remove(&site);
        }
    }

    fn drop_first(&mut self) {
        let Some(turn) = self.order.pop_front() else {
            return;
        };
        let kept = self
            .sites
            .get(&turn.site)
            .and_then(|targets| targets.get(&turn.target));
        if kept.is_some_and(|kept| kept.count == turn.count) {
            self.remove(turn.site, &turn.target);
        }
    }
}

#[cfg(test)]
mod tests;
