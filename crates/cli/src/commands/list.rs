//! `scrim list`: lists the open volumes.

use scrim_foreign::Foreign;
use serde::Serialize;

use crate::args::ListArgs;
use crate::error::CliError;
use crate::kernel::{KernelStatus, Mapper};
use crate::nbd::control::{Status, find};
use crate::nbd::runtime::RuntimeDir;
use crate::terminal::{print, print_json};

/// An open volume, by the engine that runs it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Listed {
    Scrim(Box<Status>),
    Kernel(Box<KernelStatus>),
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CliError> {
    let open = all()?;
    if args.json {
        return print_json(&open);
    }
    let text: String = open.iter().map(Listed::lines).collect();
    print(text.as_bytes())
}

/// All open volumes, of both engines.
pub(super) fn all() -> Result<Vec<Listed>, CliError> {
    let mut open = of_scrim()?;
    open.extend(of_kernel()?);
    Ok(open)
}

fn of_scrim() -> Result<Vec<Listed>, CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    let mut open = Vec::new();
    for name in runtime.names() {
        // A volume that closes while we ask is not open any more.
        if let Ok(Some(client)) = find(&runtime, &name)
            && let Ok(status) = client.status()
        {
            open.push(Listed::Scrim(Box::new(status)));
        }
    }
    Ok(open)
}

/// The encrypted volumes of the kernel, those too that cryptsetup has opened; none without root.
fn of_kernel() -> Result<Vec<Listed>, CliError> {
    let Some(mapper) = Mapper::open_if_allowed() else {
        return Ok(Vec::new());
    };
    let mut open = Vec::new();
    for name in mapper.volumes()? {
        // As above.
        if let Some(mapper) = Mapper::open_if_allowed()
            && let Ok(Some(volume)) = mapper.find(&name)
            && let Ok(status) = volume.status()
        {
            open.push(Listed::Kernel(Box::new(status)));
        }
    }
    Ok(open)
}

impl Listed {
    /// A line for the volume, and one for each of its mounts and for a program that is not this version.
    fn lines(&self) -> String {
        let (name, r#type, device, address) = match self {
            Self::Scrim(status) => (
                &status.name,
                &status.r#type,
                &status.device,
                &status.address,
            ),
            Self::Kernel(status) => (
                &status.name,
                &status.r#type,
                &status.device,
                &status.address,
            ),
        };
        let mut text = format!("{name}\t{type}\t{}\t{address}\n", Foreign::new(device));
        for mount in self.mounts() {
            text.push_str(&format!("\t{mount}\n"));
        }
        if let Self::Scrim(status) = self
            && let Some(advice) = status.of_another_version()
        {
            text.push_str(&format!("\tserved by Scrim {advice}\n"));
        }
        text
    }

    fn mounts(&self) -> Vec<String> {
        match self {
            Self::Scrim(status) => status.mounts.iter().map(ToString::to_string).collect(),
            Self::Kernel(status) => {
                let mounts = status.mounts.iter();
                mounts
                    .map(|mount| Foreign::new(mount).to_string())
                    .collect()
            }
        }
    }
}
