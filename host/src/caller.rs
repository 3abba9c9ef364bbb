use crate::id::PeerId;

/// Who sent a request; an extension of every request that a handler gets
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The caller's id.
    pub peer: PeerId,
    /// How sure that is.
    pub assurance: Assurance,
}

/// How sure a caller's identity is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assurance {
    /// The caller proved it in a handshake.
    Session,
    /// Of HTTP by RPC: a replica of the service issued the caller a ticket after that.
    Ticket,
}
