//! Bodies of replies to commands.
//!
//! ```cddl
//! node      = [id: bytes .size 32, role: 0 / 1, addresses: [* text], domain: text]
//! found-node = [node, hops: uint]
//! duplicate = [node, node]
//! providers = [* [peer: bytes .size 32, version: text, weight: 0..10000, node / null, ejected: bool, in-flight: uint,
//!              latency-ms: uint / null]]
//! status    = [id: bytes .size 32, network: text, role: 0 / 1, joined: bool, addresses: [* text],
//!              predecessor: node / null, successors: [* node], fingers: [* node], relays: [* node],
//!              peers: [* bytes .size 32], services: [* [name: text, version: text, weight: uint]],
//!              objects: uint, counters: [* [code: uint, uint]], membership / null]
//! membership = [authority: bytes .size 32, since-ms: uint, until-ms: uint, serial: uint, revoked: uint,
//!               neighbours: [* [id: bytes .size 32, since-ms: uint, until-ms: uint]]]
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{Decoder, Encoder};
use crate::config::Role;
use crate::field::Malformed;

mod membership;
pub use membership::{Membership, Validity};

/// Longest list in a reply; the core's own limits are below it.
const MAX_ITEMS: usize = 65_536;
/// Longest text in a reply.
const MAX_TEXT: usize = 1024;

/// A node of the ring, as its signed record describes it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Peer id.
    pub id: [u8; 32],
    /// Member or leaf.
    pub role: Role,
    /// URLs at which it can be dialled.
    pub addresses: Vec<String>,
    /// Label of what fails together with it.
    pub domain: String,
}

/// A peer that serves a name
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Peer id.
    pub peer: [u8; 32],
    /// Version it serves; may be empty.
    pub version: String,
    /// Share of the requests that its version gets, in ten-thousandths; versions of 10,000 share what others leave.
    pub weight: u16,
    /// Where it is, if the association said so.
    pub node: Option<Node>,
    /// Whether it gets no requests for a while, because it failed.
    pub ejected: bool,
    /// Requests of this node that it has not answered whole.
    pub in_flight: u32,
    /// How long its answers took to begin lately; `None` when it was not asked.
    pub latency_ms: Option<u32>,
}

/// A name that this node publishes
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name.
    pub name: String,
    /// Version; may be empty.
    pub version: String,
    /// Weight.
    pub weight: u16,
}

/// What a node knows of itself and the ring
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its peer id.
    pub id: [u8; 32],
    /// Name of the network.
    pub network: String,
    /// Member or leaf.
    pub role: Role,
    /// Whether it has joined.
    pub joined: bool,
    /// Its own addresses.
    pub addresses: Vec<String>,
    /// The member before it on the ring.
    pub predecessor: Option<Node>,
    /// The members after it, nearest first.
    pub successors: Vec<Node>,
    /// Members further away, each once.
    pub fingers: Vec<Node>,
    /// Members that relay for this leaf.
    pub relays: Vec<Node>,
    /// Peers with a live session.
    pub peers: Vec<[u8; 32]>,
    /// Names it publishes.
    pub services: Vec<Service>,
    /// Associations that it stores for others.
    pub objects: u64,
    /// How often each [`Code`](crate::Code) occurred since the start.
    pub counters: Vec<(u16, u64)>,
    /// How a closed network admits it; none in an open one.
    pub membership: Option<Membership>,
}

/// A [`Node`] to be encoded
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Peer id.
    pub id: [u8; 32],
    /// Member or leaf.
    pub role: Role,
    /// URLs at which it can be dialled.
    pub addresses: &'a [String],
    /// Label of what fails together with it.
    pub domain: &'a str,
}

/// A [`Provider`] to be encoded
#[derive(Clone, Copy, Debug)]
pub struct ProviderView<'a> {
    /// Peer id.
    pub peer: [u8; 32],
    /// Version it serves; may be empty.
    pub version: &'a str,
    /// Share of the requests that its version gets, in ten-thousandths.
    pub weight: u16,
    /// Where it is, if the association said so.
    pub node: Option<NodeView<'a>>,
    /// Whether it gets no requests for a while, because it failed.
    pub ejected: bool,
    /// Requests of this node that it has not answered whole.
    pub in_flight: u32,
    /// How long its answers took to begin lately; `None` when it was not asked.
    pub latency_ms: Option<u32>,
}

/// A [`Service`] to be encoded
#[derive(Clone, Copy, Debug)]
pub struct ServiceView<'a> {
    /// The name.
    pub name: &'a str,
    /// Version; may be empty.
    pub version: &'a str,
    /// Weight.
    pub weight: u16,
}

/// A [`Status`] to be encoded
#[derive(Clone, Debug)]
pub struct StatusView<'a> {
    /// This node; its label is not part of the status.
    pub own: NodeView<'a>,
    /// Name of the network.
    pub network: &'a str,
    /// Whether it has joined.
    pub joined: bool,
    /// The member before it on the ring.
    pub predecessor: Option<NodeView<'a>>,
    /// Successors, fingers and relays.
    pub nodes: [Vec<NodeView<'a>>; 3],
    /// Peers with a live session.
    pub peers: Vec<[u8; 32]>,
    /// Names it publishes.
    pub services: Vec<ServiceView<'a>>,
    /// Associations that it stores for others.
    pub objects: u64,
    /// How often each code occurred.
    pub counters: Vec<(u16, u64)>,
    /// How a closed network admits it.
    pub membership: Option<Membership>,
}

impl NodeView<'_> {
    /// Appends the node.
    pub fn encode_into(&self, encoder: &mut Encoder<'_>) {
        encoder.array(4).bytes(&self.id).uint(encode_role(self.role));
        encode_texts(encoder, self.addresses);
        encoder.text(self.domain);
    }
}

impl Node {
    /// The node, lent to be encoded.
    #[must_use]
    pub fn view(&self) -> NodeView<'_> {
        NodeView {
            id: self.id,
            role: self.role,
            addresses: &self.addresses,
            domain: &self.domain,
        }
    }

    /// Reads a node.
    ///
    /// # Errors
    /// [`Malformed`] when the next value is none.
    pub fn decode_from(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        decoder.array_of(4)?;
        Ok(Self {
            id: decoder.fixed()?,
            role: decode_role(decoder)?,
            addresses: decode_texts(decoder)?,
            domain: decoder.text(MAX_TEXT)?.into(),
        })
    }
}

impl Provider {
    /// The provider, lent to be encoded.
    #[must_use]
    pub fn view(&self) -> ProviderView<'_> {
        ProviderView {
            peer: self.peer,
            version: &self.version,
            weight: self.weight,
            node: self.node.as_ref().map(Node::view),
            ejected: self.ejected,
            in_flight: self.in_flight,
            latency_ms: self.latency_ms,
        }
    }
}

impl Service {
    /// The service, lent to be encoded.
    #[must_use]
    pub fn view(&self) -> ServiceView<'_> {
        ServiceView {
            name: &self.name,
            version: &self.version,
            weight: self.weight,
        }
    }
}

/// Encodes the reply to `FindNode`: the node, and how many members were asked until it was found.
#[must_use]
pub fn encode_found_node(node: &NodeView<'_>, hops: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(2);
    node.encode_into(&mut encoder);
    encoder.uint(u64::from(hops));
    out
}

/// Encodes the body of the event `DuplicateIdentity`: one node as two records of it describe it.
#[must_use]
pub fn encode_duplicate(nodes: [NodeView<'_>; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(2);
    nodes.iter().for_each(|node| node.encode_into(&mut encoder));
    out
}

/// Decodes the body of the event `DuplicateIdentity`.
///
/// # Errors
/// [`Malformed`] when the bytes are none.
pub fn decode_duplicate(bytes: &[u8]) -> Result<[Node; 2], Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let nodes = [Node::decode_from(&mut decoder)?, Node::decode_from(&mut decoder)?];
    decoder.finish()?;
    Ok(nodes)
}

/// Decodes the reply to `FindNode`.
///
/// # Errors
/// [`Malformed`] when the bytes are none.
pub fn decode_found_node(bytes: &[u8]) -> Result<(Node, u32), Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let found = (Node::decode_from(&mut decoder)?, decode_u32(&mut decoder)?);
    decoder.finish()?;
    Ok(found)
}

/// Encodes the reply to `Find`.
#[must_use]
pub fn encode_providers(providers: &[ProviderView<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(providers.len());
    for provider in providers {
        encoder
            .array(7)
            .bytes(&provider.peer)
            .text(provider.version)
            .uint(u64::from(provider.weight));
        encode_option(&mut encoder, provider.node.as_ref());
        encoder.bool(provider.ejected).uint(u64::from(provider.in_flight));
        match provider.latency_ms {
            Some(latency_ms) => encoder.uint(u64::from(latency_ms)),
            None => encoder.null(),
        };
    }
    out
}

/// Decodes the reply to `Find`.
///
/// # Errors
/// [`Malformed`] when the bytes are none.
pub fn decode_providers(bytes: &[u8]) -> Result<Vec<Provider>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let providers = decode_list(&mut decoder, |decoder| {
        decoder.array_of(7)?;
        Ok(Provider {
            peer: decoder.fixed()?,
            version: decoder.text(MAX_TEXT)?.into(),
            weight: decode_weight(decoder)?,
            node: decode_option(decoder)?,
            ejected: decoder.bool()?,
            in_flight: decode_u32(decoder)?,
            latency_ms: if decoder.null() {
                None
            } else {
                Some(decode_u32(decoder)?)
            },
        })
    })?;
    decoder.finish()?;
    Ok(providers)
}

impl StatusView<'_> {
    /// Encodes the reply to `Status`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(14)
            .bytes(&self.own.id)
            .text(self.network)
            .uint(encode_role(self.own.role))
            .bool(self.joined);
        encode_texts(&mut encoder, self.own.addresses);
        encode_option(&mut encoder, self.predecessor.as_ref());
        for nodes in &self.nodes {
            encoder.array(nodes.len());
            nodes.iter().for_each(|node| node.encode_into(&mut encoder));
        }
        encoder.array(self.peers.len());
        for peer in &self.peers {
            encoder.bytes(peer);
        }
        encoder.array(self.services.len());
        for service in &self.services {
            encoder
                .array(3)
                .text(service.name)
                .text(service.version)
                .uint(u64::from(service.weight));
        }
        encoder.uint(self.objects).array(self.counters.len());
        for (code, total) in &self.counters {
            encoder.array(2).uint(u64::from(*code)).uint(*total);
        }
        match &self.membership {
            Some(membership) => membership.encode_into(&mut encoder),
            None => _ = encoder.null(),
        }
        out
    }
}

impl Status {
    /// The status, lent to be encoded.
    #[must_use]
    pub fn view(&self) -> StatusView<'_> {
        let own = NodeView {
            id: self.id,
            role: self.role,
            addresses: &self.addresses,
            domain: "",
        };
        let nodes = [&self.successors, &self.fingers, &self.relays];
        StatusView {
            own,
            network: &self.network,
            joined: self.joined,
            predecessor: self.predecessor.as_ref().map(Node::view),
            nodes: nodes.map(|nodes| nodes.iter().map(Node::view).collect()),
            peers: self.peers.clone(),
            services: self.services.iter().map(Service::view).collect(),
            objects: self.objects,
            counters: self.counters.clone(),
            membership: self.membership.clone(),
        }
    }

    /// Decodes the reply to `Status`.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(14)?;
        let status = Self {
            id: decoder.fixed()?,
            network: decoder.text(MAX_TEXT)?.into(),
            role: decode_role(&mut decoder)?,
            joined: decoder.bool()?,
            addresses: decode_texts(&mut decoder)?,
            predecessor: decode_option(&mut decoder)?,
            successors: decode_list(&mut decoder, Node::decode_from)?,
            fingers: decode_list(&mut decoder, Node::decode_from)?,
            relays: decode_list(&mut decoder, Node::decode_from)?,
            peers: decode_list(&mut decoder, Decoder::fixed)?,
            services: decode_list(&mut decoder, |decoder| {
                decoder.array_of(3)?;
                Ok(Service {
                    name: decoder.text(MAX_TEXT)?.into(),
                    version: decoder.text(MAX_TEXT)?.into(),
                    weight: decode_weight(decoder)?,
                })
            })?,
            objects: decoder.uint()?,
            counters: decode_list(&mut decoder, |decoder| {
                decoder.array_of(2)?;
                let code = u16::try_from(decoder.uint()?).map_err(|_| Malformed)?;
                Ok((code, decoder.uint()?))
            })?,
            membership: if decoder.null() {
                None
            } else {
                Some(Membership::decode_from(&mut decoder)?)
            },
        };
        decoder.finish()?;
        Ok(status)
    }
}

fn encode_texts(encoder: &mut Encoder<'_>, texts: &[String]) {
    encoder.array(texts.len());
    for text in texts {
        encoder.text(text);
    }
}

fn encode_role(role: Role) -> u64 {
    u64::from(role == Role::Member)
}

fn encode_option(encoder: &mut Encoder<'_>, node: Option<&NodeView<'_>>) {
    match node {
        Some(node) => node.encode_into(encoder),
        None => _ = encoder.null(),
    }
}

fn decode_role(decoder: &mut Decoder<'_>) -> Result<Role, Malformed> {
    Ok(if decoder.uint_max(1)? == 1 {
        Role::Member
    } else {
        Role::Leaf
    })
}

fn decode_u32(decoder: &mut Decoder<'_>) -> Result<u32, Malformed> {
    u32::try_from(decoder.uint()?).map_err(|_| Malformed)
}

fn decode_weight(decoder: &mut Decoder<'_>) -> Result<u16, Malformed> {
    u16::try_from(decoder.uint()?).map_err(|_| Malformed)
}

fn decode_texts(decoder: &mut Decoder<'_>) -> Result<Vec<String>, Malformed> {
    decode_list(decoder, |decoder| decoder.text(MAX_TEXT).map(String::from))
}

fn decode_option(decoder: &mut Decoder<'_>) -> Result<Option<Node>, Malformed> {
    if decoder.null() {
        Ok(None)
    } else {
        Node::decode_from(decoder).map(Some)
    }
}

fn decode_list<'a, T>(
    decoder: &mut Decoder<'a>,
    mut item: impl FnMut(&mut Decoder<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let len = decoder.array(MAX_ITEMS)?;
    (0..len).map(|_| item(decoder)).collect()
}
