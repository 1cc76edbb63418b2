//! `scrim header-backup IMAGE --header-backup-file FILE`.

use scrim_backend::Access;
use scrim_volume::LuksDevice;

use crate::args::HeaderBackupArgs;
use crate::error::CliError;
use crate::luks::backup_record;
use crate::luks::header::check_type;
use crate::storage::new_file::{demand_new, write_new};
use crate::storage::{Storage, header_place};
use crate::terminal::note;

pub(crate) fn run(args: &HeaderBackupArgs) -> Result<(), CliError> {
    let path = args.on.header_path();
    let place = path.display();
    let file = args.header_backup_file.display();
    demand_new(&args.header_backup_file, "backup")?;
    let backend = Storage::open_shared(&header_place(&args.on)?, Access::ReadOnly)?;
    let backup =
        LuksDevice::read_backup(&backend).map_err(|error| CliError::from(error).within(&place))?;
    check_type(backup.header(), args.r#type, path)?;
    for finding in backup.findings() {
        note(format_args!("scrim: warning: {place}: {finding}"));
    }
    write_new(&args.header_backup_file, backup.bytes())?;
    backup_record::note_backup(backup.header());
    note(format_args!(
        "{place}: header of LUKS{} volume {} saved in {file}; with it, every passphrase that is valid \
         now opens the volume for good, so keep it as safe as those",
        backup.header().version(),
        backup.header().uuid()
    ));
    Ok(())
}
