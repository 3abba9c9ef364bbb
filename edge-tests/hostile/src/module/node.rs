//! The modules of the npm package, in a Node process that runs them as the package does.
//!
//! ```text
//! request:  operation u8 | instance u32 | length u32 | bytes
//! response: 0 u8 | length u32 | bytes, or 1 u8 | length u32 | why it trapped
//! ```

use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Handle, Kind, Module, Trap};

const CREATE: u8 = 1;
const STEP: u8 = 2;
const DESTROY: u8 = 3;
const MEMORY: u8 = 4;

pub(super) struct Node {
    child: Child,
    requests: Option<BufWriter<ChildStdin>>,
    responses: BufReader<ChildStdout>,
}

impl Node {
    pub(super) fn start(kind: Kind) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let name = match kind {
            Kind::Core => "core",
            Kind::Capsule => "capsule",
        };
        // The first one on the path, which `npm run test:hostile` makes the project's own.
        let mut child = Command::new("node")
            .arg("--disable-warning=ExperimentalWarning")
            .arg(folder.join("module.ts"))
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node starts; run this through: npm run test:hostile");
        let (requests, responses) = (child.stdin.take(), child.stdout.take());
        Self {
            child,
            requests: requests.map(BufWriter::new),
            responses: BufReader::new(responses.expect("it is piped")),
        }
    }

    fn ask(&mut self, operation: u8, instance: Handle, bytes: &[u8]) -> Result<Vec<u8>, Trap> {
        let exchanged = self.exchange(operation, instance, bytes);
        exchanged.expect("the Node process lives and answers; what it printed says why not")
    }

    fn exchange(
        &mut self,
        operation: u8,
        instance: Handle,
        bytes: &[u8],
    ) -> std::io::Result<Result<Vec<u8>, Trap>> {
        let length = |len: usize| u32::try_from(len).map_err(std::io::Error::other);
        let requests = self.requests.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
        requests.write_all(&[operation])?;
        requests.write_all(&length(instance)?.to_le_bytes())?;
        requests.write_all(&length(bytes.len())?.to_le_bytes())?;
        requests.write_all(bytes)?;
        requests.flush()?;
        let mut head = [0; 5];
        self.responses.read_exact(&mut head)?;
        let [trapped, len @ ..] = head;
        let mut response = vec![0; u32::from_le_bytes(len) as usize];
        self.responses.read_exact(&mut response)?;
        Ok(if trapped == 0 {
            Ok(response)
        } else {
            Err(Trap(String::from_utf8_lossy(&response).into_owned()))
        })
    }
}

impl Module for Node {
    fn create(&mut self, config: &[u8]) -> Option<Handle> {
        let response = self.ask(CREATE, 0, config).expect("a configuration is no attack");
        Some(u32::from_le_bytes(response.try_into().ok()?) as usize)
    }

    fn step(&mut self, instance: Handle, batch: &[u8]) -> Result<Vec<u8>, Trap> {
        self.ask(STEP, instance, batch)
    }

    fn destroy(&mut self, instance: Handle) {
        self.ask(DESTROY, instance, &[]).expect("it always can");
    }

    fn memory_bytes(&mut self, instance: Handle) -> usize {
        let response = self.ask(MEMORY, instance, &[]).expect("it always can");
        u32::from_le_bytes(response.try_into().expect("4 bytes")) as usize
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process ends when nothing more can come.
        self.requests = None;
        _ = self.child.wait();
    }
}
