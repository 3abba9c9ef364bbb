//! What a node would do that does not run yet, with the same flags.

use selfsame_host::{Code, Error, Node, resolve_address};
use tokio::time::timeout;

use super::finding::Finding;
use super::{Subject, remedy_of};

const CHECK: &str = "start";

impl Subject {
    /// Whether a node starts with these flags: that it can listen, may tell others its addresses, and is dialled there.
    pub(super) async fn start(&self) -> Vec<Finding> {
        if let Some(finding) = self.role() {
            return vec![finding];
        }
        match self.rehearse().await {
            Ok(addresses) => {
                let text = format!("it would be a member at {}", addresses.join(" "));
                let mut findings = vec![Finding::well(CHECK, text)];
                for address in &addresses {
                    findings.extend(self.resolution(address).await);
                }
                findings
            }
            Err(error) => vec![Finding::wrong(CHECK, error.to_string(), remedy_of_start(&error))],
        }
    }

    /// What there is to say of a node that others cannot dial; `None` of one that is to be a member.
    fn role(&self) -> Option<Finding> {
        let is_member = !self.addresses.is_empty() || self.listen.iter().any(|url| is_dialable(url));
        if is_member {
            return None;
        }
        if !self.listen.is_empty() {
            let text = format!(
                "nobody can dial {}, so the node would be a leaf",
                self.listen.join(" ")
            );
            return Some(Finding::wrong(
                CHECK,
                text,
                "say where others reach it: --address URL",
            ));
        }
        if self.bootstraps.is_empty() {
            let text =
                "a node without an address is a leaf and joins through others, and no bootstrap is given";
            return Some(Finding::wrong(
                CHECK,
                text,
                "--join URL#PEER-ID, or --address URL",
            ));
        }
        let text = "it would be a leaf, which is reached through others";
        Some(Finding::well(CHECK, text))
    }

    /// Starts a node with these flags that joins nobody, and stops it: it changes nothing.
    async fn rehearse(&self) -> Result<Vec<String>, Error> {
        let mut builder = Node::builder(&self.network)
            .in_memory()
            .allow_private(self.allow_private)
            .unowned();
        for url in &self.listen {
            builder = builder.listen(url);
        }
        for url in &self.addresses {
            builder = builder.address(url);
        }
        let started = timeout(self.longest, builder.start()).await;
        let node = started.unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut)))?;
        let addresses = node.addresses().to_vec();
        node.stop().await;
        Ok(addresses)
    }

    /// Whether other nodes dial where the names in a node's addresses lead: by the rule for private addresses that a dialler follows.
    pub(super) async fn resolution(&self, address: &str) -> Option<Finding> {
        let check = "reachability";
        if self.allow_private {
            return None;
        }
        let found = match resolve_address(address).await {
            Ok(found) => found,
            Err(error) => {
                let text = format!("{address}: {error}");
                return Some(Finding::wrong(
                    check,
                    text,
                    "let the name lead to the node, or name another",
                ));
            }
        };
        let private = found.iter().find(|resolved| !resolved.is_public)?;
        let text = format!(
            "{address} leads to {}, a private address, which other nodes do not dial",
            private.ip
        );
        Some(Finding::wrong(
            check,
            text,
            "say at which public one they reach it: --address wss://NAME; or --allow-private in all of them",
        ))
    }
}

/// Whether a URL that is listened on can be dialled: it names an interface and not all of them.
fn is_dialable(url: &str) -> bool {
    let any = ["://0.0.0.0", "://[::]"];
    !any.iter().any(|host| url.contains(host))
}

fn remedy_of_start(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "stop what listens there, or let --listen name another port or address",
        Error::Input(_) => "write it as the text says",
        _ => remedy_of(error),
    }
}
