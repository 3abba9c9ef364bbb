//! The frames inside a packet's payload.
//!
//! ```text
//! request   1  | id u32     | length u32 | body
//! response  2  | id u32     | length u32 | body
//! open      3  | stream u32 | owner length u8 (0, 32) | owner | name length u8 | name | length u32 | head
//! data      4  | stream u32 | offset u64 | length u32 | bytes
//! end       5  | stream u32 | offset u64
//! reset     6  | stream u32 | class u8
//! credit    7  | stream u32 | limit u64
//! relay     8  | peer 32    | length u32 | frame
//! ping      9  | token u64
//! pong      10 | token u64
//! close     11 | class u8
//! route     12 | to 32 | from 32 | hops u8 | length u32 | frame
//! message   13 | id u64 | settled u64 | target 32 | length u32 | body
//! answer    14 | id u64 | class u8 (0 for none) | length u32 | body
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Class, Field, Malformed, Reader};

use crate::identity::{PeerId, PublicKey};

/// Most bytes of a stream in one frame.
pub const MAX_DATA: usize = 16 * 1024;
/// Longest body of a routed message and of its answer: what one piece of a stream may have.
pub const MAX_MESSAGE: usize = MAX_DATA;
/// Longest name of a service: one label of a domain name.
pub const MAX_SERVICE_NAME: usize = 63;

/// A service: its name, and the key of the name's owner if it has one
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service<'a> {
    /// Whose name it is.
    pub owner: Option<PublicKey>,
    /// The name.
    pub name: &'a str,
}

/// The opening of a stream
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// The opener's number for the stream.
    pub stream: u32,
    /// What it is for.
    pub service: Service<'a>,
    /// What the opener sends with it.
    pub head: &'a [u8],
}

/// Bytes of a stream
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The stream.
    pub stream: u32,
    /// Where in the stream they stand.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A frame on its way from member to member
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The member that it is for.
    pub to: PeerId,
    /// The member that it is from.
    pub from: PeerId,
    /// How often it may still be passed on.
    pub hops: u8,
    /// Handshake or packet of their session.
    pub frame: &'a [u8],
}

/// What an application sends to another member's
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The sender's number for it, the same each time that it is sent; higher than those before.
    pub id: u64,
    /// The sender awaits no answers to messages with lower numbers.
    pub settled: u64,
    /// Whom the sender means: whoever is responsible for this place.
    pub target: [u8; 32],
    /// At most [`MAX_MESSAGE`] bytes.
    pub body: &'a [u8],
}

/// One frame
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A control message that is answered by a response with the same id.
    Request {
        /// The sender's number for it.
        id: u32,
        /// CBOR.
        body: &'a [u8],
    },
    /// The answer to a request.
    Response {
        /// The number of the request.
        id: u32,
        /// CBOR.
        body: &'a [u8],
    },
    /// A stream begins.
    Open(Open<'a>),
    /// Bytes of a stream.
    Data(Data<'a>),
    /// The sender's half of a stream ends at `offset`.
    End {
        /// The stream.
        stream: u32,
        /// How many bytes it had.
        offset: u64,
    },
    /// A stream is given up.
    Reset {
        /// The stream.
        stream: u32,
        /// Whose fault it is.
        class: Class,
    },
    /// The receiver takes bytes up to `limit`.
    Credit {
        /// The stream.
        stream: u32,
        /// Offset that must not be exceeded.
        limit: u64,
    },
    /// A frame for, or from, a peer behind this one. Empty: the peer is not attached here.
    Relay {
        /// The other peer.
        peer: PeerId,
        /// Its frame.
        frame: &'a [u8],
    },
    /// Are you there?
    Ping {
        /// Comes back.
        token: u64,
    },
    /// I am.
    Pong {
        /// The token of the ping.
        token: u64,
    },
    /// The session ends.
    Close {
        /// Whose fault it is.
        class: Class,
    },
    /// A frame that members pass on.
    Route(Route<'a>),
    /// A message for the application.
    Message(Message<'a>),
    /// The answer to a message.
    Answer {
        /// The number of the message.
        id: u64,
        /// Why there is none: whose fault it is.
        class: Option<Class>,
        /// At most [`MAX_MESSAGE`] bytes.
        body: &'a [u8],
    },
}

/// Reads the frames of a payload, one after the other
#[derive(Clone, Debug)]
pub struct FrameReader<'a> {
    reader: Reader<'a>,
}

impl<'a> FrameReader<'a> {
    /// Frames of `payload`.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(payload),
        }
    }

    fn read(&mut self) -> Result<Frame<'a>, Malformed> {
        let reader = &mut self.reader;
        Ok(match reader.field::<u8>()? {
            1 => Frame::Request {
                id: reader.field()?,
                body: reader.field()?,
            },
            2 => Frame::Response {
                id: reader.field()?,
                body: reader.field()?,
            },
            3 => Frame::Open(read_open(reader)?),
            4 => Frame::Data(read_data(reader)?),
            5 => Frame::End {
                stream: reader.field()?,
                offset: reader.field()?,
            },
            6 => Frame::Reset {
                stream: reader.field()?,
                class: read_class(reader)?,
            },
            7 => Frame::Credit {
                stream: reader.field()?,
                limit: reader.field()?,
            },
            8 => Frame::Relay {
                peer: PeerId(reader.field()?),
                frame: reader.field()?,
            },
            9 => Frame::Ping {
                token: reader.field()?,
            },
            10 => Frame::Pong {
                token: reader.field()?,
            },
            11 => Frame::Close {
                class: read_class(reader)?,
            },
            12 => Frame::Route(Route {
                to: PeerId(reader.field()?),
                from: PeerId(reader.field()?),
                hops: reader.field()?,
                frame: reader.field()?,
            }),
            13 => Frame::Message(Message {
                id: reader.field()?,
                settled: reader.field()?,
                target: reader.field()?,
                body: read_body(reader)?,
            }),
            14 => Frame::Answer {
                id: reader.field()?,
                class: match reader.field::<u8>()? {
                    0 => None,
                    class => Some(class_of(class.into())?),
                },
                body: read_body(reader)?,
            },
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Iterator for FrameReader<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = self.read();
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

fn read_open<'a>(reader: &mut Reader<'a>) -> Result<Open<'a>, Malformed> {
    let stream = reader.field()?;
    let owner = match reader.field::<u8>()? {
        0 => None,
        32 => Some(PublicKey(reader.field()?)),
        _ => return Err(Malformed),
    };
    let len = usize::from(reader.field::<u8>()?);
    if len == 0 || len > MAX_SERVICE_NAME {
        return Err(Malformed);
    }
    let name = core::str::from_utf8(reader.take(len)?).map_err(|_| Malformed)?;
    let head: &[u8] = reader.field()?;
    if head.len() > MAX_DATA {
        return Err(Malformed);
    }
    Ok(Open {
        stream,
        service: Service { owner, name },
        head,
    })
}

fn read_data<'a>(reader: &mut Reader<'a>) -> Result<Data<'a>, Malformed> {
    let data = Data {
        stream: reader.field()?,
        offset: reader.field()?,
        bytes: reader.field()?,
    };
    if data.bytes.is_empty() || data.bytes.len() > MAX_DATA {
        return Err(Malformed);
    }
    Ok(data)
}

fn read_body<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let body: &[u8] = reader.field()?;
    if body.len() > MAX_MESSAGE {
        return Err(Malformed);
    }
    Ok(body)
}

fn read_class(reader: &mut Reader<'_>) -> Result<Class, Malformed> {
    class_of(u64::from(reader.field::<u8>()?))
}

/// Reads the number of a class.
pub(crate) fn class_of(number: u64) -> Result<Class, Malformed> {
    Ok(match number {
        1 => Class::Usage,
        2 => Class::Malformed,
        3 => Class::Misbehaved,
        4 => Class::Incompatible,
        5 => Class::Unreachable,
        6 => Class::Limit,
        7 => Class::Store,
        8 => Class::Service,
        _ => return Err(Malformed),
    })
}

/// Appends frames to a payload
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> FrameWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a frame.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        let out = &mut *self.out;
        match *frame {
            Frame::Request { id, body } => numbered(out, 1, id, body),
            Frame::Response { id, body } => numbered(out, 2, id, body),
            Frame::Open(open) => write_open(out, &open),
            Frame::Data(data) => {
                out.push(4);
                data.stream.write(out);
                data.offset.write(out);
                data.bytes.write(out);
            }
            Frame::End { stream, offset } => {
                out.push(5);
                stream.write(out);
                offset.write(out);
            }
            Frame::Reset { stream, class } => {
                out.push(6);
                stream.write(out);
                out.push(class as u8);
            }
            Frame::Credit { stream, limit } => {
                out.push(7);
                stream.write(out);
                limit.write(out);
            }
            Frame::Relay { peer, frame } => {
                out.push(8);
                peer.0.write(out);
                frame.write(out);
            }
            Frame::Ping { token } => {
                out.push(9);
                token.write(out);
            }
            Frame::Pong { token } => {
                out.push(10);
                token.write(out);
            }
            Frame::Close { class } => out.extend_from_slice(&[11, class as u8]),
            Frame::Route(route) => {
                out.push(12);
                route.to.0.write(out);
                route.from.0.write(out);
                out.push(route.hops);
                route.frame.write(out);
            }
            Frame::Message(message) => {
                out.push(13);
                message.id.write(out);
                message.settled.write(out);
                message.target.write(out);
                message.body.write(out);
            }
            Frame::Answer { id, class, body } => {
                out.push(14);
                id.write(out);
                out.push(class.map_or(0, |class| class as u8));
                body.write(out);
            }
        }
    }
}

fn numbered(out: &mut Vec<u8>, kind: u8, id: u32, body: &[u8]) {
    out.push(kind);
    id.write(out);
    body.write(out);
}

fn write_open(out: &mut Vec<u8>, open: &Open<'_>) {
    out.push(3);
    open.stream.write(out);
    match open.service.owner {
        None => out.push(0),
        Some(owner) => {
            out.push(32);
            owner.0.write(out);
        }
    }
    out.push(u8::try_from(open.service.name.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(open.service.name.as_bytes());
    open.head.write(out);
}
