//! `scrim serve` for tests: a folder, certificates, a server on ports of its own, and its end.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::ExtendedKeyUsagePurpose;
use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Authority;
use crate::support::{Place, scrim, succeeded, wait_until};

/// A folder `www` to be served, and certificates for localhost in `tls`.
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) authority: Authority,
}

impl Site {
    pub(crate) fn new() -> Self {
        let (place, authority) = (Place::in_memory(), Authority::new());
        std::fs::create_dir(place.path("www")).unwrap();
        authority.fill(&place.path("tls"));
        Self { place, authority }
    }

    /// A file of the site.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.place.path("www").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A certificate for a host, with its key beside it, as a part of a configuration.
    pub(crate) fn certificate(&self, host: &str) -> String {
        let (chain, key) = self
            .authority
            .sign(&[host], ExtendedKeyUsagePurpose::ServerAuth, 2100);
        self.place.write(&format!("{host}.pem"), chain);
        self.place.write(&format!("{host}.key"), key);
        format!("[[tls.certificate]]\nchain = '{host}.pem'\nkey = '{host}.key'\n")
    }

    /// Serves the folder over HTTPS, with these options.
    pub(crate) fn serve(&self, options: &[&str]) -> Server<'_> {
        let usual = "serve www --listen 127.0.0.1:0 --certificate tls/server-cert.pem --key tls/server-key.pem";
        let words = usual.split_whitespace().chain(options.iter().copied());
        let mut command = self.place.service(scrim());
        Server::start(self, command.args(words))
    }

    /// Serves by a configuration. The usual certificate comes first, and `top` stands before all tables.
    pub(crate) fn serve_by(&self, top: &str, tables: &str) -> Server<'_> {
        self.configure(top, tables);
        let mut command = self.place.service(scrim());
        Server::start(self, command.args(["serve", "--config", "serve.toml"]))
    }

    /// Writes the configuration of [`serve_by`](Self::serve_by).
    pub(crate) fn configure(&self, top: &str, tables: &str) {
        let listen = match top.contains("listen") {
            true => "",
            false => "listen = ['127.0.0.1:0']",
        };
        let own = "chain = 'tls/server-cert.pem'\nkey = 'tls/server-key.pem'";
        let text = format!("{listen}\n{top}\n[[tls.certificate]]\n{own}\n{tables}");
        self.place.write("serve.toml", text);
    }
}

/// A server at work.
pub(crate) struct Server<'a> {
    pub(crate) site: &'a Site,
    /// Its addresses in the order HTTPS, plain HTTP, redirecting, status, health.
    pub(crate) urls: Vec<String>,
    /// File with what it says on standard error.
    errors: PathBuf,
    child: Child,
}

impl<'a> Server<'a> {
    /// Starts it, and waits until it has said where it is.
    pub(crate) fn start(site: &'a Site, command: &mut Command) -> Self {
        Self::start_as("server", site, command)
    }

    /// Starts one of several servers of a site; what it says on standard error is in `NAME.err`.
    pub(crate) fn start_as(name: &str, site: &'a Site, command: &mut Command) -> Self {
        let errors = site.place.path(&format!("{name}.err"));
        let file = std::fs::File::create(&errors).unwrap();
        command.stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().unwrap();
        // All addresses come by one write, and those of a test fit into a pipe.
        let mut said = [0; 4096];
        let length = child.stdout.as_mut().unwrap().read(&mut said).unwrap();
        let text = str::from_utf8(&said[..length]).unwrap();
        let server = Self {
            site,
            urls: text.lines().map(str::to_owned).collect(),
            errors,
            child,
        };
        assert!(!server.urls.is_empty(), "{}", server.complaints());
        server
    }

    /// The first address, with a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.urls[0])
    }

    /// The port of the first address.
    pub(crate) fn port(&self) -> u16 {
        port(&self.urls[0])
    }

    /// `HOST:PORT` of the first address.
    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Text that the server has written to standard error.
    pub(crate) fn complaints(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }

    /// A `curl` that believes the site's authority and is silent but for errors.
    pub(crate) fn curl_command(&self, args: &[&str]) -> Command {
        let mut command = self.site.place.command("curl");
        let usual = "-q --silent --show-error --max-time 120 --cacert tls/ca-cert.pem";
        command.args(usual.split_whitespace()).args(args);
        command
    }

    /// Runs `curl`, whatever comes of it.
    pub(crate) fn try_curl(&self, args: &[&str]) -> Output {
        self.curl_command(args).output().unwrap()
    }

    /// Runs `curl` and demands success; returns what it prints.
    #[track_caller]
    pub(crate) fn curl(&self, args: &[&str]) -> String {
        succeeded(&format!("curl {args:?}"), &self.try_curl(args))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Reads everything again, and waits until it has.
    pub(crate) fn reload(&self) {
        let count = || self.complaints().matches("were read again").count();
        let before = count();
        self.signal(Signal::HUP);
        wait_until("everything is read again", || count() > before);
    }

    /// Returns whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it as a service manager does. It must end with 0.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        self.must_end();
    }

    /// Waits for its end, with 0.
    #[track_caller]
    pub(crate) fn must_end(&mut self) {
        let status = self.child.wait().unwrap();
        let (code, signal) = (status.code(), status.signal());
        assert_eq!((code, signal), (Some(0), None), "{}", self.complaints());
        assert!(
            !self.complaints().contains("panicked"),
            "{}",
            self.complaints()
        );
    }

    /// Bytes of memory that it has.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib: u64 = line
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        kib << 10
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port of a URL.
pub(crate) fn port(url: &str) -> u16 {
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
    port.parse().unwrap()
}

/// The value of a field in heads as curl prints them; the last one's.
pub(crate) fn field<'a>(heads: &'a str, name: &str) -> Option<&'a str> {
    let fields = heads.lines().filter_map(|line| line.split_once(':'));
    let mut named = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
    named.next_back().map(|(_, value)| value.trim())
}

/// The lines of an access log, once it has the given number of them; they come within a second.
pub(crate) fn lines_of(log: &Path, count: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(log).unwrap_or_default();
    wait_until("the access log has its lines", || {
        read().lines().count() >= count
    });
    read().lines().map(str::to_owned).collect()
}
