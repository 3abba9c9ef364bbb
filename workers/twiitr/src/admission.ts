/** How the network of the main job admits its nodes: anybody, or who has a certificate in its DNS. */
export const ADMISSIONS = ["open", "dns"] as const;

/** One of them. */
export type AdmissionName = (typeof ADMISSIONS)[number];

/** Reads the arguments of `npm start`; the error says what to write. */
export function readAdmission(args: readonly string[]): AdmissionName {
  const [option, value, ...more] = args.flatMap((arg) =>
    arg.startsWith("--admission=") ? ["--admission", arg.slice("--admission=".length)] : [arg],
  );
  if (option === undefined) return "open";
  const wanted = ADMISSIONS.find((name) => name === value);
  if (option === "--admission" && wanted !== undefined && more.length === 0) return wanted;
  const commands = ADMISSIONS.map((name) => `npm start -- --admission ${name}`);
  throw new Error(`${args.join(" ")} is not understood: write ${commands.join(" or ")}`);
}
