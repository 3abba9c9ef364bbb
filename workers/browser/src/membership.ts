import type { Membership } from "selfsame/codec";

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
] as const;
/** Digits of a key that tell it from others at a glance. */
const DIGITS = 16;

/** The time in which a certificate counts. */
type Validity = Membership["certificate"];

/** How the network admits its members, and how this page stands with that. */
export function admissionText(membership: Membership | null, now_ms: number): string {
  if (membership === null) return "Open: anybody may be in this network.";
  const { authority, certificate, revocations } = membership;
  const list =
    revocations.serial === 0
      ? "No key is revoked."
      : `List ${revocations.serial} revokes ${revocations.revoked} keys.`;
  return `Closed: certificates of ${authority.slice(0, DIGITS)}. This page's is ${certificateText(certificate, now_ms)}. ${list}`;
}

/** How old a certificate is, and for how long it still counts. */
export function certificateText({ since_ms, until_ms }: Validity, now_ms: number): string {
  const age = since_ms > now_ms ? `counts in ${span(since_ms - now_ms)}` : `${span(now_ms - since_ms)} old`;
  const end =
    until_ms > now_ms ? `expires in ${span(until_ms - now_ms)}` : `expired ${span(now_ms - until_ms)} ago`;
  return `${age}, ${end}`;
}

/** When the certificate of a node counts, if this page's node knows it. */
export function validityOf(membership: Membership | null, id: string): Validity | undefined {
  return membership?.neighbours.find((neighbour) => neighbour.id === id)?.certificate;
}

/** A time in the largest unit that it has one of. */
function span(ms: number): string {
  const [name, unit] = UNITS.find(([, least]) => ms >= least) ?? ["ms", 1];
  return `${Math.floor(ms / unit)} ${name}`;
}
