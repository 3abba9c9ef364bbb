//! A path over UDP: a stream of frames as over TCP, in datagrams (the specification's `transports.md`).

mod carry;
mod connection;

mod cookie;

mod dial;
pub(super) use dial::dial;

mod incoming;

mod listen;
pub(super) use listen::accept;

mod outgoing;
mod packet;
