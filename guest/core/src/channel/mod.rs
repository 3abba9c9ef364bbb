//! The secure channel (Themis, figure 3): sealed packets with a replay window and rekeying, and streams on top.
//!
//! ```text
//! packet: 16 u8 | phase u8 | zero u16 | receiver index u32 | counter u64 | sealed(frames) | tag 16
//! ```
//!
//! The associated data are the header, the session id and the direction, so that a packet cannot be reflected,
//! moved to another session or renumbered.

mod frame;
pub(crate) use frame::class_of;
pub use frame::{
    Data, Frame, FrameReader, FrameWriter, MAX_DATA, MAX_MESSAGE, MAX_SERVICE_NAME, Message, Open, Route,
    Service,
};

mod replay;
pub use replay::ReplayWindow;

mod session;
pub use session::{MAX_FRAME, MAX_PAYLOAD, PACKET_OVERHEAD, Session, Side, packet_receiver};

mod snapshot;

mod streams;
pub use streams::{MAX_STREAMS, STREAM_WINDOW, StreamEvent, Streams};
