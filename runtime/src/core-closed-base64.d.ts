/** core-closed.wasm as base64; the build of the package writes it. */
export const closedCoreBase64: string;
