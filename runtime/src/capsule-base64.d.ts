/** capsule.wasm as base64; the build of the package writes it. */
export const capsuleBase64: string;
