/** What of Deno's own interface the node uses; `deno types` prints all of it. */
declare namespace Deno {
  const env: { get(name: string): string | undefined };
  const stdin: { readonly readable: ReadableStream<Uint8Array> };
  function readTextFileSync(path: string): string;
  function readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
  function addSignalListener(signal: "SIGINT" | "SIGTERM", handler: () => void): void;
  function exit(code: number): never;
  function serve(
    options: { hostname: string; port: number; onListen: () => void },
    handler: (request: Request) => Response | Promise<Response>,
  ): { shutdown(): Promise<void> };
}
