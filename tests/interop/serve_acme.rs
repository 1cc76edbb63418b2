//! Files by HTTPS with a certificate from an authority: Pebble, the test server of Let's Encrypt, which
//! asks challtestsrv for addresses and finds every name on this machine.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rcgen::ExtendedKeyUsagePurpose;

use crate::certificates::Authority;
use crate::clients::send;
use crate::remote::free_port;
use crate::support::{Background, Place, have, scrim, wait_until, wait_until_or};

const PROGRAMS: [&str; 4] = ["pebble", "pebble-challtestsrv", "curl", "kill"];
const NAME: &str = "files.example";
const TEXT: &str = "what is served";

/// An authority at work, which looks for servers at one port.
struct Pebble {
    place: Place,
    directory: String,
    management: u16,
    _names: Background,
    _pebble: Background,
}

impl Pebble {
    /// Starts an authority whose certificates are valid for this number of seconds.
    fn start(servers_port: u16, validity: u32) -> Self {
        let place = Place::new();
        let [port, management, dns, dns_management] = std::array::from_fn(|_| free_port());
        let authority = Authority::new();
        let (certificate, key) = authority.sign(
            &["localhost", "127.0.0.1"],
            ExtendedKeyUsagePurpose::ServerAuth,
            2100,
        );
        place.write("ca.pem", authority.pem());
        place.write("pebble.pem", certificate);
        place.write("pebble.key", key);
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{port}",
                "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "pebble.pem",
                "privateKey": "pebble.key",
                "httpPort": 1,
                "tlsPort": {servers_port},
                "certificateValidityPeriod": {validity}
            }} }}"#
        );
        place.write("pebble.json", config);
        let mut names = place.command("pebble-challtestsrv");
        names.args(["-dns01", &format!("127.0.0.1:{dns}")]);
        names.args(["-management", &format!("127.0.0.1:{dns_management}")]);
        names.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        let names = Background::start(names.stdout(Stdio::null()).stderr(Stdio::null()));
        let mut pebble = place.command("pebble");
        pebble.args(["-config", "pebble.json"]);
        pebble.args(["-dnsserver", &format!("127.0.0.1:{dns}")]);
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        // By default it refuses one request in twenty. After three of them in a row the next try comes minutes later.
        pebble.env("PEBBLE_WFE_NONCEREJECT", "0");
        let log = File::create(place.path("pebble.log")).unwrap();
        pebble.stdout(log.try_clone().unwrap()).stderr(log);
        let pebble = Background::start(&mut pebble);
        let started = Self {
            directory: format!("https://localhost:{port}/dir"),
            place,
            management,
            _names: names,
            _pebble: pebble,
        };
        wait_until("Pebble answers", || started.root().is_some());
        started
    }

    /// Root certificate of the authority, in PEM.
    fn root(&self) -> Option<String> {
        let url = format!("https://localhost:{}/roots/0", self.management);
        let mut curl = self.place.command("curl");
        let answer = curl.args(["-sSf", "--cacert", "ca.pem", &url]).output();
        let answer = answer.unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        answer.status.success().then_some(text)
    }

    /// Number of orders that the authority has accepted so far.
    fn orders(&self) -> usize {
        let log = fs::read_to_string(self.place.path("pebble.log")).unwrap();
        log.matches("Added order ").count()
    }

    /// Writes the configuration of a server on `port`.
    fn configure(&self, port: u16) {
        let place = &self.place;
        fs::create_dir_all(place.path("root")).unwrap();
        place.write("root/a.txt", TEXT);
        let directory = &self.directory;
        let config = format!(
            "listen = [\"127.0.0.1:{port}\"]\n\
             [acme]\n\
             agree-to-terms = true\n\
             contact = \"me@files.example\"\n\
             directory = \"{directory}\"\n\
             state = \"state-of-acme\"\n\
             ca = \"ca.pem\"\n\
             [[site]]\n\
             root = \"root\"\n\
             names = [\"{NAME}\", \"www.{NAME}\"]\n"
        );
        place.write("serve.toml", config);
    }

    fn serve(&self, port: u16) -> Serving<'_> {
        self.configure(port);
        let mut command = self.place.service(scrim());
        command.args(["serve", "--config", "serve.toml"]);
        let log = File::create(self.place.path("said")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        Serving {
            place: &self.place,
            port,
            process: Background::start(&mut command),
        }
    }
}

/// A running `scrim serve` with one file.
struct Serving<'a> {
    place: &'a Place,
    port: u16,
    process: Background,
}

impl Serving<'_> {
    fn said(&self) -> String {
        fs::read_to_string(self.place.path("said")).unwrap()
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        self.wait_for_times(words, 1);
    }

    #[track_caller]
    fn wait_for_times(&self, words: &str, times: usize) {
        let has_said = || self.said().matches(words).count() >= times;
        wait_until_or(has_said, || format!("{words}; but: {}", self.said()));
    }

    /// Downloads the file by curl with the options `how`, which name the trusted certificates.
    fn get(&self, name: &str, how: &[&str]) -> Option<String> {
        let port = self.port;
        let mut curl = self.place.command("curl");
        curl.args(["-sS", "--resolve", &format!("{name}:{port}:127.0.0.1")]);
        let answer = curl.args(how).arg(format!("https://{name}:{port}/a.txt"));
        let answer = answer.output().unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        answer.status.success().then_some(text)
    }

    fn end(mut self) {
        send("-TERM", &self.process.0);
        assert_eq!(self.process.0.wait().unwrap().code(), Some(0));
    }
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = |path: std::path::PathBuf| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    };
    paths.flat_map(below).collect()
}

/// Checks that only their owner can read the files, and that no part of a key was printed.
fn assert_secret(place: &Place, said: &str) {
    let files = files_below(&place.path("state-of-acme"));
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        let text = fs::read_to_string(&file).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"+/_-".contains(c));
        for secret in words.filter(|word| word.len() > 40) {
            assert!(!said.contains(secret), "{said}");
        }
    }
}

#[test]
fn an_authority_gives_a_certificate_which_the_next_start_has_at_once() {
    if !have(&PROGRAMS) {
        return;
    }
    let port = free_port();
    let pebble = Pebble::start(port, 90 * 24 * 60 * 60);
    let root = pebble.place.write("root.pem", pebble.root().unwrap());
    let trusted = ["--cacert", root.to_str().unwrap()];

    let first = pebble.serve(port);
    first.wait_for("acme: a certificate was obtained, valid until ");
    let www = format!("www.{NAME}");
    for name in [NAME, &www] {
        assert_eq!(first.get(name, &trusted).as_deref(), Some(TEXT), "{name}");
    }
    assert_secret(&pebble.place, &first.said());
    // Sites that are read again leave it where it is.
    send("-HUP", &first.process.0);
    first.wait_for("sites and certificates were read again");
    assert_eq!(first.get(NAME, &trusted).as_deref(), Some(TEXT));
    assert!(!first.said().contains("self-signed"), "{}", first.said());
    first.end();
    assert_eq!(pebble.orders(), 1);

    let second = pebble.serve(port);
    second.wait_for("acme: the stored certificate is valid until ");
    wait_until("it serves", || second.get(NAME, &["-k"]).is_some());
    assert_eq!(second.get(NAME, &trusted).as_deref(), Some(TEXT));
    second.end();
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn a_certificate_is_renewed_before_it_expires() {
    if !have(&PROGRAMS) {
        return;
    }
    let port = free_port();
    let pebble = Pebble::start(port, 24);
    let root = pebble.place.write("root.pem", pebble.root().unwrap());
    let serving = pebble.serve(port);
    serving.wait_for_times("acme: a certificate was obtained", 2);
    let got = serving.get(NAME, &["--cacert", root.to_str().unwrap()]);
    assert_eq!(got.as_deref(), Some(TEXT));
    assert!(pebble.orders() >= 2);
    serving.end();
}

#[test]
fn an_authority_that_looks_elsewhere_leaves_the_self_signed_certificate() {
    if !have(&PROGRAMS) {
        return;
    }
    let pebble = Pebble::start(free_port(), 24);
    let serving = pebble.serve(free_port());
    serving.wait_for("acme: no certificate: the authority did not find this server under ");
    serving.wait_for("; next try in ");
    assert_eq!(serving.get(NAME, &["-k"]).as_deref(), Some(TEXT));
    let root = pebble.place.write("root.pem", pebble.root().unwrap());
    let trusted = ["--cacert", root.to_str().unwrap()];
    assert_eq!(serving.get(NAME, &trusted), None);
    // The pause takes minutes, and the test need not wait for its end.
    serving.end();
}

#[test]
fn an_authority_whose_own_certificate_is_not_trusted_is_asked_nothing() {
    if !have(&PROGRAMS) {
        return;
    }
    let port = free_port();
    let pebble = Pebble::start(port, 24);
    pebble.place.write("ca.pem", Authority::new().pem());
    let serving = pebble.serve(port);
    serving.wait_for("acme: no certificate: the authority cannot be asked: ");
    assert_eq!(pebble.orders(), 0);
    serving.end();
}
