//! The input is what may name an image of a Ceph cluster.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrim_backend::RbdName;

fuzz_target!(|text: &str| {
    match text.parse::<RbdName>() {
        Ok(name) => {
            assert!(RbdName::is_meant(text));
            let printed = name.to_string();
            assert_eq!(printed.parse(), Ok(name), "{printed}");
            // One line in a table.
            assert!(!printed.contains(char::is_control));
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
});
