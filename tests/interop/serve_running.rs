//! `scrim serve` as something that runs: reloaded under load, drained, started by a service manager, and full.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use rustix::process::Signal;

use crate::server::{Server, Site};
use crate::support::{
    Background, PYTHON, assert_same, have, is_root, may, noise, scrim, script, wait_until,
};
use crate::terminal::{at_a_terminal, steps};
use crate::tls_client::{PREFACE, Tls, config, connect, exchange, frame, get_fields};

const GET: &[u8] = b"GET /file.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST: &[u8] = b"GET /file.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn site() -> Option<Site> {
    if !have(&["curl", "openssl"]) {
        return None;
    }
    let site = Site::new();
    site.write("file.txt", "text of the file");
    Some(site)
}

#[test]
fn a_server_that_cannot_listen_makes_no_log() {
    let Some(site) = site() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let line = format!(
        "serve www --listen {address} --certificate tls/server-cert.pem --key tls/server-key.pem \
         --access-log access.log"
    );
    let refused = (site.place).run_with_input(scrim(), line.split_whitespace(), b"");
    assert!(!refused.status.success());
    assert!(!site.place.path("access.log").exists());
}

/// Serves a folder to a network of its own, where this machine is 192.0.2.7, and shows the names of its certificate.
const ON_A_NETWORK: &str = "\
ip link set lo up
ip address add 192.0.2.7/24 dev lo
\"$1\" serve www --listen 0.0.0.0:8443 > urls 2> notes &
while [ ! -s urls ]; do sleep 0.1; done
cat urls notes
openssl s_client -connect 192.0.2.7:8443 < /dev/null 2> /dev/null | openssl x509 -noout -ext subjectAltName
curl --silent --insecure https://192.0.2.7:8443/file.txt
kill $!
";

#[test]
fn a_server_on_a_network_says_where_it_is_and_who_can_read() {
    let Some(site) = site() else { return };
    if !is_root() || !have(&["unshare", "ip"]) {
        println!("skipped: a network of one's own needs root, util-linux and iproute2");
        return;
    }
    let mut probe = Command::new("unshare");
    if !may("to make a network namespace", probe.args(["--net", "true"])) {
        return;
    }
    let words = ["--net", "sh", "-c", ON_A_NETWORK, "sh", scrim()];
    let output = site.place.run_with_input("unshare", words, b"");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with("https://192.0.2.7:8443/\nhttps://localhost:8443/\n"),
        "{said}"
    );
    for expected in [
        "everybody who reaches this machine can read",
        "IP Address:192.0.2.7",
        "DNS:localhost",
        "text of the file",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// Roots and options that a newcomer tries first.
#[test]
fn what_is_not_a_folder_to_serve_is_explained() {
    let Some(site) = site() else { return };
    site.place.write("disk.img", "no folder");
    let refused = |line: &str| {
        let output = site.place.run_with_input(scrim(), line.split(' '), b"");
        assert!(!output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused("serve disk.img");
    assert!(said.contains("served as 'disk.img#/'"), "{said}");
    let said = refused("serve www --listen localhost");
    assert!(said.contains("PORT for this machine only"), "{said}");
    site.configure("", "[[site]]\nroot = 'www'\n");
    let checked = |line: &str| {
        let output = site.place.run_with_input(scrim(), line.split(' '), b"");
        assert!(output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = checked("serve --config serve.toml --check");
    assert!(said.contains("set listings = true, or false"), "{said}");
    assert_eq!(
        checked("serve --config serve.toml --check --no-listings"),
        ""
    );
    site.configure("", "[[site]]\nroot = 'www'\nlistings = true\n");
    assert_eq!(checked("serve --config serve.toml --check"), "");
}

/// A slow download that has begun.
fn slow(server: &Server, way: &str, name: &str) -> Background {
    let url = server.url("long.bin");
    let args = [way, "--limit-rate", "6M", "--output", name, &url];
    let mut curl = server.curl_command(&args);
    let download = Background::start(curl.stdout(Stdio::null()).stderr(Stdio::inherit()));
    let got = server.site.place.path(name);
    wait_until("the download has begun", || {
        fs::metadata(&got).is_ok_and(|file| file.len() > 0)
    });
    download
}

/// The kind of the frame that says that a connection of HTTP/2 ends.
const GOAWAY: u8 = 7;

/// The next frame of HTTP/2: its kind, its flags, and what it carries.
fn next_frame(tls: &mut Tls) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    tls.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    tls.read_exact(&mut payload).unwrap();
    (head[3], head[4], payload)
}

/// The serial number of the certificate that is shown.
fn shown(server: &Server) -> String {
    let host = server.host();
    let client = format!(
        "openssl s_client -connect {host} </dev/null 2>/dev/null | openssl x509 -noout -serial"
    );
    server.site.place.run("sh", ["-c", &client])
}

#[test]
fn new_certificates_and_files_are_taken_up_under_load() {
    let Some(site) = site() else { return };
    let bytes = noise(24 << 20, 1);
    site.write("long.bin", &bytes);
    let server = site.serve(&["--access-log", "access.log"]);
    let (first, mut kept) = (shown(&server), connect(&server, &config(&site, "http/1.1")));
    let answered = |kept: &mut Tls| {
        kept.write_all(GET).unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"text of the file") {
            let mut some = [0; 4096];
            let length = kept.read(&mut some).unwrap();
            assert!(length > 0, "the connection has ended");
            got.extend(&some[..length]);
        }
    };
    answered(&mut kept);
    let mut downloads = ["--http1.1", "--http2"].map(|way| slow(&server, way, way));
    let mut serials = vec![first];
    for _ in 0..5 {
        let (chain, key) =
            site.authority
                .sign(&["localhost"], ExtendedKeyUsagePurpose::ServerAuth, 2100);
        site.place.write("tls/server-cert.pem", chain);
        site.place.write("tls/server-key.pem", key);
        server.reload();
        answered(&mut kept);
        serials.push(shown(&server));
    }
    serials.dedup();
    assert_eq!(serials.len(), 6, "{serials:?}");
    // A configuration that cannot be used changes nothing.
    site.place.write("tls/server-key.pem", "no key");
    server.signal(Signal::HUP);
    wait_until("it says so", || {
        server
            .complaints()
            .contains("the configuration stays as it is")
    });
    assert_eq!(shown(&server), serials[5]);
    answered(&mut kept);
    for (download, way) in downloads.iter_mut().zip(["--http1.1", "--http2"]) {
        assert!(download.0.wait().unwrap().success(), "{way}");
        assert_same(&fs::read(site.place.path(way)).unwrap(), &bytes, way);
    }
    server.stop();
}

#[test]
fn a_log_that_was_renamed_goes_on_under_its_name() {
    let Some(site) = site() else { return };
    let server = site.serve(&["--access-log", "access.log"]);
    let log = site.place.path("access.log");
    server.curl(&[&server.url("file.txt")]);
    crate::server::lines_of(&log, 1);
    fs::rename(&log, site.place.path("old.log")).unwrap();
    server.reload();
    server.curl(&[&server.url("file.txt?later")]);
    let lines = crate::server::lines_of(&log, 1);
    assert!(lines[0].contains("/file.txt?later"), "{lines:?}");
    server.stop();
}

#[test]
fn an_end_waits_for_downloads_and_for_nothing_else() {
    let Some(site) = site() else { return };
    let bytes = noise(24 << 20, 2);
    site.write("long.bin", &bytes);
    let mut server = site.serve(&[]);
    let mut idle = connect(&server, &config(&site, "http/1.1"));
    idle.write_all(GET).unwrap();
    let mut some = [0; 64];
    assert!(idle.read(&mut some).unwrap() > 0);
    let mut downloads = ["--http1.1", "--http2"].map(|way| slow(&server, way, way));
    server.signal(Signal::TERM);
    wait_until("nobody is accepted", || {
        TcpStream::connect(("127.0.0.1", server.port())).is_err()
    });
    assert!(server.is_running(), "it did not wait");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    for (download, way) in downloads.iter_mut().zip(["--http1.1", "--http2"]) {
        assert!(download.0.wait().unwrap().success(), "{way}");
        assert_same(&fs::read(site.place.path(way)).unwrap(), &bytes, way);
    }
    server.must_end();
}

/// HTTP/2 clients send frames while they take the data in flight, to tell that they have taken some of it.
#[test]
fn an_end_lets_slow_clients_take_all_that_was_sent() {
    let Some(site) = site() else { return };
    let bytes = noise(22 << 20, 3);
    site.write("long.bin", &bytes);
    let mut server = site.serve(&["--plain-http", "127.0.0.1:0"]);
    let ways = [("--http1.1", 0), ("--http2", 0), ("--http1.1", 1)];
    let name = |way: &str, address, number| format!("got{way}{address}{number}");
    let mut clients = ways.map(|(way, address)| {
        let url = format!("{}long.bin", server.urls[address]);
        let names = [0, 1, 2].map(|number| name(way, address, number));
        let mut curl = server.curl_command(&[way, "--parallel", "--limit-rate", "5M"]);
        for name in &names {
            curl.args(["--output", name, &url]);
        }
        let client = Background::start(curl.stdout(Stdio::null()).stderr(Stdio::null()));
        for name in &names {
            let got = site.place.path(name);
            wait_until("a part of it has come", || {
                fs::metadata(&got).is_ok_and(|file| file.len() > 8 << 20)
            });
        }
        client
    });
    server.signal(Signal::TERM);
    for (client, (way, address)) in clients.iter_mut().zip(ways) {
        assert!(client.0.wait().unwrap().success(), "{way} {address}");
        for number in 0..3 {
            let name = name(way, address, number);
            assert_same(&fs::read(site.place.path(&name)).unwrap(), &bytes, &name);
        }
    }
    server.must_end();
}

#[test]
fn an_end_lets_a_client_talk_while_it_takes_what_was_sent() {
    const PAUSE: Duration = Duration::from_millis(100);
    let Some(site) = site() else { return };
    let bytes = noise(2 << 20, 4);
    site.write("index.html", &bytes);
    let mut server = site.serve(&[]);
    let mut tls = connect(&server, &config(&site, "h2"));
    let window = 0x7fff_0000_u32.to_be_bytes();
    let ask = [
        PREFACE.to_vec(),
        frame(8, 0, 0, &window),
        frame(1, 5, 1, &get_fields()),
        frame(8, 0, 1, &window),
    ];
    tls.write_all(&ask.concat()).unwrap();
    let (mut got, mut some) = (Vec::new(), vec![0; 64 << 10]);
    let first = tls.read(&mut some).unwrap();
    got.extend(&some[..first]);
    server.signal(Signal::TERM);
    wait_until("nobody is accepted", || {
        TcpStream::connect(("127.0.0.1", server.port())).is_err()
    });
    // It takes longer for that than the server waits for a client that has everything.
    let mut said = Ok(());
    loop {
        std::thread::sleep(PAUSE);
        let mut taken = 0;
        while taken < some.len() {
            match tls.read(&mut some[taken..]) {
                Ok(0) => break,
                Ok(length) => taken += length,
                Err(error) => panic!("after {} bytes: {error}", got.len() + taken),
            }
        }
        got.extend(&some[..taken]);
        if taken < some.len() {
            break;
        }
        // The frame that says that it has taken some data.
        let update = frame(8, 0, 0, &1_u32.to_be_bytes());
        said = said.and(tls.write_all(&update));
    }
    said.unwrap();
    let (mut content, mut rest) = (Vec::new(), got.as_slice());
    while let [a, b, c, kind, _, _, _, _, _, behind @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (payload, next) = behind.split_at(length);
        if *kind == 0 {
            content.extend_from_slice(payload);
        }
        rest = next;
    }
    assert_same(&content, &bytes, "what came");
    drop(tls);
    server.must_end();
}

/// A request that a client sends before it hears that its idle connection ends is answered for as long as it takes.
#[test]
fn a_request_that_crosses_the_end_of_an_idle_connection_is_answered_whole() {
    let Some(site) = site() else { return };
    let bytes = noise(16 << 20, 5);
    site.write("index.html", &bytes);
    let limits = "[limits]\nidle-seconds = 1\ndrain-seconds = 1\n[[site]]\nroot = 'www'\n";
    let server = site.serve_by("", limits);
    let mut tls = connect(&server, &config(&site, "h2"));
    let window = 0x7fff_0000_u32.to_be_bytes();
    tls.write_all(PREFACE).unwrap();
    tls.write_all(&frame(8, 0, 0, &window)).unwrap();
    while next_frame(&mut tls).0 != GOAWAY {}
    let ask = [frame(1, 5, 1, &get_fields()), frame(8, 0, 1, &window)];
    tls.write_all(&ask.concat()).unwrap();
    // Longer than a server that ends has for it.
    std::thread::sleep(Duration::from_secs(5));
    let (mut content, mut is_last) = (Vec::new(), false);
    while !is_last {
        let (kind, flags, payload) = next_frame(&mut tls);
        if kind == 0 {
            content.extend(payload);
            is_last = flags & 1 == 1;
        }
    }
    assert_same(&content, &bytes, "what came");
    drop(tls);
    server.stop();
}

#[test]
fn an_end_waits_no_longer_than_it_is_told() {
    let Some(site) = site() else { return };
    site.place.sparse("www/long.bin", 1 << 30);
    let mut server = site.serve_by("", "[limits]\ndrain-seconds = 1\n[[site]]\nroot = 'www'\n");
    let mut downloads = ["--http1.1", "--http2"].map(|way| slow(&server, way, way));
    server.signal(Signal::TERM);
    server.must_end();
    for download in &mut downloads {
        assert!(!download.0.wait().unwrap().success());
    }
}

#[test]
fn a_service_manager_hands_its_sockets_on() {
    let Some(site) = site() else { return };
    let usual = "serve www --certificate tls/server-cert.pem --key tls/server-key.pem";
    let mut command = site.place.command(PYTHON);
    command.arg(script("activate.py"));
    command.args(["tcp:127.0.0.1:0", "tcp:127.0.0.1:0", "--", scrim()]);
    let server = Server::start(&site, command.args(usual.split_whitespace()));
    assert_eq!(server.urls.len(), 2, "{:?}", server.urls);
    for url in &server.urls {
        assert_eq!(
            server.curl(&[&format!("{url}file.txt")]),
            "text of the file"
        );
    }
    server.stop();
}

/// Opens `held` connections; returns the number of those that get an answer.
fn answered(server: &Server, site: &Site, held: usize) -> usize {
    let config = config(site, "http/1.1");
    let mut connections: Vec<_> = (0..held).map(|_| connect(server, &config)).collect();
    let mut count = 0;
    for tls in &mut connections {
        let mut some = [0; 4096];
        let answer = tls.write_all(GET).and_then(|()| tls.read(&mut some));
        count += usize::from(answer.is_ok_and(|length| length > 0));
    }
    count
}

#[test]
fn there_are_no_more_connections_than_allowed() {
    let Some(site) = site() else { return };
    for (limits, allowed) in [("connections-per-client = 5", 5), ("connections = 7", 7)] {
        let text = format!("[limits]\n{limits}\n[[site]]\nroot = 'www'\n");
        let server = site.serve_by("", &text);
        assert_eq!(answered(&server, &site, 20), allowed, "{limits}");
        // Their places are given back.
        wait_until("there is room again", || answered(&server, &site, 1) == 1);
        server.stop();
    }
}

#[test]
fn slow_heads_and_slow_handshakes_are_ended_and_others_served_meanwhile() {
    let Some(site) = site() else { return };
    let limits = "[limits]\nrequest-seconds = 1\nhandshake-seconds = 1\nidle-seconds = 1\n[[site]]\nroot = 'www'\n";
    let server = site.serve_by("", limits);
    let tls = config(&site, "http/1.1");
    let mut slow: Vec<_> = (0..50).map(|_| connect(&server, &tls)).collect();
    for tls in &mut slow {
        tls.write_all(b"GET /file.txt HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            .unwrap();
    }
    let silent: Vec<_> = (0..50)
        .map(|_| TcpStream::connect(("127.0.0.1", server.port())).unwrap())
        .collect();
    assert_eq!(server.curl(&[&server.url("file.txt")]), "text of the file");
    for mut tls in slow {
        // A byte now and then does not keep a connection.
        let got = loop {
            let mut some = [0; 4096];
            tls.sock
                .set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            match tls.read(&mut some) {
                Ok(length) => break some[..length].to_vec(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let _ = tls.write_all(b"x");
                }
                Err(_) => break Vec::new(),
            }
        };
        let got = String::from_utf8_lossy(&got);
        assert!(got.is_empty() || got.starts_with("HTTP/1.1 408 "), "{got}");
    }
    for mut socket in silent {
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    let got = exchange(&mut connect(&server, &tls), LAST);
    assert!(got.starts_with(b"HTTP/1.1 200 OK"));
    server.stop();
}

/// A client that sends without a pause what nobody wants to read: 40 MB of content behind 640 requests.
#[test]
fn who_never_stops_sending_holds_nobody_up() {
    let Some(site) = site() else {
        return;
    };
    site.write("a.txt", "a");
    let server = site.serve(&["--threads", "1", "--plain-http", "127.0.0.1:0"]);
    let address = server.urls[1]
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    let mut sending = TcpStream::connect(address.replace("localhost", "127.0.0.1")).unwrap();
    let mut receiving = sending.try_clone().unwrap();
    let answers = std::thread::spawn(move || {
        let mut all = Vec::new();
        receiving.read_to_end(&mut all).map(|_| all)
    });
    let mut request =
        b"POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n".to_vec();
    request.resize(request.len() + 60_000, b'x');
    for _ in 0..640 {
        sending.write_all(&request).unwrap();
    }
    sending.shutdown(Shutdown::Write).unwrap();
    let answers = answers.join().unwrap().unwrap();
    let count = answers
        .windows(12)
        .filter(|words| words == b"HTTP/1.1 405")
        .count();
    assert_eq!(count, 640);
    assert_eq!(server.curl(&[&server.url("a.txt")]), "a");
    server.stop();
}

#[test]
fn who_takes_nothing_is_given_up() {
    let Some(site) = site() else { return };
    site.place.sparse("www/long.bin", 1 << 30);
    let limits = "[limits]\nstall-seconds = 1\n[[site]]\nroot = 'www'\n";
    let log = "[access-log]\nfile = 'access.log'\n";
    let server = site.serve_by("", &format!("{log}{limits}"));
    let asked = b"GET /long.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut first = connect(&server, &config(&site, "http/1.1"));
    first.write_all(asked).unwrap();
    let http2 = config(&site, "h2");
    let mut second = connect(&server, &http2);
    let mut sent = PREFACE.to_vec();
    let mut fields = vec![0x82, 0x87, 0x41, 9];
    fields.extend(b"localhost");
    fields.extend([0x44, 9]);
    fields.extend(b"/long.bin");
    // Its window is as large as it gets, so that the socket is what fills up.
    sent.extend(frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    sent.extend(frame(1, 5, 1, &fields));
    sent.extend(frame(8, 0, 1, &0x7fff_0000_u32.to_be_bytes()));
    second.write_all(&sent).unwrap();
    let lines = crate::server::lines_of(&site.place.path("access.log"), 2);
    assert!(
        lines.iter().all(|line| line.contains("/long.bin")),
        "{lines:?}"
    );
    drop((first, second));
    server.stop();
}

/// A client that asks for figures is not counted in them: neither its requests nor its connections.
#[test]
fn figures_do_not_change_because_somebody_looks() {
    let Some(site) = site() else { return };
    let server = site.serve(&["--status", "127.0.0.1:0", "--access-log", "access.log"]);
    server.curl(&[&server.url("file.txt")]);
    let page = &server.urls[1];
    let json = format!("{page}status.json");
    let look = || {
        let mut figures: serde_json::Value = serde_json::from_str(&server.curl(&[&json])).unwrap();
        let figures = figures.as_object_mut().unwrap();
        figures.remove("at");
        figures.remove("up");
        figures.clone()
    };
    // The connection of the download may take a moment to go.
    wait_until("nobody is connected", || look()["open"] == 0);
    let first = look();
    assert_eq!(first["connections"], 1);
    assert_eq!(first["by_class"], serde_json::json!([0, 1, 0, 0, 0]));
    assert_eq!(first["bytes_sent"], 16);
    for other in ["", "metrics", "nothing"] {
        server.try_curl(&[&format!("{page}{other}")]);
    }
    assert_eq!(look(), first);
    server.stop();
}

#[test]
fn a_terminal_shows_the_address_for_others_as_a_qr_code() {
    if !have(&[PYTHON]) {
        return;
    }
    let site = Site::new();
    let end = steps(&[("wait", "https://"), ("settle", ""), ("type", "\\x03")]);
    for (listen, is_for_others) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let session = at_a_terminal(&site.place, &format!("serve www --listen {listen}"), &end);
        let shown = session.shown;
        assert_eq!(session.code, 0, "{shown}");
        // A machine without a network has no address for others.
        let has_address = shown.matches("https://").count() > 1;
        let has_code = shown.contains("\u{2588}\u{2580}");
        assert_eq!(has_code, is_for_others && has_address, "{shown}");
    }
}
