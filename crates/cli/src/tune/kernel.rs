//! dm-crypt's flags of a volume that the kernel runs.

use std::io;

use scrim_bench::tune::{Direction, Load, Setting, Tunable};
use scrim_volume::OpenFlags;

use super::Tuned;
use crate::args::VolumeName;
use crate::error::CliError;
use crate::kernel::{KernelVolume, KeyQuestion, Tuning};

/// Version of the crypt target that knows `high_priority`.
const HIGH_PRIORITY_SINCE: [u32; 3] = [1, 26, 0];

/// A volume of the kernel, with each of dm-crypt's flags by itself.
pub(crate) struct KernelTuned<'a> {
    tuning: Tuning<'a>,
    name: VolumeName,
    settings: Vec<(Setting, OpenFlags)>,
}

impl<'a> KernelTuned<'a> {
    /// Prepares the volume. Discards stay allowed, or not, as they are.
    pub(crate) fn new(
        volume: &'a KernelVolume,
        name: &VolumeName,
        question: &KeyQuestion<'_>,
    ) -> Result<Self, CliError> {
        let base = OpenFlags {
            allow_discards: volume.flags()?.allow_discards,
            ..OpenFlags::default()
        };
        let knows_priority = volume.crypt_version()? >= HIGH_PRIORITY_SINCE;
        let settings = settings(base, knows_priority);
        let flags: Vec<OpenFlags> = settings.iter().map(|(_, flags)| *flags).collect();
        Ok(Self {
            tuning: volume.tuning(&flags, question)?,
            name: name.clone(),
            settings,
        })
    }

    /// Flags that settings set together.
    pub(crate) fn flags(&self, settings: &[usize]) -> OpenFlags {
        let base = self.settings[0].1;
        let chosen = settings.iter().map(|&index| self.settings[index].1);
        chosen.fold(base, both)
    }
}

impl Tunable for KernelTuned<'_> {
    type Error = CliError;

    fn failed(load: &Load, error: io::Error) -> CliError {
        CliError::io(format_args!("measure {}", load.name()), &error)
    }

    fn apply(&mut self, setting: usize) -> Result<(), CliError> {
        self.tuning.apply(setting)
    }
}

impl Tuned for KernelTuned<'_> {
    fn settings(&self) -> Vec<Setting> {
        let settings = self.settings.iter();
        settings.map(|(setting, _)| setting.clone()).collect()
    }

    fn choose(&mut self, settings: &[usize]) -> Result<(), CliError> {
        let flags = self.flags(settings);
        self.tuning.keep(flags)
    }

    fn restore(&mut self) -> Result<(), CliError> {
        self.tuning.restore()
    }

    fn commands(&self, settings: &[usize]) -> Vec<String> {
        let flags = self.flags(settings);
        let words = crate::kernel::words_of(flags);
        let options: String = words.iter().map(|word| option(word)).collect();
        // A LUKS2 header has no place for it, and a crypttab no word.
        let (persistent, crypttab) = match flags.high_priority {
            true => ("", "in /etc/crypttab, which has no high-priority"),
            false => (" --persistent", "in /etc/crypttab"),
        };
        let of_crypttab: Vec<String> = words
            .iter()
            .filter(|word| **word != "high_priority")
            .map(|word| match *word {
                "allow_discards" => "discard".to_owned(),
                word => word.replace('_', "-"),
            })
            .collect();
        let name = self.name.as_str();
        let mut lines = vec![
            format!("scrim refresh {name}{options}{persistent}"),
            format!("cryptsetup refresh {name}{options}{persistent}"),
        ];
        if !of_crypttab.is_empty() {
            lines.push(format!("{crypttab}: {}", of_crypttab.join(",")));
        }
        lines
    }
}

/// The option that sets a flag, with a blank before it.
fn option(word: &str) -> String {
    match word {
        "allow_discards" => " --allow-discards".to_owned(),
        word => format!(" --perf-{word}"),
    }
}

/// Each flag by itself, behind none, with the directions that it touches.
fn settings(base: OpenFlags, knows_priority: bool) -> Vec<(Setting, OpenFlags)> {
    use Direction::{Read, Write};
    let mut all = vec![
        ("none", &[Read, Write][..], base),
        (
            "no_read_workqueue",
            &[Read],
            OpenFlags {
                no_read_workqueue: true,
                ..base
            },
        ),
        (
            "no_write_workqueue",
            &[Write],
            OpenFlags {
                no_write_workqueue: true,
                ..base
            },
        ),
        (
            "same_cpu_crypt",
            &[Read, Write],
            OpenFlags {
                same_cpu_crypt: true,
                ..base
            },
        ),
        (
            "submit_from_crypt_cpus",
            &[Write],
            OpenFlags {
                submit_from_crypt_cpus: true,
                ..base
            },
        ),
    ];
    if knows_priority {
        let flags = OpenFlags {
            high_priority: true,
            ..base
        };
        all.push(("high_priority", &[Read, Write], flags));
    }
    all.into_iter()
        .map(|(name, directions, flags)| {
            let setting = Setting {
                name: name.to_owned(),
                directions: directions.to_vec(),
            };
            (setting, flags)
        })
        .collect()
}

/// All flags of both.
fn both(one: OpenFlags, other: OpenFlags) -> OpenFlags {
    OpenFlags {
        allow_discards: one.allow_discards || other.allow_discards,
        same_cpu_crypt: one.same_cpu_crypt || other.same_cpu_crypt,
        submit_from_crypt_cpus: one.submit_from_crypt_cpus || other.submit_from_crypt_cpus,
        no_read_workqueue: one.no_read_workqueue || other.no_read_workqueue,
        no_write_workqueue: one.no_write_workqueue || other.no_write_workqueue,
        high_priority: one.high_priority || other.high_priority,
    }
}
