//! RocksDB as it comes: default options, batches written as one, reads asked for together.

use core::ffi::{CStr, c_char};
use core::ptr;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use bench_pair::Outcome;

use crate::backend::{Backend, Durability, Observer, Write};
use crate::library::{Error, Functions, Handle};
use crate::workload::key;

/// RocksDB's name of what a database holds if it is not told otherwise.
const DEFAULT: &CStr = c"default";

/// An open database
#[derive(Debug)]
pub(crate) struct Database {
    functions: Arc<Functions>,
    database: Handle,
    family: Handle,
    options: Handle,
    reading: Handle,
    writing: Handle,
}

// SAFETY: RocksDB lets any number of threads use a database and its options at a time; only dropping it needs it alone.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    /// Creates a database in an empty folder.
    ///
    /// # Errors
    /// What RocksDB says.
    pub(crate) fn create(functions: Arc<Functions>, folder: &Path, durability: Durability) -> Outcome<Self> {
        let f = &functions;
        let path = folder.as_os_str().as_encoded_bytes();
        let path = CString::new(path).map_err(|_| "the path of a folder has a zero in it")?;
        let mut family = ptr::null_mut();
        // SAFETY: the handles are those that RocksDB has just given, the arrays have one element, as is said, and all texts end
        // with a zero.
        unsafe {
            let options = (f.options_create)();
            (f.options_set_create_if_missing)(options, 1);
            let writing = (f.writeoptions_create)();
            (f.writeoptions_disable_WAL)(writing, i32::from(durability == Durability::None));
            (f.writeoptions_set_sync)(writing, u8::from(durability == Durability::Synced));
            let database = f.told(|error| {
                let (names, family_options) = ([DEFAULT.as_ptr()], [options]);
                (f.open_column_families)(
                    options,
                    path.as_ptr(),
                    1,
                    names.as_ptr(),
                    family_options.as_ptr(),
                    &raw mut family,
                    error,
                )
            })?;
            Ok(Self {
                functions: Arc::clone(f),
                database,
                family,
                options,
                reading: (f.readoptions_create)(),
                writing,
            })
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let f = &self.functions;
        // SAFETY: nobody else has it any more, and nothing is used after it was given back.
        unsafe {
            (f.readoptions_destroy)(self.reading);
            (f.writeoptions_destroy)(self.writing);
            (f.column_family_handle_destroy)(self.family);
            (f.close)(self.database);
            (f.options_destroy)(self.options);
        }
    }
}

impl Functions {
    /// Calls a function, and takes the error that it leaves.
    fn told<T>(&self, call: impl FnOnce(Error) -> T) -> Outcome<T> {
        let mut error: *mut c_char = ptr::null_mut();
        let result = call(&raw mut error);
        self.check(error).map(|()| result)
    }

    fn check(&self, error: *mut c_char) -> Outcome<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: RocksDB's errors are texts that end with a zero and that whoever gets them frees.
        unsafe {
            let said = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.free)(error.cast());
            Err(format!("RocksDB: {said}"))
        }
    }
}

/// How items are asked for
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Those of a batch together.
    Together,
    /// One after the other.
    Singly,
}

/// One thread's way to the database
#[derive(Debug)]
pub(crate) struct Rocks {
    shared: Arc<Database>,
    asking: Asking,
    batch: Handle,
}

// SAFETY: a batch belongs to whoever has it, on whichever thread.
unsafe impl Send for Rocks {}

impl Rocks {
    /// A way to a database.
    pub(crate) fn new(shared: Arc<Database>, asking: Asking) -> Self {
        // SAFETY: it takes nothing.
        let batch = unsafe { (shared.functions.writebatch_create)() };
        Self {
            shared,
            asking,
            batch,
        }
    }

    fn write(&self, writes: &[Write<'_>]) -> Outcome<()> {
        let (database, f) = (&self.shared, &self.shared.functions);
        // SAFETY: the handles live as long as this; RocksDB copies keys and values.
        unsafe {
            (f.writebatch_clear)(self.batch);
            for (item, value) in writes {
                let key = key(*item);
                (f.writebatch_put)(
                    self.batch,
                    key.as_ptr().cast(),
                    key.len(),
                    value.as_ptr().cast(),
                    value.len(),
                );
            }
            f.told(|error| (f.write)(database.database, database.writing, self.batch, error))
        }
    }

    fn read_singly(&self, items: &[u32], observer: &mut dyn Observer) -> Outcome<()> {
        let (database, f) = (&self.shared, &self.shared.functions);
        for (place, item) in items.iter().enumerate() {
            let key = key(*item);
            // SAFETY: the handles live as long as this, and the key until it returns.
            let value = f.told(|error| unsafe {
                (f.get_pinned)(
                    database.database,
                    database.reading,
                    key.as_ptr().cast(),
                    key.len(),
                    error,
                )
            })?;
            self.see(place, value, observer)?;
        }
        Ok(())
    }

    /// Shows a value and gives it back.
    fn see(&self, place: usize, value: Handle, observer: &mut dyn Observer) -> Outcome<()> {
        let f = &self.shared.functions;
        if value.is_null() {
            return Err(format!("RocksDB does not hold what is read at place {place}"));
        }
        let mut len = 0;
        // SAFETY: what it points to lives until the slice is given back, which happens once.
        unsafe {
            let bytes = (f.pinnableslice_value)(value, &raw mut len);
            observer.value(place, core::slice::from_raw_parts(bytes.cast(), len));
            (f.pinnableslice_destroy)(value);
        }
        Ok(())
    }

    fn read_together(&self, items: &[u32], observer: &mut dyn Observer) -> Outcome<()> {
        let (database, f) = (&self.shared, &self.shared.functions);
        let keys: Vec<_> = items.iter().map(|item| key(*item)).collect();
        let places: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths = vec![keys.first().map_or(0, |key| key.len()); keys.len()];
        let mut values = vec![ptr::null_mut(); keys.len()];
        let mut errors = vec![ptr::null_mut(); keys.len()];
        // SAFETY: all arrays have as many elements as is said, and the keys live until it returns.
        unsafe {
            (f.batched_multi_get_cf)(
                database.database,
                database.reading,
                database.family,
                keys.len(),
                places.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        for (place, (value, error)) in values.into_iter().zip(errors).enumerate() {
            f.check(error)?;
            self.see(place, value, observer)?;
        }
        Ok(())
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: it is given back once.
        unsafe { (self.shared.functions.writebatch_destroy)(self.batch) }
    }
}

impl Backend for Rocks {
    async fn forget(&mut self) -> Outcome<()> {
        Ok(())
    }

    async fn batch(
        &mut self,
        writes: &[Write<'_>],
        reads: &[u32],
        observer: &mut dyn Observer,
    ) -> Outcome<()> {
        if !writes.is_empty() {
            self.write(writes)?;
        }
        match self.asking {
            _ if reads.is_empty() => {}
            Asking::Together => self.read_together(reads, observer)?,
            Asking::Singly => self.read_singly(reads, observer)?,
        }
        observer.done();
        Ok(())
    }

    async fn settle(&mut self, _: &mut dyn Observer) -> Outcome<()> {
        Ok(())
    }
}
