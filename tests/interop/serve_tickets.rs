//! `scrim serve` by several servers that share the keys of session tickets, with `openssl s_client` as the judge.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::server::{Server, Site};
use crate::support::{have, scrim, wait_until};

const LAST: &str = "GET /file.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const VERSIONS: [&str; 2] = ["-tls1_3", "-tls1_2"];
const SHARED: &str = "[tls]\nticket-keys = 'tickets.keys'\n";

/// Two sites with one authority and one certificate, for a server each.
struct Pair {
    first: Site,
    second: Site,
}

impl Pair {
    fn new() -> Option<Self> {
        if !have(&["openssl"]) {
            return None;
        }
        let (first, second) = (Site::new(), Site::new());
        for name in ["ca-cert.pem", "server-cert.pem", "server-key.pem"] {
            let name = format!("tls/{name}");
            fs::copy(first.place.path(&name), second.place.path(&name)).unwrap();
        }
        for site in [&first, &second] {
            site.write("file.txt", "the file's text\n");
            site.configure("", &by(SHARED));
        }
        Some(Self { first, second })
    }

    /// Puts the first site's keys into the second, as a copy to another machine does.
    fn distribute(&self) {
        let to = self.second.place.path("tickets.keys");
        fs::copy(self.first.place.path("tickets.keys"), to).unwrap();
    }

    fn start(&self) -> (Server<'_>, Server<'_>) {
        (start(&self.first), start(&self.second))
    }
}

/// Tables of a configuration, with these before the site.
fn by(tables: &str) -> String {
    format!("{tables}[[site]]\nroot = 'www'\nlistings = true\n")
}

fn start(site: &Site) -> Server<'_> {
    let mut command = site.place.service(scrim());
    Server::start(site, command.args(["serve", "--config", "serve.toml"]))
}

fn rotate(site: &Site) -> String {
    let words = ["serve", "--rotate-ticket-keys", "tickets.keys"];
    site.place.scrim(words)
}

/// Runs `openssl s_client` at a server, and returns what it says; the file must have come.
#[track_caller]
fn s_client(server: &Server<'_>, words: &str) -> String {
    let usual = format!(
        "60 openssl s_client -ign_eof -connect {} -servername localhost -CAfile tls/ca-cert.pem",
        server.host()
    );
    let words = usual.split_whitespace().chain(words.split_whitespace());
    let place = &server.site.place;
    let output = place.run_with_input("timeout", words, LAST.as_bytes());
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("the file's text"), "{text}");
    text
}

/// Begins a session in this version at a server and keeps it in a file.
#[track_caller]
fn begin(server: &Server<'_>, version: &str) {
    let session = server.site.place.path("session");
    let words = format!("{version} -sess_out {}", session.display());
    let text = s_client(server, &words);
    assert!(text.contains("New, TLSv1"), "{text}");
}

/// Returns whether a server resumes the session that another one began.
#[track_caller]
fn resumes(server: &Server<'_>, begun_at: &Server<'_>, version: &str) -> bool {
    let session = begun_at.site.place.path("session");
    let text = s_client(server, &format!("{version} -sess_in {}", session.display()));
    let is_reused = text.contains("Reused, TLSv1");
    assert!(is_reused || text.contains("New, TLSv1"), "{text}");
    is_reused
}

/// Asserts that each of two servers resumes, or does not, the sessions of the other.
#[track_caller]
fn assert_resumed(first: &Server<'_>, second: &Server<'_>, expected: bool, when: &str) {
    for version in VERSIONS {
        for (from, to) in [(first, second), (second, first)] {
            begin(from, version);
            assert_eq!(
                resumes(to, from, version),
                expected,
                "{when}, {version}, from {} to {}",
                from.host(),
                to.host()
            );
            assert!(resumes(from, from, version), "{when}, {version}");
        }
    }
}

#[test]
fn servers_with_the_same_keys_resume_each_others_sessions_through_rotations() {
    let Some(pair) = Pair::new() else { return };
    assert!(rotate(&pair.first).contains("tickets.keys has 2 keys"));
    pair.distribute();
    let (first, second) = pair.start();
    assert_resumed(&first, &second, true, "at the start");
    for number in 1..=2 {
        assert!(rotate(&pair.first).contains("tickets.keys has 3 keys"));
        first.reload();
        // The second one has the old file for a while.
        assert_resumed(&first, &second, true, &format!("within rotation {number}"));
        pair.distribute();
        second.reload();
        assert_resumed(&first, &second, true, &format!("after rotation {number}"));
    }
    let complaints = first.complaints();
    assert!(
        complaints.contains("certificates and ticket keys were read again"),
        "{complaints}"
    );
    first.stop();
    second.stop();
}

#[test]
fn a_session_of_a_key_that_was_rotated_out_is_not_resumed() {
    let Some(pair) = Pair::new() else { return };
    rotate(&pair.first);
    pair.distribute();
    for version in VERSIONS {
        let (first, second) = pair.start();
        begin(&first, version);
        rotate(&pair.first);
        pair.distribute();
        first.reload();
        second.reload();
        assert!(resumes(&first, &first, version) && resumes(&second, &first, version));
        rotate(&pair.first);
        pair.distribute();
        first.reload();
        second.reload();
        assert!(!resumes(&first, &first, version) && !resumes(&second, &first, version));
        first.stop();
        second.stop();
    }
}

#[test]
fn servers_without_the_same_keys_resume_their_own_sessions_only() {
    let Some(pair) = Pair::new() else { return };
    let alone = by("");
    pair.first.configure("", &alone);
    pair.second.configure("", &alone);
    let (first, second) = pair.start();
    assert_resumed(&first, &second, false, "without a file");
    rotate(&pair.first);
    rotate(&pair.second);
    let shared = by(SHARED);
    pair.first.configure("", &shared);
    pair.second.configure("", &shared);
    first.reload();
    second.reload();
    assert_resumed(&first, &second, false, "with two files");
    // The file comes and goes by reloads.
    pair.distribute();
    second.reload();
    assert_resumed(&first, &second, true, "with one file");
    begin(&first, "-tls1_3");
    pair.first.configure("", &alone);
    first.reload();
    assert!(!resumes(&first, &first, "-tls1_3"));
    assert_resumed(&first, &second, false, "with a file of one of them");
    first.stop();
    second.stop();
}

#[test]
fn keys_that_cannot_be_used_leave_everything_as_it_is() {
    let Some(pair) = Pair::new() else { return };
    rotate(&pair.first);
    pair.distribute();
    let keys = pair.second.place.path("tickets.keys");
    let good = fs::read_to_string(&keys).unwrap();
    let (first, second) = pair.start();
    let refused = |count: usize| {
        second.signal(Signal::HUP);
        let refusals = || second.complaints().matches("stays as it is").count();
        wait_until("the keys are refused", || refusals() >= count);
    };
    fs::write(&keys, good.replace("\n", "x\n")).unwrap();
    refused(1);
    fs::write(&keys, &good).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    refused(2);
    fs::remove_file(&keys).unwrap();
    refused(3);
    assert_resumed(&first, &second, true, "with keys that were refused");
    let said = second.complaints();
    for words in [
        "tickets.keys, line 2: it is not a ticket key",
        "chmod o-rw",
        "tickets.keys: the ticket keys cannot be read",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut lines = good.lines().filter(|line| !line.starts_with('#'));
    assert!(lines.all(|key| !said.contains(&key[..8])), "{said}");
    first.stop();
    second.stop();
}

#[test]
fn keys_in_a_folder_that_is_served_and_public_ones_are_refused_at_once() {
    let Some(pair) = Pair::new() else { return };
    let site = &pair.first;
    let checked = |options: &str| {
        let line = format!("serve www --check {options}");
        let output = site.place.run_with_input(scrim(), line.split(' '), b"");
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    rotate(site);
    assert_eq!(checked("--ticket-keys tickets.keys").0, 0);
    site.write("tickets.keys", "");
    let (code, said) = checked("--ticket-keys www/tickets.keys");
    assert!(
        code == 1 && said.contains("a file of ticket keys in the folder"),
        "{said}"
    );
    let keys = site.place.path("tickets.keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o604)).unwrap();
    let (code, said) = checked("--ticket-keys tickets.keys");
    assert!(code == 4 && said.contains("chmod o-rw"), "{said}");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o440)).unwrap();
    assert_eq!(checked("--ticket-keys tickets.keys").0, 0);
    let (code, said) = checked("--ticket-keys missing.keys");
    assert!(code == 4 && said.contains("missing.keys"), "{said}");
}
