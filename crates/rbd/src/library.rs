//! librbd and librados, found by the system's loader, and their functions.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// File name of librados, by its binary interface.
const RADOS: &str = "librados.so.2";
/// File name of librbd, by its binary interface.
const RBD: &str = "librbd.so.1";

/// The reason for which librbd cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reason) = self;
        write!(
            f,
            "{reason}; install Ceph's client library (Debian: librbd1), version 15 or later"
        )
    }
}

impl Error for Missing {}

/// A structure of functions, each loaded by its field's name.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        struct $name:ident {
            $(fn $field:ident($($argument:ty),*) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            fn load(library: &'static libloading::Library, file: &str) -> Result<Self, Missing> {
                Ok(Self {
                    $(
                        // SAFETY: the field's type is the one in the library's header, and the library is never
                        // unloaded.
                        $field: unsafe { find(library, file, concat!(stringify!($field), "\0"))? },
                    )*
                })
            }
        }
    };
}

functions! {
    /// Functions of librados, as `rados/librados.h` declares them.
    struct Rados {
        fn rados_create2(*mut RadosHandle, *const c_char, *const c_char, u64) -> c_int;
        fn rados_conf_read_file(RadosHandle, *const c_char) -> c_int;
        fn rados_conf_parse_env(RadosHandle, *const c_char) -> c_int;
        fn rados_conf_set(RadosHandle, *const c_char, *const c_char) -> c_int;
        fn rados_connect(RadosHandle) -> c_int;
        fn rados_get_instance_id(RadosHandle) -> u64;
        fn rados_shutdown(RadosHandle);
        fn rados_ioctx_create(RadosHandle, *const c_char, *mut PoolHandle) -> c_int;
        fn rados_ioctx_set_namespace(PoolHandle, *const c_char);
        fn rados_ioctx_destroy(PoolHandle);
    }
}

functions! {
    /// Functions of librbd, as `rbd/librbd.h` declares them.
    struct Rbd {
        fn rbd_open(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        fn rbd_open_read_only(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        fn rbd_open_by_id_read_only(PoolHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int;
        fn rbd_close(ImageHandle) -> c_int;
        fn rbd_stat(ImageHandle, *mut ImageInfo, usize) -> c_int;
        fn rbd_get_features(ImageHandle, *mut u64) -> c_int;
        fn rbd_get_parent(ImageHandle, *mut ImageSpec, *mut SnapshotSpec) -> c_int;
        fn rbd_linked_image_spec_cleanup(*mut ImageSpec);
        fn rbd_snap_spec_cleanup(*mut SnapshotSpec);
        fn rbd_read2(ImageHandle, u64, usize, *mut c_char, c_int) -> isize;
        fn rbd_write2(ImageHandle, u64, usize, *const c_char, c_int) -> isize;
        fn rbd_discard(ImageHandle, u64, u64) -> c_int;
        fn rbd_write_zeroes(ImageHandle, u64, usize, c_int, c_int) -> isize;
        fn rbd_flush(ImageHandle) -> c_int;
        fn rbd_lock_acquire(ImageHandle, c_int) -> c_int;
        fn rbd_lock_get_owners(ImageHandle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
        fn rbd_lock_get_owners_cleanup(*mut *mut c_char, usize);
        fn rbd_watchers_list(ImageHandle, *mut ImageWatcher, *mut usize) -> c_int;
        fn rbd_watchers_list_cleanup(*mut ImageWatcher, usize);
    }
}

/// Connection to a cluster: `rados_t` of librados.
pub(crate) type RadosHandle = *mut c_void;
/// Pool of a cluster: `rados_ioctx_t` of librados.
pub(crate) type PoolHandle = *mut c_void;
/// Open image: `rbd_image_t` of librbd.
pub(crate) type ImageHandle = *mut c_void;

/// Size of an image: `rbd_image_info_t` of librbd.
#[repr(C)]
pub(crate) struct ImageInfo {
    pub(crate) size: u64,
    pub(crate) object_size: u64,
    objects: u64,
    order: c_int,
    block_name_prefix: [c_char; 24],
    parent_pool: i64,
    parent_name: [c_char; 96],
}

impl ImageInfo {
    pub(crate) const EMPTY: Self = Self {
        size: 0,
        object_size: 0,
        objects: 0,
        order: 0,
        block_name_prefix: [0; 24],
        parent_pool: 0,
        parent_name: [0; 96],
    };
}

/// Image that another is a clone of: `rbd_linked_image_spec_t` of librbd.
#[repr(C)]
pub(crate) struct ImageSpec {
    pool_id: i64,
    pub(crate) pool_name: *mut c_char,
    pub(crate) pool_namespace: *mut c_char,
    pub(crate) image_id: *mut c_char,
    pub(crate) image_name: *mut c_char,
    /// A `bool` of C: true unless it is 0.
    pub(crate) trash: u8,
}

impl ImageSpec {
    pub(crate) const EMPTY: Self = Self {
        pool_id: 0,
        pool_name: null_mut(),
        pool_namespace: null_mut(),
        image_id: null_mut(),
        image_name: null_mut(),
        trash: 0,
    };
}

/// Snapshot of an image: `rbd_snap_spec_t` of librbd.
#[repr(C)]
pub(crate) struct SnapshotSpec {
    id: u64,
    namespace_type: c_int,
    pub(crate) name: *mut c_char,
}

impl SnapshotSpec {
    pub(crate) const EMPTY: Self = Self {
        id: 0,
        namespace_type: 0,
        name: null_mut(),
    };
}

/// Client that has an image open: `rbd_image_watcher_t` of librbd.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ImageWatcher {
    pub(crate) address: *mut c_char,
    pub(crate) id: i64,
    cookie: u64,
}

impl ImageWatcher {
    pub(crate) const EMPTY: Self = Self {
        address: null_mut(),
        id: 0,
        cookie: 0,
    };
}

/// Both libraries, loaded until the process ends.
pub(crate) struct Libraries {
    pub(crate) rados: Rados,
    pub(crate) rbd: Rbd,
}

impl Libraries {
    fn load() -> Result<Self, Missing> {
        Ok(Self {
            rados: Rados::load(open(RADOS)?, RADOS)?,
            rbd: Rbd::load(open(RBD)?, RBD)?,
        })
    }

    /// Returns the libraries, which the first call loads.
    pub(crate) fn get() -> Result<&'static Self, Missing> {
        static LOADED: OnceLock<Result<Libraries, Missing>> = OnceLock::new();
        LOADED
            .get_or_init(Self::load)
            .as_ref()
            .map_err(Clone::clone)
    }
}

fn open(file: &str) -> Result<&'static libloading::Library, Missing> {
    // SAFETY: this is a library of the distribution; loading it runs its constructors, as starting a program that is
    // linked with it does.
    match unsafe { libloading::Library::new(file) } {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => {
            // The loader's own sentence is below that of the crate.
            let reason = error.source().unwrap_or(&error).to_string();
            Err(Missing(format!("{file} cannot be loaded ({reason})")))
        }
    }
}

/// Returns the function of this name, which ends with a zero byte.
///
/// # Safety
/// `F` is the type of a pointer to that function, as the library's header declares it.
unsafe fn find<F: Copy>(
    library: &'static libloading::Library,
    file: &str,
    name: &str,
) -> Result<F, Missing> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // SAFETY: the caller's promise; the library is never unloaded.
    let symbol = unsafe { library.get::<F>(name) };
    symbol.map(|symbol| *symbol).map_err(|_| {
        let name = name.to_string_lossy();
        Missing(format!("{file} has no function {name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let error = open("librbd.so.0").map(|_| ()).unwrap_err().to_string();
        assert!(
            error.starts_with("librbd.so.0 cannot be loaded ("),
            "{error}"
        );
        assert!(error.contains("librbd1"), "{error}");
    }
}
