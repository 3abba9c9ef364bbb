//! Embed a selfsame node in a Rust program.
