import { MeshError, type Resolver, type ResolverOptions } from "selfsame/admission";

/** What a program of another runtime looks up. */
export interface Errand {
  readonly options: ResolverOptions;
  readonly domain: string;
  /** Public key of the peer, in hexadecimal digits. */
  readonly key: string;
}

/** What it finds: values in hexadecimal digits, or the name of the error. */
export type Told = { readonly values: readonly string[] } | { readonly error: string };

/** Runs an errand with the resolver of a platform. */
export async function runErrand(
  createResolver: (options: ResolverOptions) => Resolver,
  { options, domain, key }: Errand,
): Promise<Told> {
  const bytes = Uint8Array.from(key.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
  try {
    const { values } = await createResolver(options).certificates(bytes, domain);
    return { values: values.map(toHex) };
  } catch (error) {
    if (error instanceof MeshError) return { error: error.name };
    throw error;
  }
}

function toHex(value: Uint8Array): string {
  return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
