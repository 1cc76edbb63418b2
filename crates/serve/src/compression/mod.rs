//! Compression of files while they are served. A blocking thread compresses a file, and the result stays in memory for
//! all workers. An answer without a coding is always possible, so a shortage of threads or memory delays no request.

mod encoder;
mod results;

pub(crate) use encoder::compress;
pub(crate) use results::{Key, Lookup, Results};
