//! Things that are worked on in groups.

/// Takes `count` things in groups of 8 and, of those that are left over, of 4, 2 and 1. The body is
/// compiled for each, with its size as a constant, and `at` tells how many things came before.
macro_rules! in_groups {
    ($count:expr, $at:ident, $lanes:ident => $body:block) => {{
        let count: usize = $count;
        let whole = count / 8 * 8;
        for $at in (0..whole).step_by(8) {
            const $lanes: usize = 8;
            $body
        }
        if count & 4 != 0 {
            const $lanes: usize = 4;
            let $at = whole;
            $body
        }
        if count & 2 != 0 {
            const $lanes: usize = 2;
            let $at = whole + (count & 4);
            $body
        }
        if count & 1 != 0 {
            const $lanes: usize = 1;
            let $at = whole + (count & 6);
            $body
        }
    }};
}

pub(super) use in_groups;
