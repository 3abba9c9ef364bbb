//! The ring from outside: many nodes in one thread, a virtual clock and a seeded network.

mod dice;

mod network;

mod shape;

mod outsider;

mod form;

mod heal;

mod names;

mod leaves;

mod hostile;

mod grants;

mod copies;

mod siblings;

mod crowding;

mod astray;

mod liars;

mod guarded;

mod guard;
