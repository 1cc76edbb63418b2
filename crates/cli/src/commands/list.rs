//! `scrim list`: lists the open volumes.

use scrim_foreign::Foreign;

use crate::args::ListArgs;
use crate::error::CliError;
use crate::nbd::control::{Status, find};
use crate::nbd::runtime::RuntimeDir;
use crate::terminal::{print, print_json};

pub(crate) fn run(args: &ListArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    let mut open: Vec<Status> = Vec::new();
    for name in runtime.names() {
        // A volume that closes while we ask is not open any more.
        if let Ok(Some(client)) = find(&runtime, &name)
            && let Ok(status) = client.status()
        {
            open.push(status);
        }
    }
    if args.json {
        return print_json(&open);
    }
    let mut text = String::new();
    for status in &open {
        let Status {
            name,
            r#type,
            device,
            address,
            mounts,
            ..
        } = status;
        text.push_str(&format!(
            "{name}\t{type}\t{}\t{address}\n",
            Foreign::new(device)
        ));
        for mount in mounts {
            text.push_str(&format!("\t{mount}\n"));
        }
    }
    print(text.as_bytes())
}
