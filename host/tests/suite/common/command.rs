use std::path::Path;
use std::process::{Command, Stdio};

/// The program in a folder, with nothing of the environment that would change what it does.
pub(crate) fn selfsame(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selfsame"));
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("SELFSAME_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .env_remove("SELFSAME_LOG")
        .env_remove("SELFSAME_DATA");
    command
}
