//! Requests to a site, and its answers.

use std::io::IoSliceMut;

use scrim_serve::files::Patience;
use scrim_serve::http::{Answer, Fields, Method, Piece, Request};

/// Builds a GET request for `target`.
#[must_use]
pub fn get<'a>(target: &'a str, fields: Fields<'a>) -> Request<'a> {
    Request {
        method: Method::Get,
        method_name: "GET",
        target,
        scheme: None,
        host: Some("example.org"),
        fields,
    }
}

/// Returns the only field of this name.
///
/// # Panics
/// Panics if the answer has two such fields.
#[must_use]
pub fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let shared = answer.shared.iter().flat_map(|shared| shared.iter());
    let mut values = shared.chain(&answer.fields).filter(|(it, _)| it == name);
    let value = values
        .next()
        .map(|(_, value)| value.to_str().expect("fields are text"));
    assert!(values.next().is_none(), "{name} twice");
    value
}

/// Reads the content of an answer.
///
/// # Panics
/// Panics if the content is shorter than the answer said.
pub fn content(answer: &mut Answer) -> Vec<u8> {
    let length = answer.body.length();
    let mut content = Vec::new();
    while let Some(piece) = answer.body.front() {
        let count = piece.length();
        match piece {
            Piece::Bytes(bytes) => content.extend_from_slice(bytes),
            Piece::File(file, range) => {
                let mut buffer = vec![0; usize::try_from(count).expect("files are small")];
                let read = file
                    .read_at(
                        &mut [IoSliceMut::new(&mut buffer)],
                        range.start,
                        Patience::Wait,
                    )
                    .expect("files can be read");
                assert_eq!(read, buffer.len());
                content.extend_from_slice(&buffer);
            }
        }
        answer.body.advance(count);
    }
    assert_eq!(content.len() as u64, length);
    content
}
