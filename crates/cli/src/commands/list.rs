//! `scrim list`.

use scrim_foreign::Foreign;

use super::{print, print_json, status};
use crate::args::ListArgs;
use crate::control::{Status, find};
use crate::error::CliError;
use crate::runtime::RuntimeDir;

pub(crate) fn run(args: &ListArgs) -> Result<(), CliError> {
    let runtime = RuntimeDir::locate();
    runtime.check_if_there()?;
    let mut open: Vec<Status> = Vec::new();
    for name in runtime.names() {
        // A volume that closes while we ask is not open any more.
        if let Ok(Some(client)) = find(&runtime, &name)
            && let Ok(status) = status::ask(client)
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
            ..
        } = status;
        text.push_str(&format!(
            "{name}\t{type}\t{}\t{address}\n",
            Foreign::new(device)
        ));
    }
    print(text.as_bytes())
}
