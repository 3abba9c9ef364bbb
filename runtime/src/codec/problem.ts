/** The phrases of the statuses that this package answers with (RFC 9110, 15). */
const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  413: "Content Too Large",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

/** An answer that tells programs what is wrong (problem details, RFC 9457); `members` are those beside title and status. */
export function problem(status: number, members: Readonly<Record<string, unknown>> = {}): Response {
  const headers = new Headers({ "content-type": "application/problem+json", "cache-control": "no-store" });
  if (status === 503) headers.set("retry-after", "1");
  const body = { title: TITLES[status], status, ...members };
  return new Response(JSON.stringify(body), { status, headers });
}
