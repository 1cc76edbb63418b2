//! Carries files to a browser: HTTPS, in user space.
//!
//! [`http`] is what a request says and what an answer is, whatever version of the protocol carries them;
//! [`site`] is what is served.

#![forbid(unsafe_code)]

pub mod http;
pub mod site;
