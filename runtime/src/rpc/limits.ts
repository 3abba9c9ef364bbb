/**
 * Longest request and answer: 16 MiB, the longest message of the protocol and the largest buffer of the module at once, less what frames it.
 */
export const MAX_MESSAGE: number = 16 * 1024 * 1024 - 64 * 1024;
/** Largest datagram over UDP: with its headers the smallest packet that every path of IPv6 carries (RFC 8200, section 5). */
export const UDP_DATAGRAM = 1200;
/** Datagrams over HTTP: the longest message fits one. */
export const HTTP_DATAGRAM: number = 16 * 1024 * 1024 + 1024;
/** Longest body that holds a datagram: the longest message, and all that precedes it. */
export const MAX_BODY: number = MAX_MESSAGE + 1024;
