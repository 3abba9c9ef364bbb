import { problem } from "./problem.ts";

/** Whose fault an error is; the only part of an error that a peer is told. */
export type ErrorClass =
  | "Usage"
  | "Malformed"
  | "Misbehaved"
  | "Incompatible"
  | "Unreachable"
  | "Limit"
  | "Store"
  | "Service";

const classes: readonly ErrorClass[] = [
  "Usage",
  "Malformed",
  "Misbehaved",
  "Incompatible",
  "Unreachable",
  "Limit",
  "Store",
  "Service",
];

// The table of `guest/codec/src/code.rs`; golden vectors keep the two equal.
const table = {
  BadInput: [
    0x0101,
    "the host sent an input that does not decode: host and core.wasm are of different versions",
  ],
  UnknownStream: [0x0102, "the stream is not open any more"],
  UnknownPath: [0x0103, "the path is not open"],
  OverCredit: [0x0104, "more bytes were sent on a stream than its credit allows: wait for StreamCredit"],
  BadConfig: [0x0105, "the configuration is not usable"],
  BadName: [0x0106, "a service name has 1 to 63 characters out of a-z, 0-9, '-' and '.'"],
  BadAddress: [0x0107, "an address is a URL such as wss://host/path#peer-id"],
  UnpinnedBootstrap: [0x0108, "the bootstrap has no #peer-id: append it, or allow trustOnFirstUse"],
  NotJoined: [0x0109, "the node is not in a ring: join first"],
  Cancelled: [0x010a, "the command was cancelled"],
  NotMember: [0x010b, "only a member of the ring can do this"],
  BadGrant: [
    0x010c,
    "the grant is for another peer, name or network, or has expired: ask the owner for a new one",
  ],
  DuplicateIdentity: [
    0x010d,
    "another node runs with this node's identity: stop it, give this one a folder of its own, or start this one so that it takes over",
  ],
  BadDomain: [
    0x010e,
    "a domain has labels of 1 to 63 letters, digits and hyphens between dots, and at most 200 characters",
  ],
  BadFrame: [0x0201, "a frame does not follow the specification"],
  BadMessage: [0x0202, "a message does not follow the specification"],
  BadRecord: [0x0203, "a record does not follow the specification"],
  FrameTooLarge: [0x0204, "a frame is larger than the limit"],
  BadMetadata: [0x0205, "the metadata of a capsule does not follow the specification"],
  BadHeader: [0x0206, "the header of a record does not follow the specification"],
  BadTree: [0x0207, "a tree of sub-records, or a path in it, does not fit its record"],
  BadEpoch: [0x0208, "an epoch record does not follow the specification or the epoch record before it"],
  BadReaderKey: [0x0209, "a reader's public key is not usable: ask the reader for it again"],
  BadFile: [0x020a, "the file of a capsule does not follow the specification"],
  BadCertificate: [
    0x020b,
    "a certificate of admission does not follow the specification, or is of another key",
  ],
  BadDnsMessage: [0x020c, "a name server's answer does not follow the format of DNS: ask another one"],
  BadDnsValue: [0x020d, "a TXT record holds no value after selfsame1=: write it to the zone again"],
  BadSeal: [0x0301, "a packet does not open with the session's key"],
  Replayed: [0x0302, "a packet was seen before or is older than the window"],
  BadSignature: [0x0303, "a signature does not verify"],
  BadHandshake: [0x0304, "a handshake message does not verify"],
  PeerOverCredit: [0x0305, "the peer sent more than its credit allows"],
  BadStream: [0x0306, "the peer used a stream against its rules"],
  StaleRecord: [0x0307, "a record has expired, is from the future, or is older than one already known"],
  ForbiddenAddress: [
    0x0308,
    "a record holds a private, loopback or metadata address: allow private addresses if that is meant",
  ],
  NoProgress: [0x0309, "an answer came no closer to the id that was looked up"],
  BadCookie: [0x030a, "a handshake cookie does not fit"],
  UnknownSession: [0x030b, "a frame for a session that does not exist"],
  NotResponsible: [0x030c, "another node is responsible for this id"],
  BadBody: [0x030d, "a body is not the one that its header points to"],
  BadProof: [0x030e, "a proof does not lead to the record"],
  UnknownAnchor: [0x030f, "a proof begins with a record that was not verified here: ask for a whole proof"],
  NotAWriter: [0x0310, "who signed the record is no writer of the capsule"],
  RevokedWriter: [0x0311, "who signed the record has been revoked as a writer of the capsule"],
  BadFork: [0x0312, "two records do not show that a writer has used a sequence number twice"],
  RolledBack: [0x0313, "the replica does not have what was seen before: ask another one"],
  Superseded: [
    0x0314,
    "a newer record of this node is known: it was restored, moved or copied, or its clock was ahead",
  ],
  WrongSeat: [0x0315, "a certificate gives a node a seat that is not that of its address"],
  WrongDnsAnswer: [0x0316, "an answer of DNS is for another query: a delayed or forged one"],
  RevokedCertificate: [0x0317, "the certificate of admission was revoked"],
  WrongRole: [
    0x0318,
    "a node is a member of the ring and its certificate is a leaf's, or the other way round",
  ],
  StaleRevocations: [
    0x0319,
    "a list of revocations is older than the one that is known: an authority never uses a serial twice",
  ],
  WrongAddress: [
    0x031a,
    "a node uses an address that its certificate does not name: ask the authority for a new certificate",
  ],
  Convicted: [
    0x031b,
    "the peer has signed two different leases for one epoch: find out why, and have the authority certify it anew",
  ],
  BadGroup: [
    0x031c,
    "a group's list is out of order, names a member twice, or does not have its leader in the middle",
  ],
  StrangerInGroup: [0x031d, "a group's list names a peer of which no certificate is known"],
  BadEvidence: [0x031e, "two leases do not contradict each other, or are not of the certificate beside them"],
  RouteCircle: [
    0x031f,
    "a routed frame did not come closer to its target: who passed it on knows the ring badly, or misleads",
  ],
  RouteTooLong: [0x0320, "a routed frame asks for more hops than any ring needs"],
  WrongNetwork: [
    0x0401,
    "the peer is in another network: compare the network's name, admission mode and constants",
  ],
  WrongPeer: [
    0x0402,
    "another peer answers at this address: the #peer-id is wrong, or the address is somebody else's",
  ],
  WrongVersion: [0x0403, "the peer speaks another version of the protocol: upgrade the older one"],
  WrongSuite: [0x0404, "the peer speaks another suite of algorithms"],
  WrongClock: [
    0x0405,
    "the clocks of this node and of a peer differ by more than a minute: set the one that is wrong",
  ],
  WrongIssuer: [
    0x0406,
    "a certificate of admission is of another authority than the network's: compare their public keys",
  ],
  NoCertificate: [
    0x0407,
    "the network is closed and there is no certificate of admission: ask its authority for one",
  ],
  EarlyCertificate: [
    0x0408,
    "a certificate of admission does not count yet: compare the clocks of the authority and this node",
  ],
  ExpiredCertificate: [
    0x0409,
    "a certificate of admission has expired: ask the network's authority for a new one",
  ],
  DialFailed: [0x0501, "no path to the peer could be opened: is it running, and is its address right?"],
  TimedOut: [0x0502, "the peer did not answer in time"],
  Disconnected: [0x0503, "the connection to the peer ended"],
  NoRoute: [0x0504, "no address of the peer can be dialled from here"],
  NoBootstrap: [0x0505, "no bootstrap answered: check their addresses and that one of them runs"],
  PeerClosed: [0x0506, "the peer closed the session"],
  NoQuorum: [0x0507, "too few replicas have confirmed"],
  OutcomeUnknown: [
    0x0508,
    "the call may have been carried out, or not: ask the service before you repeat it",
  ],
  RouteExpired: [0x0509, "a routed frame has used up its hops before it came to its target"],
  NoNextHop: [
    0x050a,
    "no session leads closer to the target of a routed frame: it is gone, or the ring is being mended",
  ],
  TooManyHandshakes: [0x0601, "too many handshakes are half open"],
  TooManySessions: [0x0602, "too many sessions are open"],
  TooManyStreams: [0x0603, "too many streams are open with this peer"],
  TooManyPaths: [0x0604, "too many paths are open"],
  TooManyAssociations: [0x0605, "too many associations are stored under this id"],
  TooManyRequests: [0x0606, "too many requests are in flight"],
  TooLarge: [0x0607, "a value is larger than its limit"],
  NoEntropy: [0x0608, "the host has not given fresh random bytes"],
  RetryBudget: [
    0x0609,
    "too large a share of the calls of this service had to be tried again: its providers fail, see their logs",
  ],
  TooManyUnsigned: [0x060a, "too many records of the capsule are not signed: sign the last one"],
  RouteOverload: [0x060b, "more is routed through this member than it passes on for one of its peers"],
  StoreFailed: [0x0701, "the store failed: see the host's log"],
  StoreCorrupt: [
    0x0702,
    "the store holds bytes that this node did not write: restore a copy, or move it away and let the node fetch its state anew",
  ],
  StoreTooNew: [0x0703, "the store was written by a newer version: run that version"],
  NoProvider: [0x0801, "nobody serves this name"],
  NoService: [0x0802, "the peer does not serve this name"],
  NotGranted: [0x0803, "the peer may not serve this name: its owner has granted it to others"],
  StreamRefused: [0x0804, "the service gave up the request"],
  HandlerFailed: [0x0805, "the service's handler failed: see its log"],
  Deadline: [0x0806, "the deadline passed"],
  NoRecord: [0x0807, "the replica does not have this record: ask another one"],
  Unproven: [0x0808, "no signature leads to this record yet: ask again when its writer has signed"],
  NoCapsule: [0x0809, "the replica does not have this capsule: ask another one, or create it"],
  NotAReader: [0x080a, "the epoch's key was not granted: ask the owner"],
  OwnerRefused: [0x080b, "the replica holds no capsules of this owner: use another one, or ask who runs it"],
  DnsFailed: [
    0x080c,
    "the name server could not resolve the name (SERVFAIL): see its log, and whether DNSSEC fails there",
  ],
  DnsRefused: [0x080d, "the name server refuses (REFUSED): allow this machine or key in its configuration"],
  DnsRejected: [
    0x080e,
    "the name server cannot do what was asked: see its log, and whether it is responsible for the zone",
  ],
  DnsNoAnswer: [0x080f, "the name server knows neither the record nor that there is none: name a resolver"],
  DnsBadKey: [
    0x0810,
    "the name server does not know the key (BADKEY): compare its name and algorithm, hmac-sha256",
  ],
  DnsBadSignature: [
    0x0811,
    "the name server and this machine have different secrets of the key (BADSIG), or an answer was changed",
  ],
  DnsBadTime: [
    0x0812,
    "the clocks of the name server and this machine differ by more than five minutes (BADTIME)",
  ],
} as const satisfies Record<string, readonly [code: number, text: string]>;

/** Stable name of an error code. */
export type CodeName =
  | "BadInput"
  | "UnknownStream"
  | "UnknownPath"
  | "OverCredit"
  | "BadConfig"
  | "BadName"
  | "BadAddress"
  | "UnpinnedBootstrap"
  | "NotJoined"
  | "Cancelled"
  | "NotMember"
  | "BadGrant"
  | "DuplicateIdentity"
  | "BadDomain"
  | "BadFrame"
  | "BadMessage"
  | "BadRecord"
  | "FrameTooLarge"
  | "BadMetadata"
  | "BadHeader"
  | "BadTree"
  | "BadEpoch"
  | "BadReaderKey"
  | "BadFile"
  | "BadCertificate"
  | "BadDnsMessage"
  | "BadDnsValue"
  | "BadSeal"
  | "Replayed"
  | "BadSignature"
  | "BadHandshake"
  | "PeerOverCredit"
  | "BadStream"
  | "StaleRecord"
  | "ForbiddenAddress"
  | "NoProgress"
  | "BadCookie"
  | "UnknownSession"
  | "NotResponsible"
  | "BadBody"
  | "BadProof"
  | "UnknownAnchor"
  | "NotAWriter"
  | "RevokedWriter"
  | "BadFork"
  | "RolledBack"
  | "Superseded"
  | "WrongSeat"
  | "WrongDnsAnswer"
  | "RevokedCertificate"
  | "WrongRole"
  | "StaleRevocations"
  | "WrongAddress"
  | "Convicted"
  | "BadGroup"
  | "StrangerInGroup"
  | "BadEvidence"
  | "RouteCircle"
  | "RouteTooLong"
  | "WrongNetwork"
  | "WrongPeer"
  | "WrongVersion"
  | "WrongSuite"
  | "WrongClock"
  | "WrongIssuer"
  | "NoCertificate"
  | "EarlyCertificate"
  | "ExpiredCertificate"
  | "DialFailed"
  | "TimedOut"
  | "Disconnected"
  | "NoRoute"
  | "NoBootstrap"
  | "PeerClosed"
  | "NoQuorum"
  | "OutcomeUnknown"
  | "RouteExpired"
  | "NoNextHop"
  | "TooManyHandshakes"
  | "TooManySessions"
  | "TooManyStreams"
  | "TooManyPaths"
  | "TooManyAssociations"
  | "TooManyRequests"
  | "TooLarge"
  | "NoEntropy"
  | "RetryBudget"
  | "TooManyUnsigned"
  | "RouteOverload"
  | "StoreFailed"
  | "StoreCorrupt"
  | "StoreTooNew"
  | "NoProvider"
  | "NoService"
  | "NotGranted"
  | "StreamRefused"
  | "HandlerFailed"
  | "Deadline"
  | "NoRecord"
  | "Unproven"
  | "NoCapsule"
  | "NotAReader"
  | "OwnerRefused"
  | "DnsFailed"
  | "DnsRefused"
  | "DnsRejected"
  | "DnsNoAnswer"
  | "DnsBadKey"
  | "DnsBadSignature"
  | "DnsBadTime";

/** Every name of the table, in the order of the codes. */
export const codeNames: readonly CodeName[] = /* @__PURE__ */ Object.keys(table) as CodeName[];

// Made for the first error: a start that goes well does not wait for it.
let names: ReadonlyMap<number, CodeName> | undefined;

/** The number of a code. */
export function codeNumber(name: CodeName): number {
  return table[name][0];
}

/** What happened and what to do, for the operator. */
export function codeText(name: CodeName): string {
  return table[name][1];
}

/** The name of a code, if this version knows it. */
export function codeName(code: number): CodeName | undefined {
  names ??= new Map(codeNames.map((name) => [codeNumber(name), name]));
  return names.get(code);
}

/** Whose fault the code is; a class that this version does not know is the service's. */
export function codeClass(code: number): ErrorClass {
  return classes[(code >> 8) - 1] ?? "Service";
}

/** The status by which HTTP tells of codes, where it is not that of their class. */
const statuses: Partial<Record<CodeName, number>> = {
  NotJoined: 503,
  TooLarge: 431,
  StreamRefused: 502,
  HandlerFailed: 502,
  Deadline: 504,
};

const classStatuses: Readonly<Record<ErrorClass, number>> = {
  Usage: 500,
  Malformed: 502,
  Misbehaved: 502,
  Incompatible: 502,
  Unreachable: 503,
  Limit: 503,
  Store: 500,
  Service: 503,
};

/** The status by which HTTP tells of a code to whom this node answers: 503 and 504 where nobody else did. */
export function codeStatus(code: number): number {
  const name = codeName(code);
  return (name && statuses[name]) ?? classStatuses[codeClass(code)];
}

/** A provider that did not answer a call. */
export interface Tried {
  /** Its peer id, 64 hex digits. */
  readonly peer: string;
  /** Why. */
  readonly reason: CodeName | "Unknown";
}

/** What a `MeshError` knows beside its code. */
export interface MeshErrorOptions extends ErrorOptions {
  /** The providers that were tried. */
  readonly tried?: readonly Tried[];
}

/** An error of the mesh: compare by `name` or `code`, show `message` to people. */
export class MeshError extends Error {
  /** Number of the code, as it travels. */
  readonly code: number;
  /** Whose fault it is. */
  readonly class: ErrorClass;
  /** The providers that a call tried, in their order. */
  readonly tried: readonly Tried[];

  constructor(code: CodeName | number, detail = "", options: MeshErrorOptions = {}) {
    const number = typeof code === "number" ? code : codeNumber(code);
    const name = codeName(number);
    const text = name === undefined ? `error 0x${number.toString(16)} of a newer version` : codeText(name);
    super(detail === "" ? text : detail, options);
    this.name = name ?? "Unknown";
    this.code = number;
    this.class = codeClass(number);
    this.tried = options.tried ?? [];
  }

  /**
   * The answer for whoever asked for what failed: problem details with the name of the error and who was tried. Hono sends
   * it when a handler throws the error.
   */
  getResponse(): Response {
    const { name: error, message: detail, tried } = this;
    const members = tried.length === 0 ? { detail, error } : { detail, error, tried };
    return problem(codeStatus(this.code), members);
  }
}

/** The error of a failed command, out of what the core says of it. */
export function errorOf(code: number, detail: string): MeshError {
  const tried = detail.split(" ").flatMap((part): Tried[] => {
    const [peer = "", number = ""] = part.split("=");
    return /^[0-9a-f]{64}$/.test(peer) ? [{ peer, reason: codeName(Number(number)) ?? "Unknown" }] : [];
  });
  return tried.length === 0 ? new MeshError(code, detail) : errorAfter(new MeshError(code), tried);
}

/** The error of a call that these providers did not answer, the last one with this. */
export function errorAfter(error: MeshError, tried: readonly Tried[]): MeshError {
  const list = tried.map(({ peer, reason }) => `${peer.slice(0, 8)} (${reason})`).join(", ");
  const [what] = error.message.split("; tried ");
  const { cause } = error;
  const options = cause === undefined ? { tried } : { cause, tried };
  return new MeshError(error.code, `${what}; tried ${list}`, options);
}
