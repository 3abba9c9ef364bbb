/** admission.wasm as base64; the build of the package writes it. */
export const admissionBase64: string;
