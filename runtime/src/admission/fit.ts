import { MeshError } from "../codec/code.ts";
import type { Applicant } from "../driver/admission.ts";
import type { Certified } from "./module.ts";

/** How far an honest clock may be off. */
const CLOCK_SKEW_MS = 60_000;

/** Throws unless a certificate counts now. */
export function checkCounts({ notBefore_ms, expires_ms }: Certified, now_ms: number): void {
  if (now_ms + CLOCK_SKEW_MS < notBefore_ms) throw new MeshError("EarlyCertificate");
  if (now_ms >= expires_ms) throw new MeshError("ExpiredCertificate");
}

/** Throws unless a certificate counts now, for a node of this role at these addresses. */
export function checkFits(certified: Certified, { role, addresses }: Applicant, now_ms: number): void {
  checkCounts(certified, now_ms);
  const { address } = certified;
  if ((address === "") !== (role === "leaf")) throw new MeshError("WrongRole", roleText(role));
  const host = bare(address.slice(0, address.lastIndexOf(":")));
  const stray = addresses.find((url) => bare(new URL(url).hostname) !== host);
  if (stray !== undefined)
    throw new MeshError(
      "WrongAddress",
      `the address ${stray} has another host than the certificate's ${address}`,
    );
}

function roleText(role: Applicant["role"]): string {
  return role === "leaf"
    ? "the certificate is a member's: give the node the option address, or have a certificate signed without --address"
    : "the certificate is a leaf's: have one signed with --address, or leave out the option address";
}

/** A host without brackets, in lower case, as URLs of other schemes than those of the web keep it as it is written. */
function bare(host: string): string {
  return host.replace(/^\[|\]$/g, "").toLowerCase();
}
