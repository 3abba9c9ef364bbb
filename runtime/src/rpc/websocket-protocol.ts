/** The subprotocol that both sides of a WebSocket of the RPC name. */
export const RPC_SUBPROTOCOL = "selfsame-rpc.1";

/** The codes with which a socket is closed (RFC 6455, section 7.4.1, and the registry that it begins). */
export const CLOSE_CODES = {
  normal: 1000,
  goingAway: 1001,
  unsupportedData: 1003,
  policyViolation: 1008,
  tooBig: 1009,
  internalError: 1011,
  tryAgainLater: 1013,
} as const;
