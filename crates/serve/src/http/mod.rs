//! HTTP as both of its versions here mean it: a [`Request`] and an [`Answer`], without I/O.

mod answer;
mod request;

pub use answer::{Answer, Body, Field, Piece};
pub use request::{Fields, Method, Request};
