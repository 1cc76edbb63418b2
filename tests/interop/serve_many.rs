//! Several servers with the same content under one name: proxies that tell their clients, health, and a version that
//! replaces another.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, socket};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::server::{Server, Site, field, lines_of, port};
use crate::support::{Background, assert_same, have, have_rare, noise, scrim, wait_until};
use crate::tls_client::config;

/// Options for a volume that is cheap to unlock.
const CHEAP: &str = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --batch-mode";

const GET: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The header of the PROXY protocol, version 2, for a client of IPv4 or IPv6 (section 2.2 of its specification).
fn header(client: &str) -> Vec<u8> {
    let mut header = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21".to_vec();
    let ports = [0x12, 0x34, 1, 187];
    match client.parse().unwrap() {
        std::net::IpAddr::V4(ip) => {
            header.extend([0x11, 0, 12]);
            header.extend(ip.octets());
            header.extend([127, 0, 0, 1]);
        }
        std::net::IpAddr::V6(ip) => {
            header.extend([0x21, 0, 36]);
            header.extend(ip.octets());
            header.extend([0; 16]);
        }
    }
    header.extend(ports);
    header
}

/// Bytes of the answer to a request over TLS, after `before` in the clear; none if the server ends the connection.
fn ask(server: &Server, config: &Arc<ClientConfig>, before: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let _ = socket.write_all(before);
    over_tls(socket, config).0
}

/// Asks over TLS, and returns the answer and whether the session was an earlier one.
fn over_tls(socket: impl Read + Write, config: &Arc<ClientConfig>) -> (Vec<u8>, bool) {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut tls = StreamOwned::new(session, socket);
    let mut got = Vec::new();
    if tls.write_all(GET).is_ok() {
        let _ = tls.read_to_end(&mut got);
    }
    let kind = tls.conn.handshake_kind();
    (got, kind == Some(rustls::HandshakeKind::Resumed))
}

fn is_answered(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200 OK\r\n")
}

fn health(url: &str) -> String {
    let output = Command::new("curl")
        .args(["-q", "--silent", "--max-time", "20", url])
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn the_client_that_a_trusted_proxy_names_is_the_one_that_counts() {
    let site = Site::new();
    site.write("version", "1");
    let server = site.serve_by(
        "trusted-proxies = ['127.0.0.1']\naccess-log = { file = 'access.log', format = 'json' }",
        "[limits]\nconnections-per-client = 2\n[[site]]\nroot = 'www'\ndeny = ['198.51.100.0/24']\n",
    );
    let config = config(&site, "http/1.1");
    for (client, status) in [
        ("203.0.113.9", "200"),
        ("2001:db8::9", "200"),
        ("198.51.100.7", "403"),
    ] {
        let answer = ask(&server, &config, &header(client));
        let head = String::from_utf8_lossy(&answer);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }
    // A header may come in as many parts as it has bytes.
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    socket.set_nodelay(true).unwrap();
    for byte in header("203.0.113.11") {
        socket.write_all(&[byte]).unwrap();
    }
    assert!(is_answered(&over_tls(socket, &config).0));
    let lines = lines_of(&site.place.path("access.log"), 4);
    // Each worker writes its own lines.
    for client in ["203.0.113.9", "2001:db8::9", "198.51.100.7"] {
        let named = format!("\"client\":\"{client}\"");
        assert!(lines.iter().any(|line| line.contains(&named)), "{lines:?}");
    }
    // One client has no more connections than one client may have, and takes none from others behind the same proxy.
    let mut greedy = Vec::new();
    wait_until("the greedy client is refused", || {
        // Its connections from before may still count, so that one of these is refused.
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.write_all(&header("203.0.113.9")).unwrap();
        greedy.push(socket);
        ask(&server, &config, &header("203.0.113.9")).is_empty()
    });
    assert!(is_answered(&ask(&server, &config, &header("203.0.113.10"))));
    drop(greedy);
    wait_until("its places are given back", || {
        is_answered(&ask(&server, &config, &header("203.0.113.9")))
    });
    server.stop();
}

/// A machine with a trusted address opens all connections that it can, and sends nothing.
#[test]
fn a_proxy_that_tells_nothing_takes_no_place_from_others() {
    let site = Site::new();
    site.write("version", "1");
    let server = site.serve_by(
        "trusted-proxies = ['127.0.0.1', '127.0.0.9']",
        "[limits]\nconnections = 32\nhandshake-seconds = 3600\n[[site]]\nroot = 'www'\n",
    );
    let config = config(&site, "http/1.1");
    let connect = |from: [u8; 4]| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], server.port()))).unwrap();
        let socket = TcpStream::from(socket);
        let wait = Some(Duration::from_secs(60));
        socket.set_read_timeout(wait).unwrap();
        socket
    };
    let silent: Vec<_> = (0..64).map(|_| connect([127, 0, 0, 1])).collect();
    // Those beyond its share are closed.
    let mut ended = 0;
    for socket in &silent {
        socket.set_nonblocking(true).unwrap();
    }
    wait_until("most are refused", || {
        let is_closed = |mut socket: &TcpStream| match socket.read(&mut [0]) {
            Ok(0) => true,
            Ok(_) => panic!("the server said something"),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        ended = silent.iter().filter(|socket| is_closed(socket)).count();
        ended >= 64 - 8
    });
    assert!(ended < 64, "none was accepted");
    // Neither another proxy nor a client without one is refused.
    let mut proxy = connect([127, 0, 0, 9]);
    proxy.write_all(&header("203.0.113.9")).unwrap();
    assert!(is_answered(&over_tls(proxy, &config).0));
    assert!(is_answered(&over_tls(connect([127, 0, 0, 2]), &config).0));
    drop(silent);
    wait_until("its places are given back", || {
        is_answered(&ask(&server, &config, &header("203.0.113.10")))
    });
    server.stop();
}

#[test]
fn a_proxy_that_tells_no_client_is_refused_and_reported() {
    let site = Site::new();
    site.write("version", "1");
    site.configure(
        "trusted-proxies = ['10.0.0.5', '::/0']",
        "[[site]]\nroot = 'www'\nlistings = true\n",
    );
    let checked = ["serve", "--config", "serve.toml", "--check"];
    let refused = site.place.run_with_input(scrim(), checked, b"");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("may be every client"),
        "{said}"
    );
    for (before, said) in [
        (&b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..], "version 1"),
        (b"", "without a header"),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0", "does not have"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x04abcd", "too short"),
    ] {
        let server = site.serve_by(
            "trusted-proxies = ['127.0.0.0/8']",
            "[[site]]\nroot = 'www'\n",
        );
        let config = config(&site, "http/1.1");
        assert!(ask(&server, &config, before).is_empty(), "{said}");
        wait_until("the operator is told", || {
            server.complaints().contains(said)
        });
        assert!(server.complaints().contains("trusted proxy 127.0.0.1"));
        server.stop();
    }
}

#[test]
fn an_address_that_is_not_a_trusted_proxys_names_no_client() {
    let site = Site::new();
    site.write("version", "1");
    let server = site.serve_by(
        "trusted-proxies = ['127.0.0.9']",
        "[[site]]\nroot = 'www'\ndeny = ['127.0.0.0/8']\n",
    );
    let config = config(&site, "http/1.1");
    assert!(ask(&server, &config, &header("203.0.113.9")).is_empty());
    let denied = ask(&server, &config, b"");
    assert!(denied.starts_with(b"HTTP/1.1 403 "), "{denied:?}");
    server.stop();
}

#[test]
fn health_checks_are_told_of_an_end_before_it_comes() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    site.write("version", "1");
    let mut server = site.serve_by(
        "health = '127.0.0.1:0'\naccess-log = { file = 'access.log' }",
        "[limits]\ndrain-notice-seconds = 600\n[[site]]\nroot = 'www'\n",
    );
    let url = server.urls[1].clone();
    assert_eq!(health(&url), "ready\n");
    for (signal, told) in [(Signal::USR1, "draining\n"), (Signal::USR2, "ready\n")] {
        server.signal(signal);
        wait_until(told, || health(&url) == told);
        assert_eq!(server.curl(&[&server.url("version")]), "1");
    }
    server.signal(Signal::TERM);
    wait_until("the checks are told", || health(&url) == "draining\n");
    assert_eq!(server.curl(&[&server.url("version")]), "1");
    // Another signal cuts the notice short.
    server.signal(Signal::TERM);
    server.must_end();
    let lines = lines_of(&site.place.path("access.log"), 3);
    assert_eq!(lines.len(), 3, "checks have no lines: {lines:?}");
}

#[test]
fn health_is_told_to_those_who_are_allowed_to_ask() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    site.write("version", "1");
    let server = site.serve_by(
        "health = '127.0.0.1:0'\nhealth-allow = ['127.0.0.0/8']\nhealth-deny = ['127.0.0.2/31']",
        "[[site]]\nroot = 'www'\n",
    );
    let ask = |from: &str, url: &str| {
        let output = server.try_curl(&["--interface", from, url]);
        String::from_utf8(output.stdout).unwrap()
    };
    for (from, told) in [
        ("127.0.0.1", "ready\n"),
        ("127.0.0.2", ""),
        ("127.0.0.3", ""),
        ("127.0.0.4", "ready\n"),
    ] {
        assert_eq!(ask(from, &server.urls[1]), told, "{from}");
        // The lists are not those of the site.
        assert_eq!(ask(from, &server.url("version")), "1", "{from}");
    }
    server.stop();
    for (top, said) in [
        (
            "health-deny = ['127.0.0.2']",
            "health-deny: \"127.0.0.2/32\" is not of use alone",
        ),
        (
            "health = '127.0.0.1:0'\nhealth-allow = ['::/0']\nhealth-deny = ['::/0']",
            "leave it out of `health-allow` or of `health-deny`",
        ),
    ] {
        site.configure(top, "[[site]]\nroot = 'www'\n");
        let checked = ["serve", "--config", "serve.toml", "--check"];
        let refused = site.place.run_with_input(scrim(), checked, b"");
        let complaint = String::from_utf8_lossy(&refused.stderr);
        assert!(complaint.contains(said), "{complaint}");
    }
}

#[test]
fn health_checks_are_told_of_storage_that_does_not_answer() {
    if !have(&["curl", "mke2fs", "nbdkit"]) {
        return;
    }
    let site = Site::new();
    site.place.write("key", "open sesame");
    publish(&site, "disk.img", &[("version", b"1")]);
    let serve_disk = || {
        let mut nbdkit = site.place.command("nbdkit");
        nbdkit.args(["--foreground", "--unix", "disk.sock", "file", "disk.img"]);
        Background::start(nbdkit.stderr(Stdio::null()))
    };
    let disk = serve_disk();
    let socket = site.place.path("disk.sock");
    wait_until("the disk is served", || socket.exists());
    let root = format!("nbd+unix:///?socket={}#/", socket.display());
    let server = site.serve_by(
        "health = '127.0.0.1:0'",
        &format!("[[site]]\nroot = '{root}'\nkey-file = 'key'\n"),
    );
    let url = server.urls[1].clone();
    assert_eq!(health(&url), "ready\n");
    drop(disk);
    wait_until("the checks are told", || {
        health(&url) == "storage cannot be read\n"
    });
    let _ = fs::remove_file(&socket);
    let _disk = serve_disk();
    wait_until("it answers again", || health(&url) == "ready\n");
    assert_eq!(server.curl(&[&server.url("version")]), "1");
    server.stop();
}

/// A server of storage that accepts connections and says nothing keeps the reload waiting, and nothing else.
#[test]
fn storage_that_does_not_answer_keeps_no_signal_waiting() {
    if !have(&["curl"]) {
        return;
    }
    let site = Site::new();
    site.write("version", "1");
    site.place.write("key", "open sesame");
    let mut server = site.serve_by("", "[[site]]\nroot = 'www'\n");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let root = format!("nbd://{}/disk#/", silent.local_addr().unwrap());
    site.configure(
        "",
        &format!("[[site]]\nroot = '{root}'\nkey-file = 'key'\n"),
    );
    server.signal(Signal::HUP);
    let (first, _) = silent.accept().unwrap();
    assert_eq!(server.curl(&[&server.url("version")]), "1");
    server.signal(Signal::HUP);
    wait_until("the operator is told to wait", || {
        server.complaints().contains("still being read")
    });
    // The second request is carried out when the first one has failed.
    drop(first);
    let (_second, _) = silent.accept().unwrap();
    let failures = |server: &Server| server.complaints().matches("stays as it is").count();
    assert_eq!(failures(&server), 1, "{}", server.complaints());
    assert_eq!(server.curl(&[&server.url("version")]), "1");
    server.signal(Signal::TERM);
    server.must_end();
    // It has not waited for the storage.
    assert_eq!(failures(&server), 1, "{}", server.complaints());
}

/// Packs files into a volume.
fn publish(site: &Site, image: &str, files: &[(&str, &[u8])]) {
    let tree = site.place.path("tree");
    fs::create_dir_all(&tree).unwrap();
    for (name, bytes) in files {
        fs::write(tree.join(name), bytes).unwrap();
    }
    let words = format!("pack tree {image} {CHEAP}");
    site.place.scrim(words.split_whitespace());
}

/// Servers of the same volume, each with a configuration of its own.
struct Nodes<'a> {
    site: &'a Site,
    nodes: Vec<Server<'a>>,
}

impl<'a> Nodes<'a> {
    fn start(site: &'a Site, count: usize, image: &str) -> Self {
        site.place
            .scrim(["serve", "--rotate-ticket-keys", "tickets.keys"]);
        let mut nodes = Self {
            site,
            nodes: Vec::new(),
        };
        for number in 0..count {
            nodes.configure(number, "127.0.0.1:0", "127.0.0.1:0", image);
            nodes.nodes.push(nodes.run(number));
        }
        nodes
    }

    fn configure(&self, number: usize, listen: &str, health: &str, image: &str) {
        let text = format!(
            "listen = ['{listen}']\nhealth = '{health}'\ntrusted-proxies = ['127.0.0.9']\n\
             [tls]\nticket-keys = 'tickets.keys'\n\
             [[tls.certificate]]\nchain = 'tls/server-cert.pem'\nkey = 'tls/server-key.pem'\n\
             [[site]]\nroot = '{image}#/'\nkey-file = 'key'\n"
        );
        self.site.place.write(&format!("node-{number}.toml"), text);
    }

    fn run(&self, number: usize) -> Server<'a> {
        let name = format!("node-{number}");
        let mut command = self.site.place.service(scrim());
        command.args(["serve", "--config", &format!("{name}.toml")]);
        Server::start_as(&name, self.site, &mut command)
    }

    /// Configures a node for its own ports.
    fn configure_again(&self, number: usize, image: &str) {
        let at = |index: usize| format!("127.0.0.1:{}", port(&self.nodes[number].urls[index]));
        self.configure(number, &at(0), &at(1), image);
    }

    /// Kills a node and starts it again, at the same ports.
    fn replace(&mut self, number: usize, image: &str) {
        self.configure_again(number, image);
        self.nodes[number].signal(Signal::KILL);
        wait_until("it is dead", || !self.nodes[number].is_running());
        self.nodes[number] = self.run(number);
    }
}

/// Two versions of a site, in `v42.img` and `v43.img`.
fn versions(site: &Site, len: usize) -> [Vec<u8>; 2] {
    site.place.write("key", "open sesame");
    let versions = [noise(len, 42), noise(len, 43)];
    for (bytes, version) in versions.iter().zip(["v42", "v43"]) {
        let files = [("big", bytes.as_slice()), ("version", version.as_bytes())];
        publish(site, &format!("{version}.img"), &files);
    }
    versions
}

#[test]
fn a_download_goes_on_at_another_server_and_ends_on_the_version_that_it_began() {
    if !have(&["curl", "mke2fs"]) {
        return;
    }
    let site = Site::new();
    let [old, new] = versions(&site, 8 << 20);
    let nodes = Nodes::start(&site, 2, "v42.img");
    let [first, second] = nodes.nodes.as_slice() else {
        panic!("there are two nodes");
    };
    let heads = |node: &Server| node.curl(&["--head", &node.url("big")]);
    // The tags of files that changed a moment ago are weak, and no range is sent by them.
    wait_until("the tags are strong", || {
        let is_strong = |node| field(&heads(node), "etag").is_some_and(|tag| tag.starts_with('"'));
        is_strong(first) && is_strong(second)
    });
    let (here, there) = (heads(first), heads(second));
    for name in ["etag", "last-modified", "content-length"] {
        let value = field(&here, name).expect(name);
        assert_eq!(Some(value), field(&there, name), "{name}");
    }
    let tag = field(&here, "etag").unwrap();
    let rest = |node: &Server| {
        let condition = format!("If-Range: {tag}");
        let args = ["--header", &condition, "--range", "1000000-", "--include"];
        let output = node.try_curl(&[&args[..], &[&node.url("big")]].concat());
        assert!(output.status.success());
        output.stdout
    };
    let got = rest(second);
    assert!(
        got.ends_with(&old[1_000_000..]),
        "the rest of other content"
    );
    assert!(got.starts_with(b"HTTP/2 206"));
    // A version replaces the other while a slow client has a part of it.
    let mut curl = first.curl_command(&["--limit-rate", "2M", "--output", "slow"]);
    let mut slow = Background::start(curl.arg(first.url("big")).stderr(Stdio::null()));
    let part = site.place.path("slow");
    wait_until("a part has come", || {
        fs::metadata(&part).is_ok_and(|file| file.len() > 0)
    });
    for (number, node) in nodes.nodes.iter().enumerate() {
        nodes.configure_again(number, "v43.img");
        node.reload();
        assert_eq!(node.curl(&[&node.url("version")]), "v43");
    }
    assert!(slow.0.wait().unwrap().success());
    assert_same(&fs::read(&part).unwrap(), &old, "what had begun");
    let got = rest(second);
    assert!(got.starts_with(b"HTTP/2 200"), "a part of another version");
    assert!(got.ends_with(&new));
    for node in nodes.nodes {
        node.stop();
    }
}

/// HAProxy before the nodes, at `haproxy.sock`, until this is dropped.
fn haproxy(nodes: &Nodes<'_>) -> Background {
    let servers = nodes.nodes.iter().enumerate().map(|(number, node)| {
        format!(
            " server node-{number} 127.0.0.1:{} source 127.0.0.9 send-proxy-v2 check port {} inter 100ms fall 1 rise 1\n",
            node.port(),
            port(&node.urls[1]),
        )
    });
    let place = &nodes.site.place;
    let text = format!(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n retries 10\n \
         option redispatch 1\nlisten site\n bind unix@{}\n balance roundrobin\n option httpchk GET /\n{}",
        place.path("haproxy.sock").display(),
        servers.collect::<String>()
    );
    place.write("haproxy.cfg", text);
    let log = File::create(place.path("haproxy.log")).unwrap();
    let mut command = place.command("haproxy");
    command.args(["-db", "-f", "haproxy.cfg"]);
    let running = Background::start(command.stdout(Stdio::null()).stderr(log));
    let socket = place.path("haproxy.sock");
    wait_until("HAProxy listens", || UnixStream::connect(&socket).is_ok());
    running
}

/// A download that goes on after each break, as browsers and package managers do: by a range, if the content is still
/// the same, and from the start otherwise. Returns the number of breaks.
fn download(site: &Site, to: &Path) -> usize {
    let (mut tag, mut breaks) = (None::<String>, 0);
    loop {
        let have = fs::metadata(to).map_or(0, |file| file.len());
        let mut curl = site.place.command("curl");
        curl.args(
            "-q --silent --http1.1 --cacert tls/ca-cert.pem --unix-socket haproxy.sock".split(' '),
        );
        curl.args("--limit-rate 12M --dump-header heads --output part".split(' '));
        if let Some(tag) = &tag {
            curl.args(["--header", &format!("If-Range: {tag}")]);
            curl.args(["--range", &format!("{have}-")]);
        }
        let _ = fs::remove_file(site.place.path("heads"));
        let _ = fs::remove_file(site.place.path("part"));
        let is_whole = curl
            .arg("https://localhost/big")
            .status()
            .unwrap()
            .success();
        let heads = fs::read_to_string(site.place.path("heads")).unwrap_or_default();
        let part = fs::read(site.place.path("part")).unwrap_or_default();
        let is_range = heads.starts_with("HTTP/1.1 206");
        let has_content = is_range || heads.starts_with("HTTP/1.1 200");
        if has_content {
            let mut file = OpenOptions::new();
            let file = file.create(true).write(true);
            let mut file = file.append(is_range).truncate(!is_range).open(to).unwrap();
            file.write_all(&part).unwrap();
            tag = field(&heads, "etag").map(str::to_owned);
        }
        if is_whole && has_content {
            return breaks;
        }
        breaks += 1;
        assert!(breaks < 100, "it goes on for ever: {heads}");
    }
}

/// Downloads `big` through HAProxy from three nodes, which are killed and started again in turn while `images[1]`
/// replaces `images[0]`. What came must have one of the two hashes. `pause` is the time between two kills.
pub(crate) fn check_download(site: &Site, images: [&str; 2], hashes: [&str; 2], pause: Duration) {
    let mut nodes = Nodes::start(site, 3, images[0]);
    let _haproxy = haproxy(&nodes);
    let through = || UnixStream::connect(site.place.path("haproxy.sock")).unwrap();
    let config = config(site, "http/1.1");
    wait_until("the nodes are healthy", || {
        is_answered(&over_tls(through(), &config).0)
    });
    // Each of the three has made a ticket, and a session goes on at any of them.
    let resumed = || (0..9).filter(|_| over_tls(through(), &config).1).count();
    assert_eq!(resumed(), 9, "sessions that went on elsewhere");
    let whole = site.place.path("whole");
    let (breaks, kills) = std::thread::scope(|scope| {
        let download = scope.spawn(|| download(site, &whole));
        let mut kills = 0;
        let mut kill = |nodes: &mut Nodes<'_>, number, image| {
            std::thread::sleep(pause);
            if !download.is_finished() {
                nodes.replace(number, image);
                kills += 1;
            }
        };
        for number in [0, 1, 2, 0] {
            kill(&mut nodes, number, images[0]);
        }
        for number in 0..nodes.nodes.len() {
            nodes.configure_again(number, images[1]);
            nodes.nodes[number].reload();
        }
        for number in [1, 2, 0, 1, 2] {
            kill(&mut nodes, number, images[1]);
        }
        (download.join().unwrap(), kills)
    });
    assert!(breaks > 0, "no node was killed in the midst of it");
    let output = site.place.run("sha256sum", ["whole"]);
    let hash = output.split(' ').next().unwrap();
    assert!(hashes.contains(&hash), "a mixture of both versions");
    let (answer, _) = over_tls(through(), &config);
    assert!(answer.ends_with(b"v43"));
    let resumed = resumed();
    println!(
        "{kills} kills, {breaks} breaks, {resumed} of 9 sessions went on elsewhere after them"
    );
    assert_eq!(resumed, 9, "sessions that went on after the kills");
}

#[test]
fn servers_behind_haproxy_are_one_server() {
    if !have(&["curl", "mke2fs"]) || !have_rare(&["haproxy"], "haproxy") {
        return;
    }
    let site = Site::new();
    let hashes = versions(&site, 48 << 20).map(|bytes| {
        site.place.write("bytes", bytes);
        site.place.run("sha256sum", ["bytes"])
    });
    let hashes = hashes
        .each_ref()
        .map(|line| line.split(' ').next().unwrap());
    check_download(
        &site,
        ["v42.img", "v43.img"],
        hashes,
        Duration::from_millis(500),
    );
}
