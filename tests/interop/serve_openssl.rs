//! `scrim serve` with `openssl s_client`: what is negotiated, resumed, rekeyed and refused, and how a connection
//! ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::server::{Server, Site};
use crate::support::{Background, have, wait_until};
use crate::tls_client::{config, connect, exchange};

const LAST: &str = "GET /file.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const NEXT: &str = "GET /file.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn site() -> Option<Site> {
    if !have(&["openssl"]) {
        return None;
    }
    let site = Site::new();
    site.write("file.txt", "the file's text\n");
    Some(site)
}

/// Runs `openssl s_client` with these words; it sends `input` once it is connected, and waits for the end.
fn s_client(server: &Server, words: &str, input: &str) -> Output {
    let host = server.host();
    let usual = format!(
        "60 openssl s_client -connect {host} -servername localhost -CAfile tls/ca-cert.pem"
    );
    let words = usual.split_whitespace().chain(words.split_whitespace());
    server
        .site
        .place
        .run_with_input("timeout", words, input.as_bytes())
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn versions_suites_and_groups_are_negotiated() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    for (words, wanted) in [
        ("-tls1_3", "TLSv1.3, Cipher is TLS_AES_"),
        (
            "-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256",
            "Cipher is TLS_CHACHA20_POLY1305_SHA256",
        ),
        (
            "-tls1_3 -groups X25519",
            "Server Temp Key: X25519, 253 bits",
        ),
        (
            "-tls1_3 -groups P-256",
            "Server Temp Key: ECDH, prime256v1, 256 bits",
        ),
        (
            "-tls1_3 -groups P-384",
            "Server Temp Key: ECDH, secp384r1, 384 bits",
        ),
        ("-tls1_2", "TLSv1.2, Cipher is ECDHE-ECDSA-"),
        (
            "-tls1_2 -groups P-256",
            "Server Temp Key: ECDH, prime256v1, 256 bits",
        ),
        ("-tls1_3 -alpn h2,http/1.1", "ALPN protocol: h2"),
        ("-tls1_3 -alpn http/1.1", "ALPN protocol: http/1.1"),
        ("-tls1_3", "Verify return code: 0 (ok)"),
        // The group of the client's first message is not taken, and the second's is.
        (
            "-tls1_3 -groups P-521:X25519",
            "Server Temp Key: X25519, 253 bits",
        ),
    ] {
        let words = format!("-ign_eof {words}");
        let input = if words.contains("h2") { "" } else { LAST };
        let words = if input.is_empty() {
            words.replace("-ign_eof", "")
        } else {
            words
        };
        let text = said(&s_client(&server, &words, input));
        // Newer ones say it in other words.
        let text = text.replace("Peer Temp Key", "Server Temp Key");
        assert!(text.contains(wanted), "{words}: {text}");
        assert!(
            input.is_empty() || text.contains("the file's text"),
            "{words}: {text}"
        );
    }
    let groups = site
        .place
        .command("openssl")
        .args(["list", "-tls-groups"])
        .output();
    if said(&groups.unwrap()).contains("X25519MLKEM768") {
        let text = said(&s_client(&server, "-ign_eof -groups X25519MLKEM768", LAST));
        assert!(
            text.contains("X25519MLKEM768") && text.contains("the file's text"),
            "{text}"
        );
    }
    server.stop();
}

#[test]
fn what_is_old_or_weak_is_refused() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    for words in [
        "-tls1_1 -cipher DEFAULT@SECLEVEL=0",
        "-tls1 -cipher DEFAULT@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256",
        "-tls1_2 -cipher AES128-GCM-SHA256",
        "-alpn spdy/3",
    ] {
        let output = s_client(&server, words, LAST);
        assert!(!output.status.success(), "{words}: {}", said(&output));
        assert!(
            said(&output).contains("alert"),
            "{words}: {}",
            said(&output)
        );
    }
    // The server goes on.
    let text = said(&s_client(&server, "-ign_eof", LAST));
    assert!(text.contains("the file's text"), "{text}");
    server.stop();
}

#[test]
fn sessions_are_resumed_in_both_versions() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    for version in ["-tls1_3", "-tls1_2"] {
        let text = said(&s_client(
            &server,
            &format!("-ign_eof {version} -sess_out session"),
            LAST,
        ));
        assert!(text.contains("New, TLSv1"), "{text}");
        let text = said(&s_client(
            &server,
            &format!("-ign_eof {version} -sess_in session"),
            LAST,
        ));
        assert!(text.contains("Reused, TLSv1"), "{version}: {text}");
        assert!(text.contains("the file's text"), "{version}: {text}");
    }
    let text = said(&s_client(&server, "-tls1_2 -reconnect", ""));
    assert_eq!(text.matches("Reused, TLSv1.2").count(), 5, "{text}");
    server.stop();
}

/// An `openssl s_client` that is told what to do while it is connected.
struct Interactive {
    child: Background,
    lines: mpsc::Receiver<String>,
}

impl Interactive {
    fn start(server: &Server, words: &str) -> Self {
        let mut command = server.site.place.command("openssl");
        let host = server.host();
        command.args(["s_client", "-connect", &host, "-CAfile", "tls/ca-cert.pem"]);
        command.args(words.split_whitespace());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Background::start(&mut command);
        let (sender, lines) = mpsc::channel();
        let (out, err) = (
            child.0.stdout.take().unwrap(),
            child.0.stderr.take().unwrap(),
        );
        for pipe in [Box::new(out) as Box<dyn Read + Send>, Box::new(err)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
        }
        Self { child, lines }
    }

    /// Types something, if it still listens. A letter that is a command stands alone: what comes by one
    /// reading is one.
    fn types(&mut self, text: &str) {
        let keyboard = self.child.0.stdin.as_mut().unwrap();
        let _ = keyboard.write_all(text.as_bytes());
    }

    #[track_caller]
    fn says(&mut self, wanted: &str) {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60));
            match line {
                Ok(line) if line.contains(wanted) => return,
                Ok(_) => {}
                Err(error) => panic!("{wanted:?} was not said: {error}"),
            }
        }
    }
}

#[test]
fn keys_are_changed_during_a_connection() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    let mut client = Interactive::start(&server, "-tls1_3 -crlf");
    client.says("Verify return code: 0 (ok)");
    for command in ["k\n", "K\n", "k\n", "K\n"] {
        client.types(command);
        client.says("KEYUPDATE");
        client.types(&NEXT.replace('\r', ""));
        client.says("the file's text");
    }
    drop(client);
    server.stop();
}

#[test]
fn nothing_is_negotiated_anew() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    let mut client = Interactive::start(&server, "-tls1_2 -crlf");
    client.says("Verify return code: 0 (ok)");
    client.types("R\n");
    client.says("RENEGOTIATING");
    client.types(&NEXT.replace('\r', ""));
    client.says("no renegotiation");
    wait_until("s_client ends", || {
        client.child.0.try_wait().unwrap().is_some()
    });
    assert!(said(&s_client(&server, "-ign_eof", LAST)).contains("the file's text"));
    server.stop();
}

#[test]
fn a_connection_ends_by_close_notify() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    for version in ["-tls1_3", "-tls1_2"] {
        // It ends with an error if a connection ends without.
        let output = s_client(&server, &format!("-ign_eof -quiet {version}"), LAST);
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        assert!(!text.contains("unexpected eof"), "{text}");
        let traced = said(&s_client(
            &server,
            &format!("-ign_eof -msg {version}"),
            LAST,
        ));
        let closing = "<<< TLS 1.2, Alert [length 0002], warning close_notify";
        let closing = if version == "-tls1_3" {
            closing.replace("1.2", "1.3")
        } else {
            closing.to_owned()
        };
        assert!(traced.contains(&closing), "{traced}");
    }
    server.stop();
}

#[test]
fn requests_may_come_right_behind_the_handshake_and_all_at_once() {
    let Some(site) = site() else { return };
    let server = site.serve(&[]);
    let many = NEXT.repeat(50) + LAST;
    for version in ["-tls1_3", "-tls1_2"] {
        let output = s_client(&server, &format!("-ign_eof -quiet {version}"), &many);
        let text = said(&output);
        assert_eq!(
            text.matches("HTTP/1.1 200 OK").count(),
            51,
            "{version}: {text}"
        );
        assert_eq!(text.matches("the file's text").count(), 51, "{version}");
    }
    // Here they are in the flight of the client's last message of the handshake.
    let mut tls = connect(&server, &config(&site, "http/1.1"));
    tls.conn
        .writer()
        .write_all(&many.as_bytes()[..NEXT.len() * 20])
        .unwrap();
    let got = exchange(&mut tls, &many.as_bytes()[NEXT.len() * 20..]);
    let got = String::from_utf8_lossy(&got);
    assert_eq!(got.matches("HTTP/1.1 200 OK").count(), 51, "{got}");
    assert_eq!(got.matches("the file's text").count(), 51, "{got}");
    server.stop();
}
