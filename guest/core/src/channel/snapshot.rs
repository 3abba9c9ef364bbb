//! A session as bytes, for hosts that lose their memory between two frames.

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_sodium::aead::Key;

use super::replay::ReplayWindow;
use super::session::{ReceiveKey, SendKey, Session, Side};
use crate::identity::Admitted;
use crate::identity::{PeerId, PublicKey};

const VERSION: u8 = 2;

impl Session {
    /// Appends the keys and counters. The bytes are secret, and stale as soon as another packet is sealed or opened.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.peer.0.write(out);
        self.peer_key.0.write(out);
        self.admitted.since_ms.write(out);
        self.admitted.until_ms.write(out);
        out.push(u8::from(self.side == Side::Responder));
        self.peer_index.write(out);
        self.id.write(out);
        self.send.key.as_bytes().write(out);
        self.send.phase.write(out);
        self.send.counter.write(out);
        self.send.rekey_at.write(out);
        self.send.since_ms.write(out);
        self.receive.key.as_bytes().write(out);
        self.receive.phase.write(out);
        let (next, seen) = self.receive.window.to_parts();
        next.write(out);
        seen.iter().for_each(|word| word.write(out));
    }

    /// Reads what [`Session::save`] wrote. A previous key is not kept: paths that are saved keep the order.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are none of this version.
    pub fn load(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if reader.field::<u8>()? != VERSION {
            return Err(Malformed);
        }
        Ok(Self {
            peer: PeerId(reader.field()?),
            peer_key: PublicKey(reader.field()?),
            admitted: Admitted {
                since_ms: reader.field()?,
                until_ms: reader.field()?,
            },
            side: if reader.field::<bool>()? {
                Side::Responder
            } else {
                Side::Initiator
            },
            peer_index: reader.field()?,
            id: reader.field()?,
            send: SendKey {
                key: Key::new(reader.field()?),
                phase: reader.field()?,
                counter: reader.field()?,
                rekey_at: reader.field()?,
                since_ms: reader.field()?,
            },
            receive: ReceiveKey {
                key: Key::new(reader.field()?),
                phase: reader.field()?,
                previous: None,
                window: {
                    let next = reader.field()?;
                    let mut seen = [0; 32];
                    for word in &mut seen {
                        *word = reader.field()?;
                    }
                    ReplayWindow::from_parts(next, seen)
                },
            },
        })
    }
}
