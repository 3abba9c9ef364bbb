//! What a node's host is told.

use selfsame_codec::{Code, EventKind, Output};

/// An output with its own memory
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    StreamOpened {
        stream: u32,
        tag: u32,
        peer: [u8; 32],
        service: String,
        head: Vec<u8>,
    },
    StreamData {
        stream: u32,
        data: Vec<u8>,
    },
    StreamEnd {
        stream: u32,
    },
    StreamReset {
        stream: u32,
        code: u16,
    },
    StreamCredit {
        stream: u32,
        bytes: u32,
    },
    Reply {
        tag: u32,
        body: Vec<u8>,
    },
    Failed {
        tag: u32,
        code: Code,
        detail: String,
    },
    Providers {
        tag: u32,
        body: Vec<u8>,
    },
    Routed(u32, Vec<u8>),
    Refused {
        input: u32,
        code: Code,
    },
    Event {
        event: EventKind,
        body: Vec<u8>,
    },
    Log {
        code: Code,
    },
}

impl Seen {
    pub(super) fn of(output: Output<'_>) -> Option<Self> {
        let known = |code| Code::from_u16(code).expect("a known code");
        Some(match output {
            Output::StreamOpened {
                stream,
                tag,
                peer,
                service,
                head,
            } => Self::StreamOpened {
                stream,
                tag,
                peer,
                service: service.into(),
                head: head.to_vec(),
            },
            Output::StreamData { stream, data } => Self::StreamData {
                stream,
                data: data.to_vec(),
            },
            Output::StreamEnd { stream } => Self::StreamEnd { stream },
            Output::StreamReset { stream, code } => Self::StreamReset { stream, code },
            Output::StreamCredit { stream, bytes } => Self::StreamCredit { stream, bytes },
            Output::Reply { tag, body } => Self::Reply {
                tag,
                body: body.to_vec(),
            },
            Output::Failed { tag, code, detail } => Self::Failed {
                tag,
                code: known(code),
                detail: detail.into(),
            },
            Output::Providers { tag, body } => Self::Providers {
                tag,
                body: body.to_vec(),
            },
            Output::Routed { message, body, .. } => Self::Routed(message, body.to_vec()),
            Output::Refused { input, code } => Self::Refused {
                input,
                code: known(code),
            },
            Output::Event { event, body } => Self::Event {
                event,
                body: body.to_vec(),
            },
            Output::Log { code, .. } => Self::Log { code: known(code) },
            _ => return None,
        })
    }
}
