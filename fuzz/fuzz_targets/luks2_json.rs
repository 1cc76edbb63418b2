//! The input is the JSON text of both copies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_fuzz::header::{COPY, DEVICE, assert_printable, assert_repairs, exercise, luks2};
use scrim_luks::{CopyFault, Header, HeaderError};

fuzz_target!(|json: &[u8]| {
    let mut area = luks2(json);
    match Header::parse(&area, DEVICE) {
        Ok(parsed) => {
            assert!(parsed.repair.is_none());
            exercise(&parsed);
            // A repair writes the secondary from the primary.
            area[COPY..].fill(0);
            match Header::parse(&area, DEVICE) {
                Ok(parsed) => assert_repairs(&area, &parsed),
                // The text happens to have the signature of another format at its offset.
                Err(HeaderError::Overwritten { .. }) => {}
                Err(error) => panic!("the primary is whole: {error}"),
            }
        }
        Err(error) => {
            assert_printable(&error.to_string());
            let HeaderError::Luks2 {
                primary: CopyFault::Json(primary),
                secondary,
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!(
                secondary,
                Some(CopyFault::Json(primary)),
                "the copies are alike"
            );
        }
    }
});
