/** rpc.wasm as base64; the build of the package writes it. */
export const rpcBase64: string;
