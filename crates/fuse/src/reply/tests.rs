use super::*;
use crate::attributes::FileKind;
use crate::wire::init;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

const FILE: Attributes = Attributes {
    inode: 2,
    size: 3,
    blocks: 4,
    accessed: Time {
        seconds: 5,
        nanoseconds: 8,
    },
    modified: Time {
        seconds: -6,
        nanoseconds: 9,
    },
    changed: Time {
        seconds: 7,
        nanoseconds: 10,
    },
    kind: FileKind::Regular,
    permissions: 0o600,
    links: 12,
    uid: 13,
    gid: 14,
    device: 15,
    block_size: 16,
};

#[test]
fn a_header_has_length_error_and_number() {
    assert_eq!(u32_at(&header(9, 100), 0), 116);
    assert_eq!(u32_at(&header(9, 100), 4), 0);
    assert_eq!(u64_at(&header(9, 100), 8), 9);
    let failed = error(7, Errno::IO);
    assert_eq!(u32_at(&failed, 0), 16);
    assert_eq!(u32_at(&failed, 4).cast_signed(), -5);
    assert_eq!(u64_at(&failed, 8), 7);
}

#[test]
fn attributes_lie_at_the_offsets_of_the_kernel() {
    let reply = attributes(1, &FILE, Duration::from_millis(1500));
    assert_eq!(u32_at(&reply, 0) as usize, reply.len());
    assert_eq!(reply.len(), 16 + 104);
    assert_eq!((u64_at(&reply, 16), u32_at(&reply, 24)), (1, 500_000_000));
    let attr = &reply[32..];
    for (index, expected) in [2, 3, 4, 5, 6u64.wrapping_neg(), 7].into_iter().enumerate() {
        assert_eq!(u64_at(attr, index * 8), expected);
    }
    let numbers = [8, 9, 10, 0o100_600, 12, 13, 14, 15, 16, 0];
    for (index, expected) in numbers.into_iter().enumerate() {
        assert_eq!(u32_at(attr, 48 + index * 4), expected);
    }
}

#[test]
fn an_entry_has_its_node_before_its_attributes() {
    let found = Entry {
        node: 20,
        generation: 21,
        attributes: FILE,
    };
    let reply = entry(1, &found, Duration::from_secs(3));
    assert_eq!(u32_at(&reply, 0), 16 + 128);
    assert_eq!((u64_at(&reply, 16), u64_at(&reply, 24)), (20, 21));
    assert_eq!((u64_at(&reply, 32), u64_at(&reply, 40)), (3, 3));
    assert_eq!(u64_at(&reply, 56), 2, "the inode");
    let missing = no_entry(1, Duration::from_secs(3));
    assert_eq!((u64_at(&missing, 16), u64_at(&missing, 32)), (0, 3));
}

#[test]
fn other_replies_have_the_lengths_of_the_kernel() {
    let open = opened(1, 5, 0x41);
    assert_eq!((open.len(), u64_at(&open, 16)), (32, 5));
    assert_eq!(u32_at(&open, 24), 0x41);
    let write = written(1, 4096);
    assert_eq!((write.len(), u32_at(&write, 16)), (24, 4096));
    let seek = found(1, 8192);
    assert_eq!((seek.len(), u64_at(&seek, 16)), (24, 8192));
    let of = Statistics {
        block_size: 6,
        blocks: 1,
        free_blocks: 2,
        available_blocks: 3,
        files: 4,
        free_files: 5,
        name_max: 7,
    };
    let state = statistics(1, &of);
    assert_eq!(state.len(), 96);
    for index in 0..5 {
        assert_eq!(u64_at(&state, 16 + index * 8), index as u64 + 1);
    }
    assert_eq!([56, 60, 64, 68].map(|at| u32_at(&state, at)), [6, 7, 6, 0]);
}

const WISHES: Wishes = Wishes {
    flags: init::MAX_PAGES | init::ASYNC_READ | init::DIRECT_IO_ALLOW_MMAP,
    max_write: 1 << 20,
    page_size: 4096,
    max_background: 64,
};

fn offer(major: u32, minor: u32, flags: u64) -> Init {
    Init {
        major,
        minor,
        max_readahead: 1234,
        flags,
    }
}

#[test]
fn only_flags_that_are_offered_are_agreed() {
    let all = offer(7, 99, u64::MAX);
    let Agreement::Agreed(terms, reply) = agree(3, &all, &WISHES) else {
        panic!("not agreed");
    };
    assert_eq!((terms.minor, terms.flags), (NEWEST_MINOR, WISHES.flags));
    assert_eq!(reply.len(), 80);
    let fields = [16, 20, 24, 28].map(|at| u32_at(&reply, at));
    assert_eq!(fields, [7, NEWEST_MINOR, 1234, 1 << 22 | 1]);
    assert_eq!(u32_at(&reply, 32), 64 | 48 << 16);
    assert_eq!(u32_at(&reply, 36), 1 << 20);
    assert_eq!(u32_at(&reply, 40), 1);
    assert_eq!(u32_at(&reply, 44), 256);
    assert_eq!(u32_at(&reply, 48), 1 << 4);

    let few = offer(7, 31, init::MAX_PAGES);
    let Agreement::Agreed(terms, _) = agree(3, &few, &WISHES) else {
        panic!("not agreed");
    };
    assert_eq!((terms.minor, terms.flags), (31, init::MAX_PAGES));
}

#[test]
fn another_major_version_begins_again_or_is_refused() {
    let newer = agree(3, &offer(8, 0, 0), &WISHES);
    let Agreement::Older(reply) = newer else {
        panic!("{newer:?}");
    };
    assert_eq!(u32_at(&reply, 16), 7);
    for (major, minor) in [(7, 30), (6, 50), (0, 0)] {
        let old = agree(3, &offer(major, minor, u64::MAX), &WISHES);
        assert_eq!(old, Agreement::TooOld);
    }
}
