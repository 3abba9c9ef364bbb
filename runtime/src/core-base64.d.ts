/** core.wasm as base64; the build of the package writes it. */
export const coreBase64: string;
