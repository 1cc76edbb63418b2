//! `scrim cat IMAGE:/path`: prints a file of the file system in a volume.

use scrim_files::{Inode, Kind, LastLink, ReadMode};
use scrim_sys::memory::DataBuffer;

use crate::args::CatArgs;
use crate::error::{CliError, Exit};
use crate::files::source::Source;
use crate::terminal::Content;

/// Number of bytes that are read at a time.
const PIECE: usize = 1 << 20;

pub(crate) fn run(args: &CatArgs) -> Result<(), CliError> {
    let source = Source::open(&args.on)?;
    let found = source.find(LastLink::Follow)?;
    let inode = Inode::clone(found.last());
    if inode.kind() != Kind::File {
        let (is, next) = match inode.kind() {
            Kind::Folder => ("it is a folder", "scrim ls shows its files"),
            _ => ("it is not a regular file", "it has no content of its own"),
        };
        return Err(
            CliError::new(Exit::WrongDevice, format!("{is}; {next}")).within(&source.location)
        );
    }
    let file = source.file(inode, b"")?;
    let mut content = Content::begin()?;
    let mut buffer = DataBuffer::zeroed(PIECE);
    let mut offset = 0;
    loop {
        let read = file
            .read_at(&mut buffer, offset, ReadMode::Wait)
            .map_err(|error| CliError::io(format_args!("read {}", source.location), &error))?;
        // If the file system was mounted meanwhile, these bytes may be another file's.
        source.check_unchanged()?;
        if read == 0 || !content.print(&buffer[..read])? {
            break;
        }
        offset += read as u64;
    }
    content.end()
}
