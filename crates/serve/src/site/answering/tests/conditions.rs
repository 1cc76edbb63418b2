//! Conditions and ranges of whole requests.

use super::*;

/// A file of ten digits, asked for with these fields.
fn ask(fixture: &mut Fixture, fields: Fields<'_>) -> Answer {
    fixture.ask(&Request {
        fields,
        ..request("/digits")
    })
}

/// Fields, and the status that they have for an answer.
type Case<'a> = (&'a [(&'a str, &'a [u8])], u16);

const DATE: &[u8] = SETTLED_DATE.as_bytes();

fn fields_of<'a>(list: &[(&str, &'a [u8])]) -> Fields<'a> {
    let mut fields = Fields::default();
    for &(name, value) in list {
        match name {
            "range" => fields.range = Some(value),
            "if-range" => fields.if_range = Some(value),
            "if-match" => fields.if_match = Some(value.into()),
            "if-none-match" => fields.if_none_match = Some(value.into()),
            "if-modified-since" => fields.if_modified_since = Some(value),
            "if-unmodified-since" => fields.if_unmodified_since = Some(value),
            name => panic!("{name} is no condition"),
        }
    }
    fields
}

fn digits() -> Fixture {
    let fixture = Fixture::new();
    fixture.put("digits", "0123456789");
    fixture
}

#[test]
fn a_part_is_answered_as_a_part() {
    let mut fixture = digits();
    for (range, status, said, text) in [
        ("bytes=2-4", 206, Some("bytes 2-4/10"), "234"),
        ("bytes=8-99", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=-3", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=0-", 206, Some("bytes 0-9/10"), "0123456789"),
        ("bytes=0-1,1-3", 206, Some("bytes 0-3/10"), "0123"),
        ("bytes=5-2", 200, None, "0123456789"),
        ("lines=1-2", 200, None, "0123456789"),
        ("bytes=10-", 416, Some("bytes */10"), ""),
    ] {
        let range = Some(range.as_bytes());
        let mut answer = ask(
            &mut fixture,
            Fields {
                range,
                ..Fields::default()
            },
        );
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(field(&answer, "content-range"), said);
        if status != 416 {
            assert!(field(&answer, "etag").is_some());
            assert_eq!(content(&mut answer), text);
        }
    }
}

#[test]
fn several_parts_are_one_answer_with_a_boundary() {
    let mut fixture = digits();
    let range = Some(&b"bytes=0-0,-1,4-5"[..]);
    let mut answer = ask(
        &mut fixture,
        Fields {
            range,
            ..Fields::default()
        },
    );
    assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(field(&answer, "content-range"), None);
    let kind = field(&answer, "content-type").expect("a type").to_owned();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("a boundary");
    assert_eq!(boundary.len(), 32);
    let length = answer.body.length();
    let text = content(&mut answer);
    assert_eq!(text.len() as u64, length);
    let part = |said: &str, text: &str| {
        format!(
            "--{boundary}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {said}/10\r\n\r\n{text}\r\n"
        )
    };
    let parts = [part("0-0", "0"), part("9-9", "9"), part("4-5", "45")];
    assert_eq!(text, format!("{}--{boundary}--\r\n", parts.concat()));
    let again = ask(
        &mut fixture,
        Fields {
            range,
            ..Fields::default()
        },
    );
    assert_ne!(field(&again, "content-type"), Some(&*kind));
}

#[test]
fn only_get_has_ranges() {
    let mut fixture = digits();
    let fields = Fields {
        range: Some(b"bytes=0-0"),
        ..Fields::default()
    };
    let answer = fixture.ask(&Request {
        method: Method::Head,
        fields,
        ..request("/digits")
    });
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body.length(), 10);
}

#[test]
fn what_the_client_has_is_not_sent_again() {
    let mut fixture = digits();
    let answer = fixture.get("/digits");
    let tag = field(&answer, "etag").expect("a tag").to_owned();
    let tag = tag.as_bytes();
    let cases: &[Case<'_>] = &[
        (&[("if-none-match", tag)], 304),
        (&[("if-none-match", b"*")], 304),
        (&[("if-none-match", b"\"x\"")], 200),
        (&[("if-modified-since", DATE)], 304),
        (&[("if-unmodified-since", DATE)], 200),
        (&[("if-match", tag)], 200),
        (&[("if-match", b"\"x\"")], 412),
        // A range counts only when all conditions have been met.
        (&[("if-none-match", tag), ("range", b"bytes=0-0")], 304),
        (&[("if-match", b"\"x\""), ("range", b"bytes=0-0")], 412),
        (&[("if-range", tag), ("range", b"bytes=0-0")], 206),
        (&[("if-range", DATE), ("range", b"bytes=0-0")], 206),
        (&[("if-range", b"\"x\""), ("range", b"bytes=0-0")], 200),
        (&[("if-range", b"\"x\""), ("range", b"bytes=99-")], 200),
    ];
    for &(list, status) in cases {
        let fields = fields_of(list);
        let answer = ask(&mut fixture, fields.clone());
        assert_eq!(answer.status.as_u16(), status, "{fields:?}");
        if status == 304 {
            assert_eq!(field(&answer, "etag").map(str::as_bytes), Some(tag));
            assert_eq!(field(&answer, "last-modified"), Some(SETTLED_DATE));
            assert_eq!(field(&answer, "content-type"), None);
            assert_eq!(answer.body.length(), 10);
        }
    }
}

#[test]
fn a_file_that_has_just_changed_has_a_weak_tag_and_no_parts_of_it_are_continued() {
    let mut fixture = digits();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a time");
    let strong = |tag: &str| tag.starts_with('"');
    for (changed, is_strong) in [
        (now, false),
        (now - Duration::from_secs(3), true),
        (now + Duration::from_secs(3600), false),
    ] {
        fixture.touch("digits", changed);
        let answer = fixture.get("/digits");
        let tag = field(&answer, "etag").expect("a tag").to_owned();
        assert_eq!(strong(&tag), is_strong, "{tag}");
        // A change that is still to come has no date.
        let has_date = field(&answer, "last-modified").is_some();
        assert_eq!(has_date, changed <= now);
        let fields = Fields {
            range: Some(b"bytes=0-0"),
            if_range: Some(tag.as_bytes()),
            ..Fields::default()
        };
        let status = if is_strong { 206 } else { 200 };
        assert_eq!(ask(&mut fixture, fields).status.as_u16(), status);
    }
}

#[test]
fn parts_of_encoded_content_are_parts_of_what_is_sent() {
    let mut fixture = digits();
    fixture.put("digits.gz", "abcdef");
    let fields = |range| Fields {
        accept_encoding: Some((&b"gzip"[..]).into()),
        range: Some(range),
        ..Fields::default()
    };
    let mut answer = ask(&mut fixture, fields(b"bytes=1-2"));
    assert_eq!(field(&answer, "content-range"), Some("bytes 1-2/6"));
    assert_eq!(field(&answer, "content-encoding"), Some("gzip"));
    assert_eq!(content(&mut answer), "bc");
    assert_eq!(
        ask(&mut fixture, fields(b"bytes=0-0,5-5")).status,
        StatusCode::OK
    );
}

/// The coding that is sent is the selected representation, and its tag alone fits `If-Match` (RFC 9110, 13.1.1).
#[test]
fn if_match_names_the_coding_that_is_sent() {
    let mut fixture = digits();
    fixture.put("text.txt", &"text ".repeat(1000));
    fixture.settings.compress = vec![Coding::Gzip];
    fixture.put("digits.gz", "abcdef");
    let plain = fixture.get("/digits");
    let plain = field(&plain, "etag").expect("a tag").to_owned();
    let gzip = |if_match: Option<&[u8]>| Fields {
        accept_encoding: Some((&b"gzip"[..]).into()),
        if_match: if_match.map(|tags| tags.to_vec().into()),
        ..Fields::default()
    };
    let coded = ask(&mut fixture, gzip(None));
    assert_eq!(field(&coded, "content-encoding"), Some("gzip"));
    let coded = field(&coded, "etag").expect("a tag").to_owned();
    let weak = format!("W/{coded}");
    for (tag, status) in [(&coded, 200), (&plain, 412), (&weak, 412)] {
        let answer = ask(&mut fixture, gzip(Some(tag.as_bytes())));
        assert_eq!(answer.status.as_u16(), status, "{tag}");
    }
    // Content that is compressed for the answer: its tag selects it, and the file's own tag the file as it is.
    let get = |fields| Request {
        fields,
        ..request("/text.txt")
    };
    let own = fixture.get("/text.txt");
    let own = field(&own, "etag").expect("a tag").to_owned();
    let compressed = format!("{}.gz\"", own.trim_end_matches('"'));
    let site = fixture.site.take().expect("a site");
    for (tag, is_compressed) in [(&compressed, true), (&own, false)] {
        let asked = get(gzip(Some(tag.as_bytes())));
        match site.cached(&asked, &mut fixture.cache).or_else(|| {
            let found = site.find(asked.target, Form::Html);
            Some(site.answer_found(&asked, found, &mut fixture.cache))
        }) {
            Some(Reply::Compress(reply)) => {
                assert!(is_compressed, "{tag}");
                assert_eq!(reply.tag(), compressed.as_bytes());
            }
            Some(Reply::Answer(answer)) => {
                assert!(!is_compressed, "{tag}");
                assert_eq!(answer.status, StatusCode::OK);
                assert_eq!(field(&answer, "etag"), Some(&*own));
            }
            reply => panic!("{tag}: {reply:?}"),
        }
    }
    for other in [format!("W/{compressed}"), "\"x\"".to_owned()] {
        let answer = site.answer(&get(gzip(Some(other.as_bytes()))), &mut fixture.cache);
        assert_eq!(answer.status, StatusCode::PRECONDITION_FAILED, "{other}");
    }
}
