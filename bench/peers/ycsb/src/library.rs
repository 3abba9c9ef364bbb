//! The functions of RocksDB's C interface, loaded from its shared library when the benchmark starts: so nothing of RocksDB is
//! needed to build it.

use core::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bench_pair::Outcome;
use libloading::Library;

/// What the functions handle, opaque
pub(crate) type Handle = *mut c_void;
/// Where a function leaves its error
pub(crate) type Error = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Its functions, each under the name that it has there after `rocksdb_`
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "the names are RocksDB's")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps them loaded: RocksDB's threads outlive its databases.
            _library: Library,
        }

        impl Functions {
            fn find(path: &Path) -> Outcome<Self> {
                let said = |error: libloading::Error| format!("{} is no RocksDB: {error}", path.display());
                // SAFETY: what RocksDB does when it is loaded, it does in every program that links it.
                let library = unsafe { Library::new(path) }.map_err(said)?;
                Ok(Self {
                    // SAFETY: the types are those of its header `c.h`, in which these have not changed since version 6.
                    $($name: unsafe { *library.get(concat!("rocksdb_", stringify!($name))).map_err(said)? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    options_create: fn() -> Handle;
    options_destroy: fn(Handle);
    options_set_create_if_missing: fn(Handle, c_uchar);
    readoptions_create: fn() -> Handle;
    readoptions_destroy: fn(Handle);
    writeoptions_create: fn() -> Handle;
    writeoptions_destroy: fn(Handle);
    writeoptions_set_sync: fn(Handle, c_uchar);
    writeoptions_disable_WAL: fn(Handle, c_int);
    open_column_families: fn(Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, Error) -> Handle;
    column_family_handle_destroy: fn(Handle);
    close: fn(Handle);
    writebatch_create: fn() -> Handle;
    writebatch_destroy: fn(Handle);
    writebatch_clear: fn(Handle);
    writebatch_put: fn(Handle, *const c_char, usize, *const c_char, usize);
    write: fn(Handle, Handle, Handle, Error);
    batched_multi_get_cf: fn(Handle, Handle, Handle, usize, *const *const c_char, *const usize, *mut Handle, *mut *mut c_char, bool);
    get_pinned: fn(Handle, Handle, *const c_char, usize, Error) -> Handle;
    pinnableslice_value: fn(Handle, *mut usize) -> *const c_char;
    pinnableslice_destroy: fn(Handle);
    free: fn(*mut c_void);
}

impl Functions {
    /// Loads them, once for the whole process.
    ///
    /// # Errors
    /// When the file is no RocksDB.
    pub(crate) fn load(path: &Path) -> Outcome<Arc<Self>> {
        static LOADED: OnceLock<Arc<Functions>> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(Arc::clone(loaded));
        }
        let found = Arc::new(Self::find(path)?);
        Ok(Arc::clone(LOADED.get_or_init(|| found)))
    }
}
