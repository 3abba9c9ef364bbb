import type { MeshError } from "../codec/code.ts";

/** Whether joining may work later: a clock may be set right, and the core may be about to join by itself. */
export function mayRejoin({ class: fault, name }: MeshError): boolean {
  return fault === "Unreachable" || name === "WrongClock" || name === "TooManyRequests";
}
