use std::os::unix::ffi::OsStringExt;

use super::*;

fn tcp(host: &str, port: u16, export: &str) -> Uri {
    Uri {
        endpoint: Endpoint::Tcp {
            host: host.to_owned(),
            port,
        },
        tls: None,
        export: export.to_owned(),
    }
}

fn unix(path: &str, export: &str) -> Uri {
    Uri {
        endpoint: Endpoint::Unix(path.into()),
        tls: None,
        export: export.to_owned(),
    }
}

#[test]
fn the_specifications_examples_parse() {
    for (text, expected) in [
        ("nbd://example.com", tcp("example.com", 10809, "")),
        ("nbd://example.com/", tcp("example.com", 10809, "")),
        ("nbd://example.com:/e", tcp("example.com", 10809, "e")),
        ("NBD://192.0.2.1:7/disk", tcp("192.0.2.1", 7, "disk")),
        ("nbd://[::1]/a%20b/c", tcp("::1", 10809, "a b/c")),
        ("nbd://[2001:db8::1]:80//x", tcp("2001:db8::1", 80, "/x")),
        ("nbd://[fe80::1%25eth0]:80/", tcp("fe80::1%eth0", 80, "")),
        ("nbd+unix:///?socket=/run/s", unix("/run/s", "")),
        ("nbd+unix://?socket=s", unix("s", "")),
        ("nbd+unix:///n%C3%A4?socket=/a%3Fb", unix("/a?b", "nä")),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    let tls: Uri = "nbds+unix:///e?socket=/s".parse().unwrap();
    assert!(tls.tls == Some(UriTls::default()) && tls.export == "e");
    assert!("nbds://h".parse::<Uri>().unwrap().tls.is_some());
}

#[test]
fn the_words_for_tls_are_those_of_others() {
    let uri = "nbds+unix:///?socket=/s&tls-type=x509&tls-certificates=/a%20b&tls-hostname=h&\
               tls-verify-peer=false";
    let tls = UriTls {
        certificates: Some("/a b".into()),
        hostname: Some("h".to_owned()),
        verify_peer: false,
    };
    assert_eq!(uri.parse::<Uri>().unwrap().tls, Some(tls));
    for yes in ["1", "true", "On"] {
        let uri = format!("nbds://h/?tls-verify-peer={yes}");
        assert_eq!(uri.parse::<Uri>().unwrap().tls, Some(UriTls::default()));
    }
}

#[test]
fn what_is_printed_parses_to_the_same() {
    let all = (1..=255u8).collect::<Vec<_>>();
    for uri in [
        tcp("::1", 10809, ""),
        tcp("fe80::1%eth0", 1, "/"),
        tcp("example.com", 65535, "a b?c#d%e&f=g\u{e4}/../h"),
        unix("/tmp/a b?&%#;=.sock", "x"),
        Uri {
            tls: Some(UriTls::default()),
            ..unix("rel", "y")
        },
        Uri {
            tls: Some(UriTls {
                certificates: Some(std::ffi::OsString::from_vec(all.clone()).into()),
                hostname: Some("::1".to_owned()),
                verify_peer: false,
            }),
            ..tcp("h", 1, "y")
        },
        Uri {
            tls: Some(UriTls {
                certificates: Some("a b&c".into()),
                ..UriTls::default()
            }),
            ..unix("s", "")
        },
        Uri {
            endpoint: Endpoint::Unix(std::ffi::OsString::from_vec(all).into()),
            tls: None,
            export: String::new(),
        },
    ] {
        assert_eq!(uri.to_string().parse(), Ok(uri.clone()), "{uri}");
        assert!(Uri::is_meant(&uri.to_string()));
        assert!(!uri.to_string().contains(' '), "one word in a table");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (text, said) in [
        ("disk.img", "begins with none"),
        ("nbd+vsock://1/e", "begins with none"),
        ("nbd:h:10809", "write nbd://HOST:PORT/EXPORT"),
        ("nbd:[::1]:10809:exportname=e", "qemu's own way"),
        ("nbd:unix:/s", "nbd+unix:///EXPORT?socket=PATH"),
        ("nbd://me@h/", "names a user"),
        ("nbd://h/e#1", "%23"),
        ("nbd://h/?sockt=/s", "parameter sockt"),
        ("nbds://h/?tls-priority=NORMAL", "parameter tls-priority"),
        ("nbds://h/?tls-psk-file=/psk", "pre-shared keys"),
        ("nbds://h/?tls-username=me", "pre-shared keys"),
        ("nbds://h/?tls-type=psk", "pre-shared keys"),
        ("nbds://h/?tls-type=anon", "without certificates"),
        ("nbds://h/?tls-type=x", "only x509"),
        ("nbds://h/?tls-certificates=", "name a folder"),
        ("nbds://h/?tls-certificates=a%00b", "name a folder"),
        ("nbds://h/?tls-hostname=", "tls-hostname is"),
        ("nbds://h/?tls-hostname=a%20b", "tls-hostname is"),
        ("nbds://h/?tls-hostname=a&tls-hostname=b", "twice"),
        ("nbds://h/?tls-verify-peer", "1 or 0"),
        ("nbd://h/?tls-verify-peer=1", "write nbds"),
        ("nbd+unix:///?socket=s&tls-certificates=/tls", "write nbds"),
        ("nbd://h/?tls-type=x509", "write nbds"),
        ("nbd://h/?socket=/s", "a host has no socket"),
        ("nbd+unix:///e", "name the socket"),
        ("nbd+unix:///e?socket=", "name the socket"),
        ("nbd+unix:///?socket=/a&socket=/b", "name the socket"),
        ("nbd+unix://run/s?socket=/s", "three slashes"),
        ("nbd:///e", "name a host"),
        ("nbd://::1/e", "in brackets"),
        ("nbd://[::1/e", "in brackets"),
        ("nbd://[::1]x/e", "in brackets"),
        ("nbd://[h]/e", "in brackets"),
        ("nbd://h:0/", "a port"),
        ("nbd://h:65536/", "a port"),
        ("nbd://h:+1/", "a port"),
        ("nbd://h/%", "two hexadecimal"),
        ("nbd://h/%4g", "two hexadecimal"),
        ("nbd://h/%ff", "UTF-8"),
        ("nbd://h/%00", "UTF-8"),
        ("nbd://h%2Fx/", "name a host"),
    ] {
        let error = text.parse::<Uri>().unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(
        format!("nbd://h/{}", "x".repeat(4097))
            .parse::<Uri>()
            .is_err()
    );
}

#[test]
fn paths_are_no_uris() {
    for path in [
        "disk.img",
        "/nbd/x",
        "./nbd://h",
        "nbd",
        "nbd:x",
        "nbd:x:",
        "nbd:unix",
        "nbd:x:e",
        "nbd:/folder/x:1",
        "nbd::1",
        "./nbd:h:1",
        "http://h/",
    ] {
        assert!(!Uri::is_meant(path), "{path}");
    }
    for uri in [
        "nbd://",
        "NBDS://x",
        "nbd+vsock://1",
        "nbd+unix://",
        "nbd:h:1",
        "nbd:unix:s:exportname=/e",
    ] {
        assert!(Uri::is_meant(uri), "{uri}");
    }
}
