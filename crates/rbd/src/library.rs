//! librbd and librados, found by the system's loader, and their functions.

use std::error::Error;
use std::ffi::{CStr, c_int};
use std::fmt;
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
        fn rados_version(*mut c_int, *mut c_int, *mut c_int);
    }
}

functions! {
    /// Functions of librbd, as `rbd/librbd.h` declares them.
    struct Rbd {
        fn rbd_version(*mut c_int, *mut c_int, *mut c_int);
    }
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

/// Returns the versions of librados and librbd, each as major, minor and patch number.
///
/// # Errors
/// When this machine has no librbd, or an older one.
pub fn versions() -> Result<[[c_int; 3]; 2], Missing> {
    let Libraries { rados, rbd } = Libraries::get()?;
    let call = |version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int)| {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: the function fills three integers, which live until it returns.
        unsafe { version(&raw mut major, &raw mut minor, &raw mut patch) };
        [major, minor, patch]
    };
    Ok([call(rados.rados_version), call(rbd.rbd_version)])
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
