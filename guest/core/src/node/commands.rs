use selfsame_codec::{Code, Input, MAX_WEIGHT};

use super::Node;
use super::calls::{Request, Target};
use super::connect::Waiter;
use super::ring_driver::Purpose;
use crate::admission::KNOWS_CLOSED;
use crate::grant::{Grant, check_name};
use crate::identity::{PeerId, PublicKey};
use crate::mesh::Name;
use crate::place::Place;
use crate::ring::Service;

impl Node {
    /// Takes a command; what is wrong with it fails the command alone.
    pub(super) fn command(&mut self, input: Input<'_>) -> Result<(), Code> {
        let (Input::Join { tag }
        | Input::Leave { tag }
        | Input::Find { tag, .. }
        | Input::Publish { tag, .. }
        | Input::Withdraw { tag, .. }
        | Input::Call { tag, .. }
        | Input::CallPeer { tag, .. }
        | Input::FindNode { tag, .. }
        | Input::Status { tag }
        | Input::Connect { tag, .. }
        | Input::Cancel { tag }
        | Input::Watch { tag, .. }
        | Input::Certify { tag, .. }
        | Input::Revoke { tag, .. }
        | Input::Route { tag, .. }) = input
        else {
            return Err(Code::BadInput);
        };
        if let Err(code) = self.run_command(input) {
            self.fail(tag, code);
        }
        Ok(())
    }

    fn run_command(&mut self, input: Input<'_>) -> Result<(), Code> {
        match input {
            Input::Join { tag } => self.join(tag),
            Input::Leave { tag } => self.leave(tag),
            Input::Find { tag, owner, name } => {
                let (owner, name) = parse_name(owner, name)?;
                let command = self.ring_command(Purpose::Command(tag));
                let name = (owner, name);
                let is_wide = self.mesh.is_failing(&name);
                self.ring_with(|ring, cx| ring.find_up_to(cx, command, name.0, &name.1, is_wide));
            }
            Input::Publish {
                tag,
                grant,
                name,
                replicas,
                version,
                weight,
            } => {
                if weight > MAX_WEIGHT {
                    return Err(Code::BadInput);
                }
                let (owner, name) = self.publisher_name(grant, name)?;
                let service = Service {
                    name,
                    owner,
                    grant: grant.into(),
                    replicas,
                    version: version.into(),
                    weight,
                };
                let command = self.ring_command(Purpose::Command(tag));
                self.ring_with(|ring, cx| ring.publish(cx, command, service));
            }
            Input::Withdraw { tag, owner, name } => {
                let (owner, name) = parse_name(owner, name)?;
                let command = self.ring_command(Purpose::Command(tag));
                self.ring_with(|ring, cx| ring.withdraw(cx, command, owner, &name));
            }
            Input::FindNode { tag, id } => {
                let command = self.ring_command(Purpose::Command(tag));
                self.ring_with(|ring, cx| ring.find_node(cx, command, Place(id)));
            }
            other => self.run_call_command(other)?,
        }
        Ok(())
    }

    /// Commands that are not for the ring.
    fn run_call_command(&mut self, input: Input<'_>) -> Result<(), Code> {
        match input {
            Input::Call {
                tag,
                owner,
                name,
                key,
                tried,
                policy,
                timeout_ms,
                head,
            } => self.call(Request {
                tag,
                name: parse_name(owner, name)?,
                target: Target::Provider { key, tried, policy },
                timeout_ms,
                head,
            })?,
            Input::CallPeer {
                tag,
                peer,
                owner,
                name,
                timeout_ms,
                head,
            } => self.call(Request {
                tag,
                name: parse_name(owner, name)?,
                target: Target::Peer(PeerId(peer)),
                timeout_ms,
                head,
            })?,
            Input::Watch { tag, owner, name } => {
                let name = parse_name(owner, name)?;
                self.watch_name(tag, name)?;
            }
            Input::Certify { tag, certificate } if KNOWS_CLOSED => {
                self.renew_certificate(tag, certificate)?
            }
            Input::Revoke { tag, list } if KNOWS_CLOSED => self.revoke_command(tag, list)?,
            Input::Route {
                tag,
                target,
                is_peer,
                timeout_ms,
                body,
            } => self.route_command(tag, target, is_peer, timeout_ms, body)?,
            Input::Status { tag } => self.reply_status(tag),
            Input::Connect { tag, peer, address } => self.connect_command(tag, peer, address)?,
            Input::Cancel { tag } => {
                if self.cancel_call(tag) || self.cancel_watch(tag) {
                    self.fail(tag, Code::Cancelled);
                } else if !self.cancel_message(tag) {
                    self.cancel_ring_command(tag);
                }
            }
            _ => return Err(Code::BadInput),
        }
        Ok(())
    }

    fn connect_command(&mut self, tag: u32, peer: [u8; 32], address: &str) -> Result<(), Code> {
        let target = (peer != [0; 32]).then_some(PeerId(peer));
        match (target, address) {
            (Some(target), "") => self.connect(target, Waiter::Command(tag)),
            (None, "") => return Err(Code::BadAddress),
            (None, _) if !self.settings.trust_on_first_use => return Err(Code::UnpinnedBootstrap),
            (target, address) => self.connect_to_address(address, target, Waiter::Command(tag)),
        }
        Ok(())
    }

    /// The name that a grant, or its absence, lets this node publish.
    fn publisher_name(&mut self, grant: &[u8], name: &str) -> Result<Name, Code> {
        if grant.is_empty() {
            return parse_name(&[], name);
        }
        let (_, name) = parse_name(&[], name)?;
        let grant = Grant::decode_with(self.ring.gate(), grant, self.now_ms).map_err(|_| Code::BadGrant)?;
        if grant.terms().peer != self.identity.id() || grant.terms().name != name {
            return Err(Code::BadGrant);
        }
        Ok((Some(grant.owner()), name))
    }
}

fn parse_name(owner: &[u8], name: &str) -> Result<Name, Code> {
    let owner = match owner {
        [] => None,
        owner => Some(PublicKey(owner.try_into().map_err(|_| Code::BadName)?)),
    };
    check_name(name)?;
    Ok((owner, name.into()))
}
