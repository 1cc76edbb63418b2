//! The attributes of a file, as a listing shows them.

use scrim_figures::time::{iso, minutes};
use scrim_files::{Inode, Kind};
use serde::Serialize;

/// The letter of a file's type, as in `ls -l`.
fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Folder => 'd',
        Kind::Link => 'l',
        Kind::CharacterDevice => 'c',
        Kind::BlockDevice => 'b',
        Kind::Pipe => 'p',
        Kind::Socket => 's',
        Kind::Unknown => '?',
    }
}

/// The name of a file's type, for sentences and in JSON.
pub(crate) fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Link => "symbolic link",
        Kind::CharacterDevice => "character device",
        Kind::BlockDevice => "block device",
        Kind::Pipe => "pipe",
        Kind::Socket => "socket",
        Kind::Unknown => "unknown",
    }
}

/// Type and permissions, as in `ls -l`.
fn mode(inode: &Inode) -> String {
    let permissions = inode.permissions();
    let has = |bit: u16| permissions >> bit & 1 == 1;
    let mut text = String::from(letter(inode.kind()));
    // For each of user, group and others: the bit of the right to execute, and the special bit shown beside it.
    for (right, special, set) in [(6, 11, 's'), (3, 10, 's'), (0, 9, 't')] {
        text.push(if has(right + 2) { 'r' } else { '-' });
        text.push(if has(right + 1) { 'w' } else { '-' });
        text.push(match (has(special), has(right)) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, false) => set.to_ascii_uppercase(),
            (true, true) => set,
        });
    }
    if inode.has_attributes() {
        text.push('+');
    }
    text
}

/// The columns of a long listing before the name; the second to the fifth are numbers.
pub(crate) fn columns(inode: &Inode) -> [String; 6] {
    let (user, group) = inode.owner();
    let (seconds, _) = inode.modified();
    [
        mode(inode),
        inode.links().to_string(),
        user.to_string(),
        group.to_string(),
        match inode.device() {
            Some((major, minor)) => format!("{major},{minor}"),
            None => inode.size().to_string(),
        },
        minutes(seconds).unwrap_or_else(|| format!("@{seconds}")),
    ]
}

/// A file in JSON.
#[derive(Serialize)]
pub(crate) struct Record {
    /// Path in the file system; bytes that are not UTF-8 are replaced in it.
    path: String,
    /// The bytes of a path that is not UTF-8, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    r#type: &'static str,
    inode: u32,
    /// Lower twelve bits of the mode, in octal.
    mode: String,
    links: u16,
    uid: u32,
    gid: u32,
    size: u64,
    /// Time of the last write, in UTC; null for years that have not four digits.
    modified: Option<String>,
    modified_unix: i64,
    modified_nanoseconds: u32,
    has_attributes: bool,
    /// Path to which a symbolic link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
}

impl Record {
    pub(crate) fn of(path: &[u8], inode: &Inode, target: Option<&[u8]>) -> Self {
        let text = std::str::from_utf8(path);
        let (seconds, nanoseconds) = inode.modified();
        let (uid, gid) = inode.owner();
        Self {
            path: String::from_utf8_lossy(path).into_owned(),
            path_hex: text
                .is_err()
                .then(|| path.iter().map(|byte| format!("{byte:02x}")).collect()),
            r#type: name_of(inode.kind()),
            inode: inode.number(),
            mode: format!("{:04o}", inode.permissions()),
            links: inode.links(),
            uid,
            gid,
            size: inode.size(),
            modified: iso(seconds),
            modified_unix: seconds,
            modified_nanoseconds: nanoseconds,
            has_attributes: inode.has_attributes(),
            target: target.map(|target| String::from_utf8_lossy(target).into_owned()),
            device: inode.device(),
        }
    }
}
