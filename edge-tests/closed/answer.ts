import { MeshError } from "selfsame/codec";

/** What a service says: whose it is, and who asks. */
export interface Answer {
  readonly from: string;
  readonly caller: string;
}

/** What a call comes to: an answer, or the name of an error. */
export type Called = Answer | { readonly error: string };

/** A handler that says whose it is. */
export function answering(from: string): (request: Request, context: { caller: string }) => Response {
  return (_, { caller }) => Response.json({ from, caller } satisfies Answer);
}

/** Calls a service by its name. */
export async function callFrom(
  mesh: { fetch(url: string): Promise<Response> },
  service: string,
): Promise<Called> {
  try {
    const response = await mesh.fetch(`https://${service}.mesh/`);
    return response.ok ? ((await response.json()) as Answer) : { error: `${response.status}` };
  } catch (error) {
    if (error instanceof MeshError) return { error: error.name };
    throw error;
  }
}
