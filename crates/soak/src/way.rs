//! Ways in which a volume carries out its requests: its data path, and the flags of its table.

use std::fmt;

use scrim_seeded::Random;
use scrim_volume::DataPath;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    pub(crate) path: DataPath,
    pub(crate) flags: &'static str,
}

const fn queued(flags: &'static str) -> Way {
    Way {
        path: DataPath::Queued,
        flags,
    }
}

/// All but the usual one.
const OTHERS: [Way; 8] = [
    Way {
        path: DataPath::Inline,
        flags: "",
    },
    queued(""),
    queued("same_cpu_crypt"),
    queued("submit_from_crypt_cpus"),
    queued("same_cpu_crypt submit_from_crypt_cpus"),
    queued("high_priority"),
    queued("no_read_workqueue"),
    queued("no_write_workqueue"),
];

impl Way {
    pub(crate) fn choose(random: &mut Random) -> Self {
        if random.one_in(2) {
            return Self::default();
        }
        let index = random.below(OTHERS.len() as u64);
        usize::try_from(index).map_or_else(|_| Self::default(), |index| OTHERS[index])
    }

    pub(crate) fn is_queued(self) -> bool {
        self.path == DataPath::Queued
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        self.flags
            .split_whitespace()
            .try_for_each(|flag| write!(f, " {flag}"))
    }
}
