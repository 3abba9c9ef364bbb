//! Records that are made one at a time, where a writer makes those of a command together.

use selfsame_capsule::Result;
use selfsame_capsule::writer::{Backpointers, Writer, Written};

/// Makes a record of content
pub(crate) trait WriteOne {
    /// # Errors
    /// Those of [`Writer::write_each`].
    fn write(&mut self, content: &[u8], backpointers: &Backpointers, salt: &[u8; 16]) -> Result<Written>;
}

impl WriteOne for Writer {
    fn write(&mut self, content: &[u8], backpointers: &Backpointers, salt: &[u8; 16]) -> Result<Written> {
        let mut written = None;
        self.write_each(&[(content, *salt)], backpointers, &mut |name, record| {
            written = Some(Written {
                name: *name,
                header: record.header.encoded().to_vec(),
                body: record.body.to_vec(),
            });
        })?;
        Ok(written.expect("a record of each content"))
    }
}
