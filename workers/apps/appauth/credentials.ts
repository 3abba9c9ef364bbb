import { scryptAsync } from "@noble/hashes/scrypt.js";
import { bytesToHex, hexToBytes, randomBytes } from "@noble/hashes/utils.js";

/** A password as it is kept: both values in lower-case hexadecimal. */
export type StoredPassword = { salt: string; hash: string };

/** Users by name. */
export type Dictionary = Readonly<Record<string, StoredPassword>>;

/** What a login sends. */
export type Credentials = { user: string; password: string };

/** A user name fits a line of a log. */
export const MAX_USER_LENGTH = 128;
/** Longer than any password a person or a generator makes, short enough to hash at no cost. */
export const MAX_PASSWORD_LENGTH = 1024;

const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** 16 MiB and some tens of milliseconds a guess: more than the 10 ms of CPU that the free plan of Workers gives a request. */
const COST = { N: 2 ** 14, r: 8, p: 1, dkLen: HASH_BYTES };

/** Stands for users that do not exist, so that their answer takes as long. */
const NOBODY: StoredPassword = { salt: "00".repeat(SALT_BYTES), hash: "00".repeat(HASH_BYTES) };

/** Hashes a new password, in its normal form, with a fresh salt. */
export async function storePassword(password: string): Promise<StoredPassword> {
  const salt = randomBytes(SALT_BYTES);
  return { salt: bytesToHex(salt), hash: bytesToHex(await hashPassword(password.normalize("NFC"), salt)) };
}

/** Whether the password is that of the user; takes the same time whether or not the user exists. */
export async function verifyPassword(
  dictionary: Dictionary,
  { user, password }: Credentials,
): Promise<boolean> {
  const known = Object.hasOwn(dictionary, user) ? dictionary[user] : undefined;
  const stored = known ?? NOBODY;
  const hash = await hashPassword(password, hexToBytes(stored.salt));
  return equalInConstantTime(hash, hexToBytes(stored.hash)) && known !== undefined;
}

/** Checks what was read from a file; the error names the first entry that is wrong. */
export function parseDictionary(value: unknown): Dictionary {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError('users: expected an object of { "name": { "salt": hex, "hash": hex } }');
  }
  for (const [user, stored] of Object.entries(value as Record<string, Partial<StoredPassword> | null>)) {
    if (!isHex(stored?.salt, SALT_BYTES) || !isHex(stored?.hash, HASH_BYTES)) {
      throw new TypeError(
        `users: "${user}" needs a salt of ${SALT_BYTES} and a hash of ${HASH_BYTES} bytes in hexadecimal`,
      );
    }
  }
  return value as Dictionary;
}

/** Takes a login apart; `undefined` when it is not one. */
export function parseCredentials(value: unknown): Credentials | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { user, password } = value as Partial<Record<keyof Credentials, unknown>>;
  if (!isText(user, MAX_USER_LENGTH) || !isText(password, MAX_PASSWORD_LENGTH)) return undefined;
  return { user, password };
}

function hashPassword(password: string, salt: Uint8Array): Promise<Uint8Array> {
  // The asynchronous form lets other requests run in between.
  return scryptAsync(new TextEncoder().encode(password), salt, COST);
}

function equalInConstantTime(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  let difference = 0;
  for (const [index, byte] of left.entries()) difference |= byte ^ (right[index] ?? 0);
  return difference === 0;
}

function isHex(value: unknown, bytes: number): boolean {
  return typeof value === "string" && value.length === bytes * 2 && /^[0-9a-f]*$/.test(value);
}

function isText(value: unknown, limit: number): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= limit;
}
