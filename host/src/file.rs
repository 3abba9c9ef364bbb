//! Files that must be whole or absent, and secrets that only their user may read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::store::sync_folder_of;

/// Writes a file that only the user may read, and that must not exist yet.
pub(crate) fn create_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    // A draft under a name of its own, then a link, which fails when the name is taken: nobody's secret is replaced
    // and a crash leaves no half of one.
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.new", std::process::id()));
    let draft = Path::new(&draft);
    let linked = write_secret(draft, content).and_then(|()| fs::hard_link(draft, path));
    let removed = fs::remove_file(draft);
    linked.and(removed)?;
    sync_folder_of(path)
}

/// Writes a file that only the user may read, in the place of the one there is.
#[cfg(feature = "authority")]
pub(crate) fn replace_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = Path::new(&draft);
    write_secret(draft, content)?;
    fs::rename(draft, path)?;
    sync_folder_of(path)
}

fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
