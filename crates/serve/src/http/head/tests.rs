use super::*;

fn parse(text: &str) -> Result<Option<Head<'_>>, Refusal> {
    Head::parse(text.as_bytes(), &HeadLimits::default())
}

fn whole(text: &str) -> Head<'_> {
    parse(text)
        .unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"))
        .unwrap_or_else(|| panic!("{text:?} is not whole"))
}

/// A GET request with these fields after its `Host`.
fn with(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_request_says_what_it_asks_for() {
    let text = "GET /a%20b?c=d HTTP/1.1\r\nhost: example.org:8443\r\nRANGE: bytes=0-1\r\n\
        If-None-Match: \"a\"\r\nif-none-match: \"b\"\r\nUser-Agent: x\u{ff}\r\nX: y\r\n\r\nGET";
    let head = whole(text);
    let request = &head.request;
    assert_eq!((request.method, request.method_name), (Method::Get, "GET"));
    assert_eq!(request.target, "/a%20b?c=d");
    assert_eq!(request.host, Some("example.org:8443"));
    assert_eq!(request.fields.range, Some(&b"bytes=0-1"[..]));
    assert_eq!(request.fields.user_agent, Some("x\u{ff}".as_bytes()));
    let tags = request.fields.if_none_match.as_deref();
    assert_eq!(tags, Some(&b"\"a\", \"b\""[..]));
    assert_eq!(&text[head.length..], "GET");
    assert_eq!(head.framing, Framing::None);
    assert!(head.keep_alive && !head.expects_continue && !head.is_old);
}

#[test]
fn a_head_is_incomplete_until_its_last_byte() {
    let text = "\r\nHEAD /x HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n";
    for end in 0..text.len() {
        assert!(parse(&text[..end]).expect("not refused").is_none(), "{end}");
    }
    assert_eq!(whole(text).length, text.len());
}

#[test]
fn a_connection_is_kept_as_both_versions_say() {
    for (version, connection, kept) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Keep-Alive\r\n", true),
        ("1.1", "Connection: x, Close\r\n", false),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "Connection: x\r\nConnection: keep-alive\r\n", true),
        ("1.0", "Connection: close\r\n", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
        let head = whole(&text);
        assert_eq!(head.keep_alive, kept, "{version} {connection}");
        assert_eq!(head.is_old, version == "1.0");
    }
}

#[test]
fn content_has_a_length_or_comes_in_chunks() {
    for (fields, framing) in [
        ("Content-Length: 0\r\n", Framing::None),
        ("Content-Length: 5\r\n", Framing::Length(5)),
        ("Content-Length:\t007 \r\n", Framing::Length(7)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
        ("transfer-encoding: CHUNKED\r\n", Framing::Chunked),
    ] {
        assert_eq!(whole(&with(fields)).framing, framing, "{fields}");
    }
    assert!(whole(&with("Expect: 100-Continue\r\nContent-Length: 5\r\n")).expects_continue);
    let old = "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n";
    assert!(!whole(old).expects_continue);
}

/// Fields, and why a request that has them is refused.
const DOUBTFUL: &[(&str, Refusal)] = &[
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        Refusal::ContentLength,
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        Refusal::ContentLength,
    ),
    (
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        Refusal::ContentLength,
    ),
    (
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        Refusal::ContentLength,
    ),
    ("Content-Length: 5, 5\r\n", Refusal::ContentLength),
    ("Content-Length: +5\r\n", Refusal::ContentLength),
    ("Content-Length: -5\r\n", Refusal::ContentLength),
    ("Content-Length: 0x5\r\n", Refusal::ContentLength),
    ("Content-Length: 5 0\r\n", Refusal::ContentLength),
    ("Content-Length: 5.0\r\n", Refusal::ContentLength),
    ("Content-Length: \r\n", Refusal::ContentLength),
    ("Content-Length: \u{665}\r\n", Refusal::ContentLength),
    (
        "Content-Length: 18446744073709551616\r\n",
        Refusal::ContentTooLarge,
    ),
    ("Transfer-Encoding: \r\n", Refusal::TransferEncoding),
    ("Transfer-Encoding: identity\r\n", Refusal::TransferEncoding),
    ("Transfer-Encoding: gzip\r\n", Refusal::TransferEncoding),
    ("Transfer-Encoding: xchunked\r\n", Refusal::TransferEncoding),
    (
        "Transfer-Encoding: chunked;q=1\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: \"chunked\"\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: chunked, gzip\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: chunked, chunked\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: , chunked\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        Refusal::TransferEncoding,
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        Refusal::TransferEncoding,
    ),
    ("Transfer-Encoding: \u{b}chunked\r\n", Refusal::Malformed),
    (
        "Transfer-Encoding: gzip, chunked\r\n",
        Refusal::UnknownCoding,
    ),
    ("Expect: 200-ok\r\n", Refusal::Expectation),
    ("Range: a\r\nRange: b\r\n", Refusal::Doubled),
    ("If-Range: a\r\nif-range: b\r\n", Refusal::Doubled),
    // A folded line, a space before the colon, no name, no colon.
    ("X: a\r\n b\r\n", Refusal::Malformed),
    ("X: a\r\n\tb\r\n", Refusal::Malformed),
    (" X: a\r\n", Refusal::Malformed),
    ("X : a\r\n", Refusal::Malformed),
    ("Content-Length : 5\r\n", Refusal::Malformed),
    ("Content-Length\t: 5\r\n", Refusal::Malformed),
    (": a\r\n", Refusal::Malformed),
    ("X\r\n", Refusal::Malformed),
    ("X(: a\r\n", Refusal::Malformed),
    ("X\u{e4}: a\r\n", Refusal::Malformed),
    // Bytes that have no place in a field.
    ("X: a\0b\r\n", Refusal::Malformed),
    ("X: a\x01b\r\n", Refusal::Malformed),
    ("X: a\x7fb\r\n", Refusal::Malformed),
    ("X\0: a\r\n", Refusal::Malformed),
    // Ends of lines.
    ("X: a\n", Refusal::LineEnding),
    ("X: a\nContent-Length: 5\r\n", Refusal::LineEnding),
    ("X: a\rContent-Length: 5\r\n", Refusal::Malformed),
    ("X: a\r\r\n", Refusal::Malformed),
    ("\rX: a\r\n", Refusal::Malformed),
];

#[test]
fn a_request_that_could_be_read_in_two_ways_is_refused() {
    for &(fields, refusal) in DOUBTFUL {
        assert_eq!(parse(&with(fields)).err(), Some(refusal), "{fields:?}");
    }
    for text in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
    ] {
        assert_eq!(parse(text).err(), Some(Refusal::LineEnding), "{text:?}");
    }
    let old = "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(old).err(), Some(Refusal::TransferEncoding));
}

#[test]
fn a_request_names_one_host() {
    for (fields, is_fine) in [
        ("Host: a\r\n", true),
        ("Host: a:1\r\n", true),
        ("", false),
        ("Host: a\r\nHost: a\r\n", false),
        ("Host: a\r\nHost: b\r\n", false),
        ("Host: \r\n", false),
        ("Host: a b\r\n", false),
        ("Host: a, b\r\n", false),
        ("Host: a/b\r\n", false),
        ("Host: u@a\r\n", false),
        ("Host: a:b\r\n", false),
        ("Host: \u{e4}\r\n", false),
    ] {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(parse(&text).is_ok(), is_fine, "{fields:?}");
    }
    assert_eq!(whole("GET / HTTP/1.0\r\n\r\n").request.host, None);
    assert_eq!(
        parse("GET / HTTP/1.0\r\nHost: a b\r\n\r\n").err(),
        Some(Refusal::Host)
    );
}

#[test]
fn a_target_is_a_path_or_an_absolute_one() {
    for (line, target, host) in [
        ("GET /", "/", "h"),
        ("GET //x", "//x", "h"),
        ("GET /\u{e4}?\u{f6}", "/\u{e4}?\u{f6}", "h"),
        ("GET http://a/b?c", "/b?c", "a"),
        ("GET HTTPS://a:1/b", "/b", "a:1"),
        ("GET https://a", "/", "a"),
        ("GET https://a?b", "/", "a"),
        ("OPTIONS *", "*", "h"),
        ("OPTIONS /", "/", "h"),
        ("DELETE /a", "/a", "h"),
    ] {
        let text = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = whole(&text);
        assert_eq!(head.request.target, target, "{line}");
        assert_eq!(head.request.host, Some(host), "{line}");
        let scheme = match line {
            _ if line.contains("http:") => Some(Scheme::Http),
            _ if line.to_ascii_lowercase().contains("https:") => Some(Scheme::Https),
            _ => None,
        };
        assert_eq!(head.request.scheme, scheme, "{line}");
    }
    for (line, refusal) in [
        ("GET *", Refusal::Target),
        ("OPTIONS **", Refusal::Target),
        ("GET a", Refusal::Target),
        ("GET a:443", Refusal::Target),
        ("GET /a#b", Refusal::Target),
        ("GET ftp://a/", Refusal::Scheme),
        ("GET wss://a/", Refusal::Scheme),
        ("GET https:/a", Refusal::Target),
        ("GET https://", Refusal::Host),
        ("GET https:///a", Refusal::Host),
        ("GET https://u@a/", Refusal::Host),
        ("GET https://a#b", Refusal::Host),
        ("CONNECT a:443", Refusal::Connect),
    ] {
        let text = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(parse(&text).err(), Some(refusal), "{line}");
    }
}

#[test]
fn a_later_version_of_http_1_is_read_as_the_newest_known() {
    for (line, read) in [
        ("GET / HTTP/1.2\r\n", "GET / HTTP/1.1\r\n"),
        ("\r\nGET / HTTP/1.9", "\r\nGET / HTTP/1.1"),
        ("GET /HTTP/1.2 HTTP/1.7\r\n", "GET /HTTP/1.2 HTTP/1.1\r\n"),
    ] {
        let mut bytes = line.as_bytes().to_vec();
        assert_eq!(
            Head::parse(&bytes, &HeadLimits::default()).err(),
            Some(Refusal::Version)
        );
        assert!(as_newest_known(&mut bytes));
        assert_eq!(bytes, read.as_bytes());
        assert!(!as_newest_known(&mut bytes));
        assert!(Head::parse(&bytes, &HeadLimits::default()).is_ok());
    }
    for line in [
        "",
        "\r\n",
        "GET / HTTP/1.0\r\n",
        "GET / HTTP/1.x\r\n",
        "GET / HTTP/2.0\r\n",
        "GET / HTTP/0.9\r\n",
        "GET HTTP/1.2\r\n",
        "GET / http/1.2\r\n",
        "GET / HTTP/1.",
    ] {
        let mut bytes = line.as_bytes().to_vec();
        assert!(!as_newest_known(&mut bytes), "{line}");
        assert_eq!(bytes, line.as_bytes());
    }
    // A minor version has one digit.
    let mut bytes = b"GET / HTTP/1.20\r\nHost: a\r\n\r\n".to_vec();
    assert!(as_newest_known(&mut bytes));
    let refused = Head::parse(&bytes, &HeadLimits::default()).err();
    assert_eq!(refused, Some(Refusal::Malformed));
}

#[test]
fn methods_that_http_has_are_told_from_others() {
    for (name, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::Options),
        ("POST", Method::Other),
        ("TRACE", Method::Other),
        ("PROPFIND", Method::Unknown),
        ("get", Method::Unknown),
    ] {
        assert_eq!(Method::named(name), method, "{name}");
    }
}

#[test]
fn what_is_no_request_line_is_refused_at_once() {
    for (text, refusal) in [
        ("\x16\x03\x01\x02", Refusal::Malformed),
        ("GET\t/ HTTP/1.1\r\n", Refusal::Malformed),
        ("GET / HTTP/2.0\r\n", Refusal::Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refusal::Version),
        ("GET / HTTP/1.2\r\n", Refusal::Version),
        ("GET / http/1.1\r\n", Refusal::Version),
        ("GET / \r\n", Refusal::Version),
        ("GET /\0 HTTP/1.1\r\n", Refusal::Malformed),
        ("GET /\x7f HTTP/1.1\r\n", Refusal::Malformed),
        ("G(T / HTTP/1.1\r\n", Refusal::Malformed),
        (" GET / HTTP/1.1\r\n", Refusal::Malformed),
    ] {
        assert_eq!(parse(text).err(), Some(refusal), "{text:?}");
    }
}

#[test]
fn a_head_is_limited_whether_it_is_whole_or_not() {
    let limits = HeadLimits {
        head: 400,
        target: 100,
        fields: 3,
    };
    let parse = |text: &str| Head::parse(text.as_bytes(), &limits).map(|head| head.is_some());
    let target = |length: usize| {
        format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
            "a".repeat(length - 1)
        )
    };
    assert_eq!(parse(&target(100)), Ok(true));
    assert_eq!(parse(&target(101)), Err(Refusal::TargetTooLong));
    assert_eq!(parse(&target(9000)), Err(Refusal::TargetTooLong));
    assert_eq!(parse(&"a".repeat(9000)), Err(Refusal::TargetTooLong));
    assert_eq!(parse(&target(9000)[..8000]), Err(Refusal::TargetTooLong));
    let fields = |count: usize| with(&"X: y\r\n".repeat(count));
    assert_eq!(parse(&fields(2)), Ok(true));
    assert_eq!(parse(&fields(3)), Err(Refusal::HeadTooLarge));
    let long = with(&format!("X: {}\r\n", "y".repeat(400)));
    assert_eq!(parse(&long), Err(Refusal::HeadTooLarge));
    assert_eq!(parse(&long[..350]), Ok(false));
    assert_eq!(parse(&long[..400]), Err(Refusal::HeadTooLarge));
    assert!(parse(&"\r\n".repeat(200)).is_err());
}
