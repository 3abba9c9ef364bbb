//! Where the command keeps the compiled core, so that it starts at once.

use std::env;
use std::path::PathBuf;

use selfsame_host::CoreModule;

/// Names another folder; empty for none.
const FOLDER: &str = "SELFSAME_CACHE";

/// Chooses the folder.
pub(crate) fn keep_compiled_core() {
    if let Some(folder) = folder() {
        CoreModule::keep_compiled_in(folder);
    }
}

/// The folder of this user and program, where the system expects such.
fn folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER) {
        return (!folder.is_empty()).then(|| folder.into());
    }
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let caches = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        env::home_dir().map(|home| home.join("Library/Caches"))
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| env::home_dir().map(|home| home.join(".cache")))
    };
    caches.map(|caches| caches.join("selfsame"))
}
