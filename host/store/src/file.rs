use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::StoreError;

/// Makes a new name in a folder survive a power loss.
///
/// # Errors
/// What the system says.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// What a file that must be there and whole has come to.
pub(crate) fn failed(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::NotFound => StoreError::corrupt(path, "it is missing"),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => StoreError::corrupt(path, error),
        _ => StoreError::io(path, error),
    }
}
