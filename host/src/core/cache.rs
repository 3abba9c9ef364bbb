//! Where compiled code is kept between processes.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use wasmtime::{Cache, CacheConfig, Config};

/// The folder of this process.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Chooses the folder, unless one is chosen already.
pub(super) fn keep_in(folder: PathBuf) {
    // The first choice stands.
    _ = FOLDER.set(folder);
}

/// Has an engine use the chosen folder, if there is one that can be used.
pub(super) fn with_cache(mut config: Config) -> Config {
    let Some(folder) = FOLDER.get() else {
        return config;
    };
    match open(folder) {
        Ok(cache) => _ = config.cache(Some(cache)),
        Err(error) => {
            let folder = folder.display();
            tracing::debug!(%folder, %error, "compiled code is not kept");
        }
    }
    config
}

/// The cache in a folder, which is made when there is none.
///
/// # Errors
/// Why nothing can be kept there, or must not be: what is found there is executed.
fn open(folder: &Path) -> io::Result<Cache> {
    let folder = std::path::absolute(folder)?;
    make(&folder)?;
    check(&folder)?;
    let mut config = CacheConfig::new();
    config.with_directory(folder);
    Cache::new(config).map_err(io::Error::other)
}

/// Makes a folder that only its user may use.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Refuses a folder that others may write to. One that belongs to another user is found by a program that root runs
/// with that user's environment.
fn check(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other("others may write to it"));
        }
    }
    if metadata.is_dir() {
        Ok(())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}
