/** What workerd makes of a module of type `data`. */
declare module "*.bin" {
  const data: ArrayBuffer;
  export default data;
}

/** What workerd makes of a module of type `wasm`. */
declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}
