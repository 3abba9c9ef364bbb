/** Length of what precedes the filler of a request. */
const HEAD_BYTES = 9;

/** What a request of the tests says of itself. */
export type Call = {
  readonly number: number;
  readonly isIdempotent: boolean;
  readonly requestBytes: number;
  readonly answerBytes: number;
};

/** Returns the request of a call, at least nine bytes: number, whether it is idempotent, length of the answer, filler. */
export function requestOf({
  number,
  isIdempotent,
  requestBytes,
  answerBytes,
}: Call): Uint8Array<ArrayBuffer> {
  const request = filled(number, Math.max(requestBytes, HEAD_BYTES));
  const view = new DataView(request.buffer);
  view.setUint32(0, number, true);
  view.setUint8(4, isIdempotent ? 1 : 0);
  view.setUint32(5, answerBytes, true);
  return request;
}

/** Returns the call that a request is of; throws unless every byte of it is right. */
export function callOf(request: Uint8Array): Call {
  const view = new DataView(request.buffer, request.byteOffset, request.byteLength);
  const call = {
    number: view.getUint32(0, true),
    isIdempotent: view.getUint8(4) === 1,
    requestBytes: request.length,
    answerBytes: view.getUint32(5, true),
  };
  if (!isSame(request, requestOf(call))) throw new Error(`a request of call ${call.number} arrived changed`);
  return call;
}

/** Returns the answer to a call. */
export function answerOf({ number, answerBytes }: Call): Uint8Array<ArrayBuffer> {
  return filled(number + 1, answerBytes);
}

/** Whether two arrays hold the same bytes. */
export function isSame(left: Uint8Array, right: Uint8Array): boolean {
  return Buffer.compare(left, right) === 0;
}

function filled(seed: number, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (seed * 7 + at * 31 + (at >> 8)) & 0xff;
  return bytes;
}
