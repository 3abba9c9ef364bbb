/// Whose fault an error is; the only part of an error that a peer is told
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// The application or host used the core wrongly.
    Usage = 1,
    /// Bytes from outside do not follow the specification.
    Malformed = 2,
    /// A peer sent well-formed bytes that it must not send.
    Misbehaved = 3,
    /// A peer speaks another network, version or suite, or is another peer.
    Incompatible = 4,
    /// Nobody answered.
    Unreachable = 5,
    /// A limit was reached.
    Limit = 6,
    /// The store failed.
    Store = 7,
    /// A service refused or is not there.
    Service = 8,
}

macro_rules! codes {
    ($( $(#[doc = $doc:literal])+ $value:literal $name:ident $text:literal )*) => {
        /// The table of error codes; the high byte is the [`Class`]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Code {
            $( $(#[doc = $doc])+ $name = $value ),*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$( Self::$name ),*];

            /// The code with this number.
            #[must_use]
            pub fn from_u16(value: u16) -> Option<Self> {
                match value {
                    $( $value => Some(Self::$name), )*
                    _ => None,
                }
            }

            /// Stable name for programs, in CamelCase.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name) ),* }
            }

            /// What happened and what to do, for the operator.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $( Self::$name => $text ),* }
            }
        }
    };
}

codes! {
    /// An input's payload does not fit its kind.
    0x0101 BadInput "the host sent an input that does not decode: host and core.wasm are of different versions"
    /// A command names a stream that is not open.
    0x0102 UnknownStream "the stream is not open any more"
    /// A command names a path that is not open.
    0x0103 UnknownPath "the path is not open"
    /// More bytes than the credit allows.
    0x0104 OverCredit "more bytes were sent on a stream than its credit allows: wait for StreamCredit"
    /// The configuration is not usable.
    0x0105 BadConfig "the configuration is not usable"
    /// A name is empty, too long or not lower-case letters, digits, dots and hyphens.
    0x0106 BadName "a service name has 1 to 63 characters out of a-z, 0-9, '-' and '.'"
    /// An address is not a URL of a scheme that is known.
    0x0107 BadAddress "an address is a URL such as wss://host/path#peer-id"
    /// A bootstrap without a peer id.
    0x0108 UnpinnedBootstrap "the bootstrap has no #peer-id: append it, or allow trustOnFirstUse"
    /// The node has not joined yet.
    0x0109 NotJoined "the node is not in a ring: join first"
    /// The command was cancelled.
    0x010A Cancelled "the command was cancelled"
    /// A leaf was asked to do what only members can.
    0x010B NotMember "only a member of the ring can do this"
    /// A grant that does not fit this node.
    0x010C BadGrant "the grant is for another peer, name or network, or has expired: ask the owner for a new one"
    /// Another run of this node lives, and was there first or took over.
    0x010D DuplicateIdentity "another node runs with this node's identity: stop it, give this one a folder of its own, or start this one so that it takes over"
    /// A domain is none.
    0x010E BadDomain "a domain has labels of 1 to 63 letters, digits and hyphens between dots, and at most 200 characters"

    /// A frame or message does not decode.
    0x0201 BadFrame "a frame does not follow the specification"
    /// A message is not in its one deterministic encoding.
    0x0202 BadMessage "a message does not follow the specification"
    /// A record, association or grant does not decode.
    0x0203 BadRecord "a record does not follow the specification"
    /// A frame is larger than its limit.
    0x0204 FrameTooLarge "a frame is larger than the limit"

    /// The metadata of a capsule does not decode.
    0x0205 BadMetadata "the metadata of a capsule does not follow the specification"
    /// The header of a record does not decode.
    0x0206 BadHeader "the header of a record does not follow the specification"
    /// A Merkle tree or a path in it does not fit.
    0x0207 BadTree "a tree of sub-records, or a path in it, does not fit its record"
    /// An epoch record does not decode, or does not follow the one before it.
    0x0208 BadEpoch "an epoch record does not follow the specification or the epoch record before it"
    /// A reader's public key is none.
    0x0209 BadReaderKey "a reader's public key is not usable: ask the reader for it again"
    /// A file of a capsule does not follow the specification.
    0x020A BadFile "the file of a capsule does not follow the specification"
    /// A certificate does not decode, or is of another key.
    0x020B BadCertificate "a certificate of admission does not follow the specification, or is of another key"
    /// A message of DNS does not decode.
    0x020C BadDnsMessage "a name server's answer does not follow the format of DNS: ask another one"
    /// A TXT record begins as a value of ours and is none.
    0x020D BadDnsValue "a TXT record holds no value after selfsame1=: write it to the zone again"

    /// A packet does not open with the session's key.
    0x0301 BadSeal "a packet does not open with the session's key"
    /// A packet was seen before or is too old.
    0x0302 Replayed "a packet was seen before or is older than the window"
    /// A signature does not verify.
    0x0303 BadSignature "a signature does not verify"
    /// A handshake message does not verify.
    0x0304 BadHandshake "a handshake message does not verify"
    /// A peer sent more than its credit.
    0x0305 PeerOverCredit "the peer sent more than its credit allows"
    /// A stream frame that fits no stream.
    0x0306 BadStream "the peer used a stream against its rules"
    /// A record is expired, not yet valid, or older than one already known.
    0x0307 StaleRecord "a record has expired, is from the future, or is older than one already known"
    /// A record claims an address that nobody may be sent to.
    0x0308 ForbiddenAddress "a record holds a private, loopback or metadata address: allow private addresses if that is meant"
    /// An answer makes no progress towards the id that was looked up.
    0x0309 NoProgress "an answer came no closer to the id that was looked up"
    /// A cookie does not fit.
    0x030A BadCookie "a handshake cookie does not fit"
    /// A frame for a session that does not exist.
    0x030B UnknownSession "a frame for a session that does not exist"
    /// A store for an id that another node is responsible for.
    0x030C NotResponsible "another node is responsible for this id"

    /// A body is not the one that its header points to.
    0x030D BadBody "a body is not the one that its header points to"
    /// A proof leads elsewhere.
    0x030E BadProof "a proof does not lead to the record"
    /// A proof begins with a name that the reader has not verified.
    0x030F UnknownAnchor "a proof begins with a record that was not verified here: ask for a whole proof"
    /// Somebody signed who may not write.
    0x0310 NotAWriter "who signed the record is no writer of the capsule"
    /// A writer signed who was revoked.
    0x0311 RevokedWriter "who signed the record has been revoked as a writer of the capsule"
    /// Evidence against a writer does not hold.
    0x0312 BadFork "two records do not show that a writer has used a sequence number twice"
    /// A server knows less of a capsule than was seen before.
    0x0313 RolledBack "the replica does not have what was seen before: ask another one"
    /// A node's record is older than one that others hold.
    0x0314 Superseded "a newer record of this node is known: it was restored, moved or copied, or its clock was ahead"

    /// A certificate's seat is not that of its address.
    0x0315 WrongSeat "a certificate gives a node a seat that is not that of its address"
    /// An answer of DNS is for another query.
    0x0316 WrongDnsAnswer "an answer of DNS is for another query: a delayed or forged one"
    /// A certificate was revoked.
    0x0317 RevokedCertificate "the certificate of admission was revoked"
    /// A node takes a part in the ring that its certificate does not give it.
    0x0318 WrongRole "a node is a member of the ring and its certificate is a leaf's, or the other way round"
    /// A list of revocations is older than one that is known.
    0x0319 StaleRevocations "a list of revocations is older than the one that is known: an authority never uses a serial twice"
    /// A record names addresses that its certificate does not.
    0x031A WrongAddress "a node uses an address that its certificate does not name: ask the authority for a new certificate"
    /// A peer has signed two leases that contradict each other.
    0x031B Convicted "the peer has signed two different leases for one epoch: find out why, and have the authority certify it anew"
    /// A lease's list of members is not in order.
    0x031C BadGroup "a group's list is out of order, names a member twice, or does not have its leader in the middle"
    /// A lease names somebody whom the network has not admitted.
    0x031D StrangerInGroup "a group's list names a peer of which no certificate is known"
    /// What is to convict a peer does not.
    0x031E BadEvidence "two leases do not contradict each other, or are not of the certificate beside them"
    /// A routed frame has come to where it was, or from somebody to whom it must not go.
    0x031F RouteCircle "a routed frame did not come closer to its target: who passed it on knows the ring badly, or misleads"
    /// A routed frame may take more hops than any ring needs.
    0x0320 RouteTooLong "a routed frame asks for more hops than any ring needs"

    /// The peer is in another network.
    0x0401 WrongNetwork "the peer is in another network: compare the network's name, admission mode and constants"
    /// Another peer answers at this address.
    0x0402 WrongPeer "another peer answers at this address: the #peer-id is wrong, or the address is somebody else's"
    /// The peer speaks another version of the protocol.
    0x0403 WrongVersion "the peer speaks another version of the protocol: upgrade the older one"
    /// The peer speaks another suite.
    0x0404 WrongSuite "the peer speaks another suite of algorithms"
    /// A clock is wrong, here or at a peer.
    0x0405 WrongClock "the clocks of this node and of a peer differ by more than a minute: set the one that is wrong"

    /// A certificate is of another authority than the network's.
    0x0406 WrongIssuer "a certificate of admission is of another authority than the network's: compare their public keys"
    /// A node of a closed network has no certificate.
    0x0407 NoCertificate "the network is closed and there is no certificate of admission: ask its authority for one"
    /// A certificate does not count yet.
    0x0408 EarlyCertificate "a certificate of admission does not count yet: compare the clocks of the authority and this node"
    /// A certificate has expired.
    0x0409 ExpiredCertificate "a certificate of admission has expired: ask the network's authority for a new one"

    /// No path to the peer could be opened.
    0x0501 DialFailed "no path to the peer could be opened: is it running, and is its address right?"
    /// The peer did not answer in time.
    0x0502 TimedOut "the peer did not answer in time"
    /// The path or session ended while an answer was awaited.
    0x0503 Disconnected "the connection to the peer ended"
    /// The peer cannot be dialled from here and is attached to no member that is known.
    0x0504 NoRoute "no address of the peer can be dialled from here"
    /// No bootstrap answered.
    0x0505 NoBootstrap "no bootstrap answered: check their addresses and that one of them runs"
    /// A peer said that it cannot go on with the session.
    0x0506 PeerClosed "the peer closed the session"
    /// Too few servers have confirmed.
    0x0507 NoQuorum "too few replicas have confirmed"
    /// A call that is not idempotent was sent, and nobody can tell whether it was carried out.
    0x0508 OutcomeUnknown "the call may have been carried out, or not: ask the service before you repeat it"
    /// A routed frame has no hops left.
    0x0509 RouteExpired "a routed frame has used up its hops before it came to its target"
    /// A routed frame has no next hop.
    0x050A NoNextHop "no session leads closer to the target of a routed frame: it is gone, or the ring is being mended"

    /// Too many half-open handshakes.
    0x0601 TooManyHandshakes "too many handshakes are half open"
    /// Too many sessions.
    0x0602 TooManySessions "too many sessions are open"
    /// Too many streams.
    0x0603 TooManyStreams "too many streams are open with this peer"
    /// Too many paths.
    0x0604 TooManyPaths "too many paths are open"
    /// Too many associations.
    0x0605 TooManyAssociations "too many associations are stored under this id"
    /// Too many commands or messages are in flight.
    0x0606 TooManyRequests "too many requests are in flight"
    /// A value is larger than its limit.
    0x0607 TooLarge "a value is larger than its limit"
    /// The random bytes are used up.
    0x0608 NoEntropy "the host has not given fresh random bytes"
    /// Too many calls of a service are retries.
    0x0609 RetryBudget "too large a share of the calls of this service had to be tried again: its providers fail, see their logs"
    /// A capsule has too many records that nobody has signed.
    0x060A TooManyUnsigned "too many records of the capsule are not signed: sign the last one"
    /// A previous hop routes more than its share.
    0x060B RouteOverload "more is routed through this member than it passes on for one of its peers"

    /// The store failed.
    0x0701 StoreFailed "the store failed: see the host's log"
    /// What the store holds does not decode.
    0x0702 StoreCorrupt "the store holds bytes that this node did not write: restore a copy, or move it away and let the node fetch its state anew"
    /// What the store holds was written by a newer version.
    0x0703 StoreTooNew "the store was written by a newer version: run that version"

    /// Nobody serves the name.
    0x0801 NoProvider "nobody serves this name"
    /// The peer does not serve the name.
    0x0802 NoService "the peer does not serve this name"
    /// A provider's proof that it may serve an owned name does not verify.
    0x0803 NotGranted "the peer may not serve this name: its owner has granted it to others"
    /// The application gave the stream up.
    0x0804 StreamRefused "the service gave up the request"
    /// The service's handler failed.
    0x0805 HandlerFailed "the service's handler failed: see its log"
    /// The service did not take the request in time.
    0x0806 Deadline "the deadline passed"
    /// The replica does not have the record.
    0x0807 NoRecord "the replica does not have this record: ask another one"
    /// Nothing that is signed leads to the record.
    0x0808 Unproven "no signature leads to this record yet: ask again when its writer has signed"
    /// The replica does not have the capsule.
    0x0809 NoCapsule "the replica does not have this capsule: ask another one, or create it"
    /// The reader has no key of the epoch.
    0x080A NotAReader "the epoch's key was not granted: ask the owner"
    /// The replica holds only capsules of certain owners.
    0x080B OwnerRefused "the replica holds no capsules of this owner: use another one, or ask who runs it"
    /// The name server failed.
    0x080C DnsFailed "the name server could not resolve the name (SERVFAIL): see its log, and whether DNSSEC fails there"
    /// The name server refused.
    0x080D DnsRefused "the name server refuses (REFUSED): allow this machine or key in its configuration"
    /// The name server gave another error.
    0x080E DnsRejected "the name server cannot do what was asked: see its log, and whether it is responsible for the zone"
    /// The name server knows neither the record nor that there is none.
    0x080F DnsNoAnswer "the name server knows neither the record nor that there is none: name a resolver"
    /// The name server does not know the TSIG key.
    0x0810 DnsBadKey "the name server does not know the key (BADKEY): compare its name and algorithm, hmac-sha256"
    /// The name server's key or ours is another one.
    0x0811 DnsBadSignature "the name server and this machine have different secrets of the key (BADSIG), or an answer was changed"
    /// The name server's clock or ours is wrong.
    0x0812 DnsBadTime "the clocks of the name server and this machine differ by more than five minutes (BADTIME)"
}

impl Code {
    /// Number of the code.
    #[must_use]
    pub fn as_u16(self) -> u16 {
        self as u16
    }

    /// Whose fault it is.
    #[must_use]
    pub fn class(self) -> Class {
        match self.as_u16() >> 8 {
            1 => Class::Usage,
            2 => Class::Malformed,
            3 => Class::Misbehaved,
            4 => Class::Incompatible,
            5 => Class::Unreachable,
            6 => Class::Limit,
            7 => Class::Store,
            _ => Class::Service,
        }
    }
}

impl core::fmt::Display for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

impl core::error::Error for Code {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_code() {
        for code in Code::ALL {
            assert_eq!(Code::from_u16(code.as_u16()), Some(*code));
            assert_eq!(code.class() as u16, code.as_u16() >> 8, "{}", code.name());
        }
        assert_eq!(Code::from_u16(0), None);
    }
}
