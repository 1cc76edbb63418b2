//! `scrim plainOpen IMAGE NAME`: opens a volume without a header.

use std::sync::Arc;

use scrim_backend::Backend;
use scrim_volume::{CryptTable, Volume};

use crate::args::{EngineArg, KernelKey, PlainOpenArgs};
use crate::commands::open::Hosted;
use crate::error::CliError;
use crate::kernel::{self, Mapper};
use crate::running_volume::refuse_taken;
use crate::storage::{Manner, Storage, absolute, device_names};
use crate::terminal::print;
use crate::volume::devices::Devices;
use crate::volume::opening::{warn_of_unlocked_keys, without_header};
use crate::volume::plain::Plain;

pub(crate) fn run(args: &PlainOpenArgs) -> Result<(), CliError> {
    let plain = Plain::asked_for(args)?;
    if args.engine == EngineArg::Kernel {
        return in_kernel(args, &plain);
    }
    let hosted = Hosted {
        name: args.name.clone(),
        serving: &args.serving,
        io_engine: args.storage.io_engine,
        foreground: args.foreground,
    };
    hosted.serve(|| {
        let devices = Devices::new(args.readonly, args.storage.manner()?);
        let (table, data) = table(args, &plain, &devices)?;
        let path = args.data_path.into();
        let volume = Volume::start(table, path, |_| Ok(Arc::clone(&data) as Arc<dyn Backend>))?;
        Ok(without_header(volume, "PLAIN", devices))
    })
}

/// Opens the volume as a block device of the kernel.
fn in_kernel(args: &PlainOpenArgs, plain: &Plain<'_>) -> Result<(), CliError> {
    // Before a passphrase is asked for.
    let mapper = Mapper::open()?;
    refuse_taken(&args.name)?;
    let key = args.volume_key_keyring.as_ref();
    key.map_or(Ok(()), KernelKey::demand)?;
    let devices = Devices::new(args.readonly, Manner::default());
    // The kernel's engine opens the image by itself, which is locked until then.
    let (table, data) = table(args, plain, &devices)?;
    drop(data);
    let node = kernel::open_table(&mapper, &args.name, table, &devices, args.readonly, key)?;
    warn_of_unlocked_keys();
    print(format!("{}\n", node.display()).as_bytes())
}

/// The volume's table, and its image, which is locked before a passphrase is asked for.
fn table(
    args: &PlainOpenArgs,
    plain: &Plain<'_>,
    devices: &Devices,
) -> Result<(CryptTable, Arc<Storage>), CliError> {
    let image = absolute(&args.image)?;
    let data = devices.open_image(&image)?;
    let table = plain.table(&*data, &device_names::name_in_table(&image))?;
    Ok((table, data))
}
