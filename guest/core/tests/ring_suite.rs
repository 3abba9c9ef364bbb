//! The ring from outside: many nodes in one thread, a virtual clock and a seeded network.

#[path = "ring/network.rs"]
mod network;

#[path = "ring/form.rs"]
mod form;
