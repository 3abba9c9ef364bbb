declare module "*.wasm" {
  /** The compiled module; workerd compiles it when it loads the Worker. */
  const module: WebAssembly.Module;
  export default module;
}
