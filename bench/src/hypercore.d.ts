/** The part of hypercore 11.37.1 that the benchmarks use; the package has no types. */
declare module "hypercore" {
  interface Request {
    readonly block: { readonly index: number; readonly nodes: number };
    readonly upgrade: { readonly start: number; readonly length: number };
  }

  export default class Hypercore {
    constructor(folder: string);
    ready(): Promise<void>;
    append(blocks: readonly Uint8Array[]): Promise<unknown>;
    get(index: number): Promise<Uint8Array | null>;
    proof(request: Request): Promise<unknown>;
    close(): Promise<void>;
  }
}
