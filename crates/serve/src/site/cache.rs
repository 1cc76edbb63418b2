//! Files that stay open for a while, so that the next request for them asks the file system one thing only.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::content::Memory;
use super::resource::Resource;

/// Longest target that is kept; a longer one is not worth its memory.
const LONGEST_TARGET: usize = 1024;

/// Bytes of the content of short files in a cache.
const CONTENT: usize = 4 << 20;

/// Limits of a [`Cache`].
#[derive(Debug, Clone, Copy)]
pub struct CacheLimits {
    /// Time for which a file is kept, and so the longest delay until a file that has taken another's name is seen.
    /// Nothing is kept where it is zero.
    pub lifetime: Duration,
    /// Most files that are kept.
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

/// Files by the targets under which they were asked for; for one thread, and all sites.
///
/// What was opened first goes first. With times as short as these it is also the next to be too old, so
/// that nothing would be won by asking which was used last.
#[derive(Debug)]
pub struct Cache {
    limits: CacheLimits,
    sites: HashMap<u64, HashMap<Arc<str>, Kept>>,
    order: VecDeque<Turn>,
    files: usize,
    pub(super) content: Memory,
    /// Tells an entry from an older one of the same name.
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

    /// Closes files that have been kept too long. The owner of a cache calls this from time to time, so that files
    /// which nobody asks for any more do not stay open.
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
        // An entry that went before its turn leaves it behind: turns are limited too.
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

    /// Forgets what is kept under this name.
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
