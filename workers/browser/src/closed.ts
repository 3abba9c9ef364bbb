import { type AdmissionMethod, dns, type NodeIdentity, nodeKey } from "selfsame/admission";

import type { PageAdmission } from "./config.ts";

/** Has the page's key certified by whoever serves the page, and returns how the page finds its certificate in the DNS. */
export async function admissionOf(
  { certify, ...where }: PageAdmission,
  identity: NodeIdentity,
  invitation: string | undefined,
): Promise<AdmissionMethod> {
  const key = await nodeKey(identity);
  // A body of plain text needs no preflight.
  const response = await fetch(certify, { method: "POST", body: JSON.stringify({ key, invitation }) });
  if (!response.ok) throw new Error(`this page is not admitted: ${await response.text()}`);
  return dns(where);
}
