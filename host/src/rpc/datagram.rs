//! The part of datagrams that is not sealed, as far as streams need it (docs/specification/rpc.md, "Datagrams").

const WITH_TICKET: u8 = 0x60;
const WITH_SESSION: u8 = 0x61;
const RESPONSE: u8 = 0x62;
const REJECTION: u8 = 0x63;
const TICKET_BYTES: usize = 92;
const SESSION_BYTES: usize = 8;
const COUNTER_BYTES: usize = 8;
const EPOCH_BYTES: usize = 8;
const CALL_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const PART: u8 = 0b1000;
const CONTROL: u8 = 0b1_0000;
const KIND: u8 = 0b11;
const ACKNOWLEDGEMENT: u8 = 1;
/// Number of the control packet that cancels.
const CANCEL_PACKET: [u8; 2] = [0xff; 2];

/// Longest part of a request before its packet number or what is sealed.
const OPEN_BYTES: usize = 2 + TICKET_BYTES + COUNTER_BYTES;

/// The tag at the end of a request, which stands for all of it to who has sealed it.
pub(super) type Tag = [u8; TAG_BYTES];

/// What of a request is not sealed, and its tag: nobody else seals one of which they are the same.
pub(super) type RequestId = [u8; OPEN_BYTES + TAG_BYTES];

/// What a request says openly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    /// Low half of the counter: no two calls of a client that are under way have the same.
    pub(super) call: u32,
    pub(super) tag: Tag,
    pub(super) id: RequestId,
    /// Whether it is one packet of many.
    pub(super) is_part: bool,
    /// Whether it controls a call, in place of making one.
    pub(super) is_control: bool,
    /// Whether it gives a call up.
    pub(super) is_cancel: bool,
}

impl RequestHead {
    /// Reads the head of a request; `None` if a datagram is none.
    pub(super) fn of(datagram: &[u8]) -> Option<Self> {
        let (form, flags) = (*datagram.first()?, *datagram.get(1)?);
        let counter_at = 2 + match form {
            WITH_TICKET => TICKET_BYTES,
            WITH_SESSION => SESSION_BYTES,
            _ => return None,
        };
        let number_bytes = if flags & (PART | CONTROL) == 0 { 0 } else { 2 };
        if datagram.len() < counter_at + COUNTER_BYTES + number_bytes + TAG_BYTES {
            return None;
        }
        let packet_at = counter_at + COUNTER_BYTES;
        let call = datagram.get(counter_at..)?.first_chunk()?;
        let open = datagram.get(..packet_at)?;
        let is_control = flags & CONTROL != 0;
        let tag = *datagram.last_chunk()?;
        let mut id = [0; OPEN_BYTES + TAG_BYTES];
        id[..open.len()].copy_from_slice(open);
        id[OPEN_BYTES..].copy_from_slice(&tag);
        Some(Self {
            call: u32::from_le_bytes(*call),
            tag,
            id,
            is_part: flags & PART != 0,
            is_control,
            is_cancel: is_control && datagram.get(packet_at..packet_at + 2) == Some(&CANCEL_PACKET),
        })
    }
}

/// What a response or a rejection says openly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    /// The call of the request.
    pub(super) call: u32,
    /// Whether nothing follows it.
    pub(super) is_final: bool,
}

impl ResponseHead {
    /// Reads the head of a response or of a rejection; `None` if a datagram is neither.
    pub(super) fn of(datagram: &[u8]) -> Option<Self> {
        let (form, flags) = (*datagram.first()?, *datagram.get(1)?);
        let call_at = match form {
            RESPONSE => 2 + EPOCH_BYTES,
            REJECTION => 2,
            _ => return None,
        };
        if datagram.len() < call_at + CALL_BYTES + TAG_BYTES {
            return None;
        }
        let call = datagram.get(call_at..)?.first_chunk()?;
        let is_whole = flags & KIND != ACKNOWLEDGEMENT && flags & PART == 0;
        Some(Self {
            call: u32::from_le_bytes(*call),
            is_final: form == REJECTION || is_whole,
        })
    }
}

/// Whether a datagram says that a request has arrived, and not what came of it.
pub(super) fn is_acknowledgement(datagram: &[u8]) -> bool {
    matches!(*datagram, [RESPONSE, flags, ..] if flags & KIND == ACKNOWLEDGEMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_a_request_is_read_from_its_least_length_on() {
        for (form, flags, least) in [
            (WITH_TICKET, 0, 118),
            (WITH_TICKET, PART, 120),
            (WITH_SESSION, 0, 34),
            (WITH_SESSION, CONTROL, 36),
        ] {
            let mut datagram = vec![7; least];
            datagram[..2].copy_from_slice(&[form, flags]);
            let head = RequestHead::of(&datagram).expect("a head");
            assert_eq!((head.call, head.tag), (0x0707_0707, [7; TAG_BYTES]));
            let mut other = datagram.clone();
            other[9] = 8;
            assert_ne!(RequestHead::of(&other).expect("a head").id, head.id);
            assert_eq!((head.is_part, head.is_control), (flags == PART, flags == CONTROL));
            assert!(!head.is_cancel);
            for len in 0..least {
                assert_eq!(RequestHead::of(&datagram[..len]), None, "{len} bytes");
            }
        }
        assert_eq!(RequestHead::of(&[RESPONSE; 200]), None);
    }

    #[test]
    fn cancel_is_told_from_other_control_packets() {
        let mut datagram = [7; 36];
        datagram[18..20].copy_from_slice(&CANCEL_PACKET);
        for (flags, is_cancel) in [(CONTROL, true), (0, false), (PART, false)] {
            datagram[..2].copy_from_slice(&[WITH_SESSION, flags]);
            assert_eq!(RequestHead::of(&datagram).expect("a head").is_cancel, is_cancel);
        }
    }

    #[test]
    fn head_of_a_response_is_read_from_its_least_length_on() {
        for (form, flags, least, is_final) in [
            (RESPONSE, 0, 30, true),
            (RESPONSE, ACKNOWLEDGEMENT, 30, false),
            (RESPONSE, PART, 30, false),
            (REJECTION, 1, 22, true),
        ] {
            let mut datagram = vec![7; least];
            datagram[..2].copy_from_slice(&[form, flags]);
            let head = ResponseHead::of(&datagram).expect("a head");
            assert_eq!((head.call, head.is_final), (0x0707_0707, is_final));
            for len in 0..least {
                assert_eq!(ResponseHead::of(&datagram[..len]), None, "{len} bytes");
            }
        }
        assert_eq!(ResponseHead::of(&[WITH_TICKET; 200]), None);
    }

    #[test]
    fn acknowledgements_are_told_from_outcomes() {
        assert!(is_acknowledgement(&[RESPONSE, 0b1001, 0]));
        for other in [&[][..], &[RESPONSE], &[RESPONSE, 0], &[RESPONSE, 2], &[0x63, 1]] {
            assert!(!is_acknowledgement(other), "{other:?}");
        }
    }
}
