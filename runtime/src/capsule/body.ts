import { MeshError } from "../codec/code.ts";

/** The body of a request or an answer, unless it is longer than it may be: then no more of it is read than shows that. */
export async function readBounded(
  message: Request | Response,
  most: number,
  what: string,
): Promise<Uint8Array> {
  const refuse = async (): Promise<never> => {
    const error = new MeshError("TooLarge", `${what} has at most ${most} bytes`);
    await reader?.cancel(error);
    throw error;
  };
  // Not every browser iterates over a body.
  const reader = (message.body as ReadableStream<Uint8Array> | null)?.getReader();
  const announced = Number(message.headers.get("content-length") ?? 0);
  if (announced > most) return refuse();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read()) {
    length += read.value.length;
    if (length > most) return refuse();
    chunks.push(read.value);
  }
  const [only] = chunks;
  if (only !== undefined && chunks.length === 1) return only;
  return concat(chunks);
}

/** One after the other. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
