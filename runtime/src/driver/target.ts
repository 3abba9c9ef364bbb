import { MeshError } from "../codec/code.ts";

const SCHEMES: ReadonlySet<string> = /* @__PURE__ */ new Set(["http:", "https:"]);

/**
 * The URL of a request to a service: path and query of what was given, on the host of that service alone. A text that begins with a
 * slash is a path, also `//other/x`, which the URL standard would read as another host.
 */
export function urlOfService(name: string, input: Request | URL | string): URL {
  const url = new URL(`https://${name}.mesh/`);
  const given = parsed(typeof input === "object" && "url" in input ? input.url : input, url);
  if (!SCHEMES.has(given.protocol)) {
    throw new MeshError(
      "BadConfig",
      `a service is asked with a path or a URL of https, not ${given.protocol}`,
    );
  }
  // The setters never change the host.
  url.pathname = given.pathname;
  url.search = given.search;
  return url;
}

/** Reads a text as a path of `base` if it begins as one, else as the URL standard does. */
function parsed(given: URL | string, base: URL): URL {
  // The parser of URLs leaves out the same, and takes a backslash for a slash.
  const text = String(given).replace(/^[\0- ]+|[\t\n\r]/g, "");
  return /^[/\\]/.test(text) ? new URL(base.origin + text) : new URL(text, base);
}
