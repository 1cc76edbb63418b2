//! The access log: a line for each request.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, OFlags, access};
use serde::Deserialize;

use crate::listener::Service;
use crate::tls::kernel::Path as TlsPath;

/// Length in bytes of buffered lines from which on they are written.
const FLUSH_BYTES: usize = 32 << 10;
/// Limit in bytes on each value from a client in a line.
const QUOTED_MAX: usize = 1024;

/// Format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The Combined Log Format, which Apache and nginx write.
    #[default]
    Combined,
    /// An object of JSON on each line.
    Json,
}

/// The access log: shared by all workers, opened again by [`reopen`](Self::reopen).
pub struct AccessLog {
    path: PathBuf,
    format: LogFormat,
    file: RwLock<Arc<File>>,
}

/// A request, as the log describes it.
pub(crate) struct Entry<'a> {
    pub(crate) service: Service,
    pub(crate) client: IpAddr,
    /// Name of the user, if a client has logged in.
    pub(crate) user: Option<&'a str>,
    pub(crate) at: SystemTime,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) version: &'static str,
    pub(crate) host: Option<&'a str>,
    pub(crate) status: u16,
    /// Bytes of content that were sent.
    pub(crate) bytes: u64,
    /// True if the content was sent completely.
    pub(crate) whole: bool,
    pub(crate) took: Duration,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
    /// TLS parameters; `None` over plain HTTP.
    pub(crate) tls: Option<TlsEntry>,
}

/// TLS parameters of a connection, for the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TlsEntry {
    pub(crate) version: &'static str,
    pub(crate) suite: &'static str,
    /// Implementation of the connection's records.
    pub(crate) path: TlsPath,
}

impl AccessLog {
    /// Appends to a file, which is made if it does not exist; `/dev/stdout` is possible, too.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path, format: LogFormat) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            format,
            file: RwLock::new(Arc::new(open_to_append(path)?)),
        })
    }

    /// Checks whether a log can be opened, without creating the file: the server may run as another user, which could not
    /// write to it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn check(path: &Path) -> io::Result<()> {
        match appending().open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
            }
            opened => opened.map(drop),
        }
    }

    /// Opens the file again by its name, after log rotation has renamed it. If that fails, the old file stays in use.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn reopen(&self) -> io::Result<()> {
        let file = Arc::new(open_to_append(&self.path)?);
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    /// Writes lines with one call, so that a line is missing rather than truncated. If the log cannot be written, such as a
    /// pipe without a reader, the lines are lost, since files must still be served.
    fn write(&self, lines: &str) {
        let file = Arc::clone(&self.file.read().unwrap_or_else(PoisonError::into_inner));
        let _ = (&*file).write_all(lines.as_bytes());
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    appending().create(true).open(path)
}

fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .append(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Buffer for the lines of one worker.
pub(crate) struct Lines {
    log: Arc<AccessLog>,
    lines: RefCell<String>,
}

impl Lines {
    pub(crate) fn new(log: Arc<AccessLog>) -> Self {
        Self {
            log,
            lines: RefCell::default(),
        }
    }

    pub(crate) fn append(&self, entry: &Entry) {
        let mut lines = self.lines.borrow_mut();
        match self.log.format {
            LogFormat::Combined => combined(&mut lines, entry),
            LogFormat::Json => json(&mut lines, entry),
        }
        lines.push('\n');
        if lines.len() >= FLUSH_BYTES {
            self.log.write(&lines);
            lines.clear();
        }
    }

    /// Writes the buffered lines.
    pub(crate) fn flush(&self) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            self.log.write(&lines);
            lines.clear();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.flush();
    }
}

fn combined(line: &mut String, entry: &Entry) {
    // `Tue, 29 Feb 2000 12:34:56 GMT`
    let date = httpdate::fmt_http_date(entry.at);
    let part = |range| date.get(range).unwrap_or("-");
    let (day, month, year, time) = (part(5..7), part(8..11), part(12..16), part(17..25));
    let _ = write!(line, "{} - ", entry.client);
    escape(line, entry.user.unwrap_or("-").as_bytes());
    let _ = write!(line, " [{day}/{month}/{year}:{time} +0000] \"");
    escape(line, entry.method.as_bytes());
    line.push(' ');
    escape(line, entry.target.as_bytes());
    let _ = write!(
        line,
        " {}\" {} {} \"",
        entry.version, entry.status, entry.bytes
    );
    escape(line, entry.referer.unwrap_or(b"-"));
    line.push_str("\" \"");
    escape(line, entry.user_agent.unwrap_or(b"-"));
    line.push('"');
}

fn json(line: &mut String, entry: &Entry) {
    let since = entry.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let _ = write!(
        line,
        "{{\"time\":{}.{:03},\"client\":\"{}\",\"method\":\"",
        since.as_secs(),
        since.subsec_millis(),
        entry.client
    );
    escape_json(line, entry.method.as_bytes());
    line.push_str("\",\"target\":\"");
    escape_json(line, entry.target.as_bytes());
    for (name, value) in [
        ("user", entry.user.map(str::as_bytes)),
        ("host", entry.host.map(str::as_bytes)),
        ("referer", entry.referer),
        ("user_agent", entry.user_agent),
    ] {
        if let Some(value) = value {
            let _ = write!(line, "\",\"{name}\":\"");
            escape_json(line, value);
        }
    }
    let _ = write!(
        line,
        "\",\"version\":\"{}\",\"status\":{},\"bytes\":{},\"whole\":{},\"seconds\":{:.6}",
        entry.version,
        entry.status,
        entry.bytes,
        entry.whole,
        entry.took.as_secs_f64()
    );
    if let Some(tls) = entry.tls {
        let _ = write!(
            line,
            ",\"tls\":\"{}\",\"suite\":\"{}\",\"tls_path\":\"{}\"",
            tls.version,
            tls.suite,
            tls.path.name()
        );
        if let Some(reason) = tls.path.reason() {
            let _ = write!(line, ",\"tls_reason\":\"{reason}\"");
        }
    }
    line.push('}');
}

/// Escapes a client's value as nginx does: quotes, backslashes and unprintable bytes as `\xHH`.
fn escape(line: &mut String, words: &[u8]) {
    for &byte in &words[..words.len().min(QUOTED_MAX)] {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(line, "\\x{byte:02X}");
            }
            _ => line.push(char::from(byte)),
        }
    }
}

/// Escapes a client's value for a JSON string; its bytes are taken as Latin-1 characters.
fn escape_json(line: &mut String, words: &[u8]) {
    for &byte in &words[..words.len().min(QUOTED_MAX)] {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(line, "\\u00{byte:02x}");
            }
            _ => line.push(char::from(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::kernel::FallbackReason;

    #[test]
    fn a_check_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        AccessLog::check(&path).unwrap();
        assert!(!path.exists());
        let nowhere = AccessLog::check(&folder.path().join("no/access.log")).unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
        assert!(
            AccessLog::check(folder.path()).is_err(),
            "a folder is no log"
        );
        std::fs::write(&path, "a line\n").unwrap();
        AccessLog::check(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a line\n");
    }

    fn entry() -> Entry<'static> {
        Entry {
            service: Service::Https,
            client: "192.0.2.7".parse().unwrap(),
            user: None,
            at: UNIX_EPOCH + Duration::from_secs(951_782_400),
            method: "GET",
            target: "/a\"b",
            version: "HTTP/1.1",
            host: Some("example.org"),
            status: 200,
            bytes: 17,
            whole: true,
            took: Duration::from_millis(1500),
            referer: None,
            user_agent: Some(b"x\n\xffy"),
            tls: Some(TlsEntry {
                version: "TLSv1.3",
                suite: "TLS_AES_128_GCM_SHA256",
                path: TlsPath::User(FallbackReason::Module),
            }),
        }
    }

    #[test]
    fn a_combined_line_cannot_be_broken_by_its_client() {
        let mut line = String::new();
        combined(&mut line, &entry());
        assert_eq!(
            line,
            r#"192.0.2.7 - - [29/Feb/2000:00:00:00 +0000] "GET /a\x22b HTTP/1.1" 200 17 "-" "x\x0A\xFFy""#
        );
    }

    #[test]
    fn a_user_has_the_third_field() {
        let entry = Entry {
            user: Some("ann"),
            ..entry()
        };
        let (mut line, mut object) = (String::new(), String::new());
        combined(&mut line, &entry);
        assert!(line.starts_with("192.0.2.7 - ann ["), "{line}");
        json(&mut object, &entry);
        let value: serde_json::Value = serde_json::from_str(&object).unwrap();
        assert_eq!(value["user"], "ann");
    }

    #[test]
    fn a_line_of_json_is_an_object() {
        let mut line = String::new();
        json(&mut line, &entry());
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["target"], "/a\"b");
        assert_eq!(value["user_agent"], "x\n\u{ff}y");
        assert_eq!(value["seconds"], 1.5);
        assert_eq!(value["suite"], "TLS_AES_128_GCM_SHA256");
        assert_eq!(value["tls_path"], "user");
        assert_eq!(value["tls_reason"], "no-module");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn a_log_that_was_renamed_goes_on_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Arc::new(AccessLog::open(&path, LogFormat::Combined).unwrap());
        let lines = Lines::new(Arc::clone(&log));
        lines.append(&entry());
        lines.flush();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        log.reopen().unwrap();
        lines.append(&entry());
        drop(lines);
        let count = |name: &str| {
            std::fs::read_to_string(folder.path().join(name))
                .unwrap()
                .lines()
                .count()
        };
        assert_eq!((count("old"), count("log")), (1, 1));
    }
}
