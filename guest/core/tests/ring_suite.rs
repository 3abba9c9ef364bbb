//! The ring from outside: many nodes in one thread, a virtual clock and a seeded network.

extern crate alloc;

#[path = "ring/network.rs"]
mod network;

#[path = "ring/outsider.rs"]
mod outsider;

#[path = "ring/form.rs"]
mod form;

#[path = "ring/heal.rs"]
mod heal;

#[path = "ring/names.rs"]
mod names;

#[path = "ring/leaves.rs"]
mod leaves;

#[path = "ring/hostile.rs"]
mod hostile;

#[path = "ring/grants.rs"]
mod grants;

#[path = "ring/copies.rs"]
mod copies;

#[path = "ring/siblings.rs"]
mod siblings;
