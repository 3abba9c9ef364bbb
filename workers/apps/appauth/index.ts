export { Attempts } from "./attempts.ts";
export { type CheckOptions, check } from "./check.ts";
export {
  type Credentials,
  type Dictionary,
  parseDictionary,
  type StoredPassword,
  storePassword,
  verifyPassword,
} from "./credentials.ts";
export { type HandlerOptions, handler, type Login } from "./handler.ts";
export { callable } from "./verdict.ts";
