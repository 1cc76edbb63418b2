//! Figures as programs and people read them: Prometheus's text format, and sizes in words.

#![forbid(unsafe_code)]

pub mod prometheus;
mod size;

pub use size::Size;
