//! Figures as programs and people read them: Prometheus's text format, sizes in words, and dates.

#![forbid(unsafe_code)]

pub mod prometheus;
mod size;
pub mod time;

pub use size::Size;
