//! Blocks of metadata, some of which are kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of metadata that are kept.
const KEPT: usize = 1 << 20;

/// Blocks by their numbers; the one that was used least recently goes first.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    blocks: HashMap<u64, (u64, Arc<[u8]>)>,
    bytes: usize,
    /// Number of uses so far: the clock of their order.
    clock: u64,
}

impl Blocks {
    pub(crate) fn get(&self, number: u64) -> Option<Arc<[u8]>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        let (used, block) = kept.blocks.get_mut(&number)?;
        *used = now;
        Some(Arc::clone(block))
    }

    pub(crate) fn put(&self, number: u64, block: &Arc<[u8]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        while kept.bytes + block.len() > KEPT {
            let oldest = kept.blocks.iter().min_by_key(|(_, (used, _))| *used);
            let Some(number) = oldest.map(|(&number, _)| number) else {
                break;
            };
            if let Some((_, gone)) = kept.blocks.remove(&number) {
                kept.bytes -= gone.len();
            }
        }
        kept.bytes += block.len();
        if let Some((_, before)) = kept.blocks.insert(number, (now, Arc::clone(block))) {
            kept.bytes -= before.len();
        }
    }
}
