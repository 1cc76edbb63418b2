//! Shared libraries, loaded at run time.

use std::error::Error;
use std::ffi::{CStr, c_char};

use crate::rival::Missing;

/// A library that stays loaded until the process ends, so that its functions are there for as long.
#[derive(Clone, Copy)]
pub(super) struct Shared(&'static libloading::Library);

impl Shared {
    /// The first of `names` that the system's loader finds; `package` is where Debian has it.
    pub(super) fn open(names: &[&str], package: &str) -> Result<Self, Missing> {
        let mut why = Vec::new();
        for name in names {
            // SAFETY: these are the libraries of a distribution; loading one runs its
            // constructors, as starting a program that is linked with it does.
            match unsafe { libloading::Library::new(*name) } {
                Ok(library) => return Ok(Self(Box::leak(Box::new(library)))),
                // What the loader says is below what the crate says.
                Err(error) => why.push(error.source().unwrap_or(&error).to_string()),
            }
        }
        Err(Missing(format!("{}; {package}", why.join("; "))))
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name, as the library's header declares
    /// it.
    pub(super) unsafe fn function<F: Copy>(self, name: &CStr) -> Result<F, Missing> {
        // SAFETY: the caller's promise; the library is never unloaded.
        let symbol = unsafe { self.0.get::<F>(name) };
        symbol.map(|symbol| *symbol).map_err(|_| {
            let name = name.to_string_lossy();
            Missing(format!("the library has no function {name}"))
        })
    }
}

/// A C string that lives as long as the process, as text.
///
/// # Safety
/// `text` is null, or a string that ends in a zero byte and is never changed.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A structure of functions, each loaded under its field's name with a prefix.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        struct $name:ident($prefix:literal) {
            $(fn $field:ident($($argument:ty),*) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        struct $name {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            fn load(
                library: $crate::foreign::library::Shared,
            ) -> Result<Self, $crate::rival::Missing> {
                const fn c(name: &str) -> &std::ffi::CStr {
                    match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    }
                }
                Ok(Self {
                    $(
                        // SAFETY: the field's type is what the header says.
                        $field: unsafe {
                            library.function(c(concat!($prefix, stringify!($field), "\0")))?
                        },
                    )*
                })
            }
        }
    };
}

pub(super) use functions;
