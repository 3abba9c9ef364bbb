/** What the audit log tells of an attempt to sign in. */
export type SignIn = {
  /** When it was answered, in milliseconds since 1970. */
  time_ms: number;
  /** The name that was given; whether there is such a user it does not say. */
  user: string;
  /** The status of the answer: 200, or 401 for what was wrong. */
  status: number;
  /** The platform that answered, and the one that compared the password. */
  answeredBy: string;
  checkedBy: string;
};

/** A record's content. */
export function encodeSignIn(signIn: SignIn): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(signIn));
}
