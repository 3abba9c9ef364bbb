/** The service that is called all the time. */
export const GREETING = "greeting";

/** How a replica publishes it. */
export type Published = {
  /** The owner's grant to the replica, as base64url. */
  readonly grant: string;
  readonly version: "1" | "2";
  /** Share of its version, 0 to 1. */
  readonly weight: number;
};
