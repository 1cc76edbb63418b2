//! nginx: the one that this system has, and a newer one beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use scrim_bench::web::Suite;
use scrim_guest::Cache;

use super::super::room::Room;
use super::site::Site;
use crate::error::{Doing, Error};

/// Folders in which Debian installs nginx; they are on the `PATH` of few users.
const ADMIN: &str = "/usr/sbin:/sbin";
/// Debian's package of nginx.
pub(super) const PACKAGE: &str = "nginx-light";
/// Suite of Debian from which a newer nginx comes.
const SUITE: &str = "trixie";
/// Packages that the newer nginx needs.
const PACKAGES: [&str; 8] = [
    "nginx",
    "libc6",
    "libcrypt1",
    "libpcre2-8-0",
    "libssl3t64",
    "openssl-provider-legacy",
    "libzstd1",
    "zlib1g",
];
/// Path of the dynamic linker below the root of the unpacked packages.
const LINKER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const PROGRAM: &str = "usr/sbin/nginx";
/// Path of Debian's module that compresses with brotli, below the root of its packages.
const BROTLI_MODULE: &str = "usr/lib/nginx/modules/ngx_http_brotli_filter_module.so";
/// Connections that nginx may have at a time, slow ones included.
const CONNECTIONS: usize = 4096;

/// An nginx that can be run.
#[derive(Clone, Debug)]
pub(super) enum Nginx {
    /// The nginx that the system has installed.
    System(PathBuf),
    /// From a folder with unpacked packages.
    Unpacked(PathBuf),
}

impl Nginx {
    /// The nginx of this system, if it has one.
    pub(super) fn of_this_system() -> Option<Self> {
        let path = std::env::var("PATH").unwrap_or_default() + ":" + ADMIN;
        let mut places = std::env::split_paths(&path).map(|folder| folder.join("nginx"));
        places.find(|program| program.is_file()).map(Self::System)
    }

    /// A newer Debian's, with that suite's OpenSSL and all else that it needs: from `folder`, or fetched
    /// from Debian's archive, once.
    pub(super) fn newer(folder: Option<&Path>) -> Result<Self, Error> {
        let folder = match folder {
            Some(folder) => {
                std::path::absolute(folder).doing(|| format!("find {}", folder.display()))?
            }
            None => Cache::open()?.programs(SUITE, &PACKAGES, &mut |step| eprintln!("{step}"))?,
        };
        Ok(Self::Unpacked(folder))
    }

    /// Version that nginx prints, with that of the OpenSSL that it runs with.
    pub(super) fn version(&self) -> Option<String> {
        let output = self.command().arg("-V").output().ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let mut lines = said.lines();
        let of = |line: &str, mark: &str| Some(line.split_once(mark)?.1.trim().to_owned());
        let nginx = lines.find_map(|line| of(line, "nginx version: "))?;
        let openssl = lines.find_map(|line| of(line, "built with "));
        Some(match openssl {
            Some(openssl) => format!("{nginx}, {openssl}"),
            None => nginx,
        })
    }

    fn command(&self) -> Command {
        match self {
            Self::System(program) => Command::new(program),
            Self::Unpacked(root) => {
                let mut command = Command::new(root.join(LINKER));
                command.arg("--library-path").arg(root.join(LIBRARIES));
                command.arg(root.join(PROGRAM));
                // The system's is for another OpenSSL.
                command.env("OPENSSL_CONF", "/dev/null");
                command
            }
        }
    }

    /// Serves `site` on two ports of loopback, over TLS and plain.
    pub(super) fn serve(
        &self,
        room: &Room,
        name: &str,
        site: &Site,
        suite: Suite,
        ports: [u16; 2],
    ) -> Result<Command, Error> {
        self.with(room, name, &configuration(room, name, site, suite, ports)?)
    }

    /// Module that compresses with brotli, if it is installed beside this nginx.
    pub(super) fn brotli_module(&self) -> Option<PathBuf> {
        let root = match self {
            Self::System(_) => Path::new("/"),
            Self::Unpacked(root) => root,
        };
        let module = root.join(BROTLI_MODULE);
        module.is_file().then_some(module)
    }

    /// Serves the folder `root` on a port of loopback without TLS, and compresses by the directives `compression`, with
    /// `module` loaded for them.
    pub(super) fn compress(
        &self,
        room: &Room,
        name: &str,
        root: &Path,
        module: Option<&Path>,
        compression: &str,
        port: u16,
    ) -> Result<Command, Error> {
        let load = match module {
            Some(module) => format!("load_module {};\n", quoted(module)?),
            None => String::new(),
        };
        let (start, root) = (start(room, name)?, quoted(root)?);
        let text = format!(
            "{load}{start}
    types {{
        text/html html;
    }}
    {compression}
    server {{
        listen 127.0.0.1:{port};
        root {root};
    }}
}}
"
        );
        self.with(room, name, &text)
    }

    /// The command with a configuration.
    fn with(&self, room: &Room, name: &str, text: &str) -> Result<Command, Error> {
        let file = room.write(&format!("{name}.conf"), text)?;
        let mut command = self.command();
        // Set by an option, so that nginx does not try the path that it was built with.
        command.arg("-e").arg(room.path(&format!("{name}.err")));
        command.arg("-p").arg(room.path("")).arg("-c").arg(file);
        command.current_dir(room.path("")).env("LC_ALL", "C");
        Ok(command)
    }
}

/// A path as a configuration names it.
fn quoted(path: &Path) -> Result<String, Error> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(['"', '\\', '$']));
    let wrong = || Error::program("nginx", format!("cannot name {}", path.display()));
    Ok(format!("\"{}\"", text.ok_or_else(wrong)?))
}

/// The start of a configuration, as its documentation advises for files that do not change: one worker, open files kept,
/// `sendfile`.
fn start(room: &Room, name: &str) -> Result<String, Error> {
    let user = if rustix::process::geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let inner = |end: &str| quoted(&room.path(&format!("{name}{end}")));
    let (errors, process) = (inner(".err")?, inner(".pid")?);
    let temporary = inner(".tmp")?;
    Ok(format!(
        "{user}daemon off;
worker_processes 1;
worker_rlimit_nofile {CONNECTIONS};
pid {process};
error_log {errors};
events {{
    worker_connections {CONNECTIONS};
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    send_timeout 3600s;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    client_body_temp_path {temporary};
    proxy_temp_path {temporary};
    fastcgi_temp_path {temporary};
    uwsgi_temp_path {temporary};
    scgi_temp_path {temporary};"
    ))
}

fn configuration(
    room: &Room,
    name: &str,
    site: &Site,
    suite: Suite,
    [https, http]: [u16; 2],
) -> Result<String, Error> {
    let (start, root) = (start(room, name)?, quoted(&site.root)?);
    let (certificate, key) = (quoted(&site.certificate)?, quoted(&site.key)?);
    Ok(format!(
        "{start}
    server {{
        listen 127.0.0.1:{https} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites {suite};
        ssl_session_cache shared:scrim:1m;
        root {root};
    }}
    server {{
        listen 127.0.0.1:{http};
        root {root};
    }}
}}
"
    ))
}
