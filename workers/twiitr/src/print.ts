import type { Cluster, Verified } from "./cluster.ts";
import { PLATFORMS, SERVICES } from "./plan.ts";

const { NO_COLOR } = process.env;
const isColoured = process.stdout.isTTY === true && NO_COLOR === undefined;
const style = (code: string, text: string): string => (isColoured ? `\u001b[${code}m${text}\u001b[0m` : text);
const started = performance.now();

/** Says what is being done, and when. */
export function say(what: string): void {
  const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(6);
  process.stdout.write(`${style("2", `${seconds} s`)}  ${what}\n`);
}

/** Says what went wrong. */
export function sayError(what: string): void {
  process.stderr.write(`${style("31", "error")}  ${what}\n`);
}

/** Shows the ring and what can be done with it. */
export function printRing(cluster: Cluster, verified: readonly Verified[]): void {
  const members = PLATFORMS.map((platform) => ({ platform, id: cluster.plan.ids[platform] ?? "" }));
  members.sort((a, b) => (a.id < b.id ? -1 : 1));
  const lines = members.map(({ platform, id }) => {
    const names = Object.keys(SERVICES).filter((name) => SERVICES[name]?.includes(platform));
    return `  ${id.slice(0, 12)}  ${platform.padEnd(9)}  ${cluster.urlOf(platform)}  ${names.join(", ")}`;
  });
  const login = `${cluster.urlOf("workerd")}/login`;
  const curl = (password: string): string =>
    `  curl -i ${login} --json '{"user":"ada","password":"${password}"}'`;
  const text = [
    "",
    style("1", `The ring ${cluster.plan.network}, clockwise:`),
    ...lines,
    "",
    ...admissionLines(cluster),
    style("1", "Sign in: the handler answers on workerd and asks check, wherever it is"),
    `${curl("correct horse battery staple")}     # 200`,
    `${curl("wrong")}                            # 401`,
    `  by encrypted RPC, over HTTP from workerd and over UDP from Deno: ${cluster.urlOf("deno")}/login`,
    "",
    style(
      "1",
      "The audit log: each sign-in is a sealed record of one capsule, with a replica in each runtime",
    ),
    `  ${verified.map(describe).join("; ")}`,
    `  curl ${cluster.urlOf("deno")}/mesh/audit/                      # what the runtime that answers has verified`,
    "",
    `${style("1", "The live page:")} ${pageUrl(cluster)}`,
    "  the key in this link opens what the log's records hold; without it the page verifies them and shows their graph",
    ...(cluster.closed
      ? ["  the invitation in it has the key of your browser certified; without it the page is not admitted"]
      : []),
    `${style("1", "The form:")}      ${login}`,
    `${style("1", "Telemetry:")}     curl ${cluster.urlOf("deno")}/mesh/observability/   # requests; their paths: /traces`,
    "",
    "Kill a node and watch the ring heal: " +
      PLATFORMS.map((platform) => `kill -9 -${cluster.pidOf(platform)}  # ${platform}`).join("   "),
    "Ctrl-C stops everything.",
    "",
  ];
  process.stdout.write(text.join("\n"));
}

/** The link to the page, with the secrets that it needs: browsers send them to nobody. */
export function pageUrl(cluster: Cluster): string {
  const invitation = cluster.closed?.pages?.invitation;
  const secrets = { reader: cluster.audit?.reader ?? "", ...(invitation ? { invitation } : {}) };
  return `${cluster.urlOf("deno")}/#${new URLSearchParams(secrets)}`;
}

/** What is to be known of a closed network. */
function admissionLines({ closed }: Cluster): string[] {
  if (closed === undefined) return [];
  return [
    style("1", "The network is closed: each node finds its certificate in the DNS"),
    `  zone ${closed.zone.domain}, served here at ${closed.zone.dnsOverHttps}; the authority: ${closed.authorityFile}`,
    "",
  ];
}

function describe({ verifiedBy, verified, heads, merges }: Verified): string {
  const counts = [count(verified, "record"), count(merges, "merge"), count(heads.length, "head")];
  return `${verifiedBy} verified ${counts.join(", ")}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
