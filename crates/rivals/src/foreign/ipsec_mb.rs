//! Intel's multi-buffer library, from its `intel-ipsec-mb.h` of versions 1.3 and 2.0: many messages
//! side by side, each in a lane. Of disk sectors it has CBC.
//!
//! Its functions are pointers in `IMB_MGR`, and a message is an `IMB_JOB`. In both versions what is
//! used of them stands at the same places; only the length of a job differs. The places are those of
//! processors with pointers of 8 bytes.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use super::library::{Shared, functions, text};
use crate::restriction::Restriction;
use crate::rival::{Fault, Library, Missing, SetUp, Turns};
use crate::work::{BLOCK, Cipher, Direction, Work};

pub(crate) const IPSEC_MB: Library = Library {
    name: "ipsecmb",
    version: || {
        Restriction::must_be_none()?;
        Ok(format!("intel-ipsec-mb {}", Functions::ready()?.version))
    },
    set_up,
};

/// `IMB_MGR`, whose insides are read at the offsets below.
type Manager = c_void;

type KeyExpansion = unsafe extern "C" fn(*const u8, *mut Schedule, *mut Schedule);
type NextJob = unsafe extern "C" fn(*mut Manager) -> *mut u64;
type SubmitJob = unsafe extern "C" fn(*mut Manager) -> *mut u64;
/// Arguments: manager, jobs, number of jobs, cipher, direction, key length. Returns the number of
/// jobs done.
type SubmitBurst = unsafe extern "C" fn(*mut Manager, *mut u64, u32, c_int, c_int, c_int) -> u32;

/// Bytes from the start of `IMB_MGR` to its fields.
mod manager {
    pub(super) const GET_NEXT_JOB: usize = 64;
    pub(super) const SUBMIT_JOB: usize = 72;
    pub(super) const KEYEXP_256: usize = 128;
    pub(super) const SUBMIT_CIPHER_BURST_NOCHECK: usize = 992;
}

/// Words of 8 bytes from the start of `IMB_JOB` to its fields.
mod job {
    pub(super) const ENC_KEYS: usize = 0;
    pub(super) const DEC_KEYS: usize = 1;
    pub(super) const KEY_LEN: usize = 2;
    pub(super) const SRC: usize = 3;
    pub(super) const DST: usize = 4;
    pub(super) const START: usize = 5;
    pub(super) const LEN: usize = 6;
    pub(super) const IV: usize = 9;
    pub(super) const IV_LEN: usize = 10;
    /// Two fields of 4 bytes in each: status and cipher, direction and hash, order of the two.
    pub(super) const STATUS_CIPHER: usize = 16;
    pub(super) const DIRECTION_HASH: usize = 17;
    pub(super) const ORDER: usize = 18;
}

const CIPHER_CBC: c_int = 1;
const CIPHER_ECB: u64 = 12;
const HASH_NULL: u64 = 8;
const CIPHER_THEN_HASH: u64 = 1;
const ENCRYPT: c_int = 1;
const DECRYPT: c_int = 2;
const KEY_256: c_int = 32;
/// `IMB_MAX_BURST_SIZE` of the C interface.
const BURST: usize = 128;

functions! {
    struct Exports("") {
        fn imb_get_version() -> u32;
        fn imb_get_version_str() -> *const c_char;
        fn alloc_mb_mgr(u64) -> *mut Manager;
        fn free_mb_mgr(*mut Manager);
        fn init_mb_mgr_auto(*mut Manager, *mut c_int);
        fn imb_get_errno(*mut Manager) -> c_int;
    }
}

struct Functions {
    exports: Exports,
    version: String,
    /// Length of a job in words of 8 bytes.
    job_words: usize,
}

impl Functions {
    fn ready() -> Result<Self, Missing> {
        let library = Shared::open(
            &["libIPSec_MB.so.2", "libIPSec_MB.so.1"],
            "install libipsec-mb1, or libipsec-mb2",
        )?;
        let exports = Exports::load(library)?;
        // SAFETY: no arguments; the text is a constant.
        let (number, version) = unsafe {
            (
                (exports.imb_get_version)(),
                text((exports.imb_get_version_str)()),
            )
        };
        let job_words = match number >> 8 {
            0x103 => 25,
            0x200 => 27,
            _ => {
                let why = format!("version {version} is none of 1.3 and 2.0, which are known here");
                return Err(Missing(why));
            }
        };
        Ok(Self {
            exports,
            version,
            job_words,
        })
    }
}

fn set_up(work: Work) -> SetUp {
    let (Ok(functions), Some(essiv)) = (Functions::ready(), work.cipher.essiv_key()) else {
        return Ok(None);
    };
    if work.cipher != Cipher::Aes256CbcEssiv {
        return Ok(None);
    }
    let library = MultiBuffer::new(functions.exports)?;
    let key = work.cipher.key().try_into();
    Ok(Some(Box::new(Sectors {
        keys: library.expand(key.map_err(|_| Fault::of("key"))?),
        essiv: library.expand(&essiv),
        jobs: vec![0; functions.job_words * BURST],
        job_words: functions.job_words,
        library,
        work,
        ivs: Vec::new(),
    })))
}

/// An `IMB_MGR`, set up.
struct MultiBuffer {
    exports: Exports,
    manager: NonNull<Manager>,
}

/// An expanded key of AES-256.
#[repr(C, align(64))]
struct Schedule([u8; 16 * 15]);

struct Keys {
    encrypt: Box<Schedule>,
    decrypt: Box<Schedule>,
}

impl MultiBuffer {
    fn new(exports: Exports) -> Result<Self, Fault> {
        // SAFETY: no flags.
        let manager = NonNull::new(unsafe { (exports.alloc_mb_mgr)(0) });
        let manager = manager.ok_or(Fault::of("alloc_mb_mgr"))?;
        let library = Self { exports, manager };
        // SAFETY: the manager is new; it need not say which code it has chosen.
        let status = unsafe {
            (exports.init_mb_mgr_auto)(manager.as_ptr(), std::ptr::null_mut());
            (exports.imb_get_errno)(manager.as_ptr())
        };
        Fault::unless(0, "init_mb_mgr_auto", status)?;
        Ok(library)
    }

    /// The function whose pointer stands at this offset.
    ///
    /// # Safety
    /// `offset` is that of a pointer to a function of type `F`.
    unsafe fn function<F: Copy>(&self, offset: usize) -> F {
        // SAFETY: the manager was initialised, so that the pointer is set; the caller's promise.
        unsafe { *self.manager.as_ptr().byte_add(offset).cast::<F>() }
    }

    fn expand(&self, key: &[u8; 32]) -> Keys {
        let mut encrypt = Box::new(Schedule([0; _]));
        let mut decrypt = Box::new(Schedule([0; _]));
        // SAFETY: a key of 32 bytes and room for two schedules.
        unsafe {
            let expand: KeyExpansion = self.function(manager::KEYEXP_256);
            expand(key.as_ptr(), &raw mut *encrypt, &raw mut *decrypt);
        }
        Keys { encrypt, decrypt }
    }

    /// Encrypts whole blocks in place by ECB, of which there is no burst in version 1.3: as one
    /// job.
    fn encrypt_blocks(&mut self, keys: &Keys, data: &mut [u8]) -> Result<(), Fault> {
        let manager = self.manager.as_ptr();
        // SAFETY: a job from `get_next_job` is filled and submitted before the next one is asked
        // for; what it points to lives until it is done, and as no other is in flight that is when
        // `submit_job` returns.
        let (job, done) = unsafe {
            let next: NextJob = self.function(manager::GET_NEXT_JOB);
            let submit: SubmitJob = self.function(manager::SUBMIT_JOB);
            let job = next(manager);
            if job.is_null() {
                return Err(Fault::of("get_next_job"));
            }
            let fields = std::slice::from_raw_parts_mut(job, job::ORDER + 1);
            fill_keys(fields, keys);
            fields[job::SRC] = address(data.as_mut_ptr());
            fields[job::DST] = fields[job::SRC];
            fields[job::START] = 0;
            fields[job::LEN] = data.len() as u64;
            fields[job::IV] = 0;
            fields[job::IV_LEN] = 0;
            fields[job::STATUS_CIPHER] = CIPHER_ECB << 32;
            fields[job::DIRECTION_HASH] = HASH_NULL << 32 | ENCRYPT as u64;
            fields[job::ORDER] = CIPHER_THEN_HASH;
            (job, submit(manager))
        };
        if job == done {
            return Ok(());
        }
        Err(Fault::of("submit_job"))
    }
}

impl Drop for MultiBuffer {
    fn drop(&mut self) {
        // SAFETY: the manager is ours, and is used no more.
        unsafe { (self.exports.free_mb_mgr)(self.manager.as_ptr()) };
    }
}

struct Sectors {
    library: MultiBuffer,
    keys: Keys,
    essiv: Keys,
    work: Work,
    ivs: Vec<u8>,
    /// Room for a burst.
    jobs: Vec<u64>,
    job_words: usize,
}

impl Turns for Sectors {
    fn turn(&mut self, direction: Direction, first: u64, run: &mut [u8]) -> Result<(), Fault> {
        self.ivs.clear();
        let plain = self.work.plain_ivs(first, run.len());
        self.ivs.extend(plain.flatten());
        self.library.encrypt_blocks(&self.essiv, &mut self.ivs)?;
        let direction = match direction {
            Direction::Encrypt => ENCRYPT,
            Direction::Decrypt => DECRYPT,
        };
        let bursts = run.chunks_mut(self.work.unit * BURST);
        for (run, ivs) in bursts.zip(self.ivs.as_chunks::<BLOCK>().0.chunks(BURST)) {
            let jobs = self.jobs.chunks_exact_mut(self.job_words);
            for ((job, sector), iv) in jobs.zip(run.chunks_exact_mut(self.work.unit)).zip(ivs) {
                fill_keys(job, &self.keys);
                job[job::SRC] = address(sector.as_mut_ptr());
                job[job::DST] = job[job::SRC];
                job[job::LEN] = sector.len() as u64;
                job[job::IV] = address(iv.as_ptr().cast_mut());
                job[job::IV_LEN] = size_of_val(iv) as u64;
            }
            let sectors = u32::try_from(ivs.len()).map_err(|_| Fault::of("u32"))?;
            let manager = self.library.manager.as_ptr();
            // SAFETY: `sectors` jobs were filled; what they point to is borrowed here until they
            // are done, which is when this returns.
            let done = unsafe {
                let submit: SubmitBurst =
                    self.library.function(manager::SUBMIT_CIPHER_BURST_NOCHECK);
                let jobs = self.jobs.as_mut_ptr();
                submit(manager, jobs, sectors, CIPHER_CBC, direction, KEY_256)
            };
            Fault::unless(sectors, "submit_cipher_burst_nocheck", done)?;
        }
        Ok(())
    }
}

fn fill_keys(job: &mut [u64], keys: &Keys) {
    job[job::ENC_KEYS] = address((&raw const *keys.encrypt).cast_mut());
    job[job::DEC_KEYS] = address((&raw const *keys.decrypt).cast_mut());
    job[job::KEY_LEN] = KEY_256 as u64;
}

/// Returns a pointer as a field of a job holds it.
fn address<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}
