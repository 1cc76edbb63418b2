//! The only way in which commands change a header. It is read, and the user is asked all questions; then, under the
//! lock, it is compared with the header that was read, changed and written.

use std::path::Path;
use std::sync::Arc;

use scrim_backend::{Access, Backend};
use scrim_luks::{Edit, Header, Plan, UnlockError};
use scrim_volume::{HeaderSession, LuksDevice, LuksError};

use crate::args::{ChangeArgs, HeaderOnlyArgs};
use crate::error::{CliError, Exit};
use crate::luks::backup_record;
use crate::luks::header::{check_type, read_luks};
use crate::process::daemon::defer_signals;
use crate::storage::{Storage, header_place};

/// A header that is to be changed, as it was when it was read.
pub(crate) struct HeaderChange {
    pub(crate) backend: Arc<Storage>,
    pub(crate) luks: LuksDevice,
    /// The file or device with the header, for messages.
    pub(crate) place: String,
}

impl HeaderChange {
    /// Reads the header that a command is to change.
    pub(crate) fn begin(args: &ChangeArgs) -> Result<Self, CliError> {
        let change = Self::of(&args.on)?;
        check_type(change.header(), args.r#type, args.on.header_path())?;
        Ok(change)
    }

    /// Reads the header of an image, or of the file that holds it detached.
    pub(crate) fn of(on: &HeaderOnlyArgs) -> Result<Self, CliError> {
        Self::read(&header_place(on)?)
    }

    /// Reads the header at a path. As in cryptsetup, the header of an open volume may be changed: it was read when the
    /// volume was opened.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        Self::on(Arc::new(Storage::open_shared(path, Access::ReadWrite)?))
    }

    /// Reads the header of an image that is open for writing.
    pub(crate) fn on(backend: Arc<Storage>) -> Result<Self, CliError> {
        let luks = read_luks(&*backend, backend.path())?;
        Ok(Self {
            place: backend.path().display().to_string(),
            backend,
            luks,
        })
    }

    pub(crate) fn header(&self) -> &Header {
        self.luks.header()
    }

    /// Refuses a key slot that is not in use, before a passphrase is asked for.
    pub(crate) fn check_in_use(&self, slot: u8) -> Result<(), CliError> {
        let mut slots = self.header().keyslots().iter();
        if slots.any(|found| found.id == slot) {
            return Ok(());
        }
        let error = LuksError::Unlock(UnlockError::UnusedKeyslot { slot });
        Err(CliError::from(error).within(&self.place))
    }

    /// Makes a change and writes it as a whole: signals wait until it is done.
    pub(crate) fn carry_out<T, E: Into<CliError>>(
        &self,
        make: impl FnOnce(&mut Header, &HeaderSession<'_>) -> Result<(T, Plan), E>,
    ) -> Result<T, CliError> {
        let within = |error: CliError| error.within(&self.place);
        let session = HeaderSession::start(&*self.backend)?;
        let header = session.header(&self.luks);
        let mut header = header.map_err(|error| within(error.into()))?;
        let (made, plan) = make(&mut header, &session).map_err(|error| within(error.into()))?;
        write(plan, &session, &self.backend)?;
        backup_record::note_change(self.header(), &header);
        Ok(made)
    }

    /// Makes all edits, or none.
    pub(crate) fn edit(&self, edits: &[Edit]) -> Result<(), CliError> {
        self.carry_out(|header, _| header.edit(edits).map(|plan| ((), plan)))
    }
}

/// Writes a plan as a whole: signals wait until it is done, and where there is no space for it
/// nothing is written.
pub(crate) fn write(
    plan: Plan,
    session: &HeaderSession<'_>,
    backend: &Storage,
) -> Result<(), CliError> {
    let size = backend.info().size;
    let plan = plan.clipped(size);
    if plan.end() > size {
        return Err(CliError::new(
            Exit::WrongDevice,
            format!(
                "{}: the header would take {} bytes, and only {size} are there; nothing was written: \
                 it has been truncated, make it as long as it was",
                backend.path().display(),
                plan.end()
            ),
        ));
    }
    backend.reserve(plan.end())?;
    defer_signals()?;
    session.apply(&plan).map_err(|error| {
        CliError::from(error)
            .within("the header may have been written only in part; check it with `scrim repair`")
    })
}
