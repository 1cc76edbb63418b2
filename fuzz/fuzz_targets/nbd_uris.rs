//! The input is what may be an NBD URI.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_nbd::Uri;

fuzz_target!(|text: &str| {
    match text.parse::<Uri>() {
        Ok(uri) => {
            assert!(Uri::is_meant(text));
            let printed = uri.to_string();
            assert_eq!(printed.parse(), Ok(uri), "{printed}");
            // One word in a table and a line.
            assert!(!printed.contains(|c: char| c.is_whitespace() || c.is_control()));
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
