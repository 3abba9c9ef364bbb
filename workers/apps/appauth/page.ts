import { html } from "hono/html";

/** Only what the page itself holds. */
export const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { display: grid; place-items: center; min-height: 100dvh; margin: 0; padding: 1rem; box-sizing: border-box;
         background: light-dark(#f6f7f9, #12141a); color: light-dark(#1a1d24, #e8eaf0); }
  main { width: min(22rem, 100%); }
  form { display: grid; gap: 1rem; }
  label { display: grid; gap: .25rem; font-weight: 600; }
  input, button { font: inherit; padding: .6rem .75rem; border-radius: .5rem; border: 1px solid light-dark(#8a909e, #5a6070);
                  background: light-dark(#fff, #1c1f28); color: inherit; }
  button { background: light-dark(#1f4fd8, #8fb0ff); color: light-dark(#fff, #10131c); border: 0; font-weight: 600; cursor: pointer; }
  :focus-visible { outline: 3px solid light-dark(#1f4fd8, #8fb0ff); outline-offset: 2px; }
  [role=status] { padding: .75rem; border-radius: .5rem; background: light-dark(#e3f3e6, #16301c); }
  [role=alert] { padding: .75rem; border-radius: .5rem; background: light-dark(#fbe5e3, #3a1a1a); }
  small { font-weight: 400; opacity: .8; display: block; }
`;

/** The login form, with what became of the last attempt. */
export function loginPage(
  outcome: { status: number; text: string; checkedBy?: string; over?: "HTTP" | "RPC" } | undefined,
): ReturnType<typeof html> {
  const how = outcome?.over === "RPC" ? "encrypted RPC" : "HTTP through the mesh";
  const by = outcome?.checkedBy ? html`<small>checked by ${outcome.checkedBy}, over ${how}</small>` : "";
  const role = outcome?.status === 200 ? "status" : "alert";
  const message = outcome ? html`<p role="${role}">${outcome.text}${by}</p>` : "";
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in - AppAuth</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Sign in</h1>
${message}
<form method="post" action="/login">
<label>User <input name="user" autocomplete="username" autocapitalize="none" required maxlength="128"></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required maxlength="1024"></label>
<button>Sign in</button>
</form>
</main>
</body>
</html>`;
}
