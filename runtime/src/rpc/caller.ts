import { contextOf, issuedContext } from "../driver/serve.ts";

/** Returns the caller of a request, if a session of the mesh has proven it. */
export function provenCaller(request: Request, context?: unknown): string | undefined {
  const { caller, assurance } = contextOf(request) ?? issuedContext(context) ?? {};
  return assurance === "session" ? caller : undefined;
}
