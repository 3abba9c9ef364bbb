//! What routers and servers say to each other, each authenticated with a key that only they have.
//!
//! ```text
//! forward:  0x64 | client [18] | server [18] | mac [16] | request datagram
//! feedback: 0x65 | tag [16] | running u16 | mac [16]
//! ```

use alloc::vec::Vec;
use core::fmt;

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_sodium::hash::{derive_key, keyed};
use selfsame_sodium::memory;
use zeroize::Zeroizing;

use crate::endpoint::Endpoint;
use crate::wire::TAG_BYTES;

const ROUTER_KEY: &str = "selfsame/1 rpc router key";
const FORWARD_LABEL: &str = "selfsame/1 rpc forward";
const FEEDBACK_LABEL: &str = "selfsame/1 rpc feedback";

pub(crate) const FORWARD: u8 = 0x64;
pub(crate) const FEEDBACK: u8 = 0x65;
const MAC_BYTES: usize = 16;
/// Bytes that a forward adds to a request.
pub(crate) const FORWARD_BYTES: usize = 1 + 2 * Endpoint::BYTES + MAC_BYTES;

/// A request that came through a router, as far as its answer must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    /// The router, which waits for feedback.
    pub(crate) router: Endpoint,
    pub(crate) tag: Tag,
    /// Where the client reaches this server: no client goes where an answer only seems to come from.
    pub(crate) server: Endpoint,
}

/// The tag at the end of a sealed request, which nothing else ends with.
pub(crate) type Tag = [u8; TAG_BYTES];

/// A secret that the routers and replicas of a service share.
pub(crate) struct RouterKey(Zeroizing<[u8; 32]>);

/// A request that a router passes on, with the address that its answer goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forward<'a> {
    pub(crate) client: Endpoint,
    /// Where the client reaches the server.
    pub(crate) server: Endpoint,
    pub(crate) request: &'a [u8],
}

/// What a server says when it is done with a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// Of the request.
    pub(crate) tag: Tag,
    /// Calls that it is carrying out still.
    pub(crate) running: u16,
}

impl RouterKey {
    /// The key that follows from a secret of the service.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self(Zeroizing::new(derive_key(ROUTER_KEY, secret)))
    }

    fn mac(&self, label: &str, parts: [&[u8]; 3]) -> [u8; MAC_BYTES] {
        let mut input = [0; 96];
        let mut len = 0;
        for part in [label.as_bytes(), parts[0], parts[1], parts[2]] {
            input[len..][..part.len()].copy_from_slice(part);
            len += part.len();
        }
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&keyed(&self.0, &input[..len])[..MAC_BYTES]);
        mac
    }

    /// Appends a forward. The request's own tag stands for all of it.
    pub(crate) fn write_forward(&self, forward: Forward<'_>, out: &mut Vec<u8>) {
        let Forward {
            client,
            server,
            request,
        } = forward;
        out.push(FORWARD);
        out.extend_from_slice(&client.0);
        out.extend_from_slice(&server.0);
        let tag = tag_of(request).unwrap_or_default();
        out.extend_from_slice(&self.mac(FORWARD_LABEL, [&client.0, &server.0, &tag]));
        out.extend_from_slice(request);
    }

    /// Reads a forward that was written with this key.
    pub(crate) fn read_forward<'a>(&self, bytes: &'a [u8]) -> Result<Forward<'a>, Malformed> {
        let mut reader = Reader::new(bytes.strip_prefix(&[FORWARD]).ok_or(Malformed)?);
        let (client, server) = (Endpoint(reader.array()?), Endpoint(reader.array()?));
        let mac: [u8; MAC_BYTES] = reader.array()?;
        let request = reader.rest();
        let tag = tag_of(request).ok_or(Malformed)?;
        let is_right = memory::equal(&mac, &self.mac(FORWARD_LABEL, [&client.0, &server.0, &tag]));
        is_right
            .then_some(Forward {
                client,
                server,
                request,
            })
            .ok_or(Malformed)
    }

    /// Appends a feedback.
    pub(crate) fn write_feedback(&self, feedback: Feedback, out: &mut Vec<u8>) {
        let running = feedback.running.to_le_bytes();
        out.push(FEEDBACK);
        out.extend_from_slice(&feedback.tag);
        feedback.running.write(out);
        out.extend_from_slice(&self.mac(FEEDBACK_LABEL, [&feedback.tag, &running, &[]]));
    }

    /// Reads a feedback that was written with this key.
    pub(crate) fn read_feedback(&self, bytes: &[u8]) -> Result<Feedback, Malformed> {
        let mut reader = Reader::new(bytes.strip_prefix(&[FEEDBACK]).ok_or(Malformed)?);
        let (tag, running): (Tag, u16) = (reader.array()?, reader.field()?);
        let mac: [u8; MAC_BYTES] = reader.array()?;
        reader.finish()?;
        let expected = self.mac(FEEDBACK_LABEL, [&tag, &running.to_le_bytes(), &[]]);
        memory::equal(&mac, &expected)
            .then_some(Feedback { tag, running })
            .ok_or(Malformed)
    }
}

impl fmt::Debug for RouterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RouterKey(..)")
    }
}

/// Returns the tag of a request datagram.
pub(crate) fn tag_of(request: &[u8]) -> Option<Tag> {
    request.last_chunk().copied()
}
