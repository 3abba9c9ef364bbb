/** Returns what compiles a module once, when it is first asked for. */
export function compiledOnce(compile: () => Promise<WebAssembly.Module>): () => Promise<WebAssembly.Module> {
  let compiled: Promise<WebAssembly.Module> | undefined;
  return () => {
    compiled ??= compile();
    return compiled;
  };
}
