declare module "*.wasm" {
  /** The compiled module. */
  const module: WebAssembly.Module;
  export default module;
}
