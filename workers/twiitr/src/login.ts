/** The status that a login is answered with. */
export async function loginStatus(url: string, user: string, password: string): Promise<number> {
  const response = await fetch(`${url}/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ user, password }),
    signal: AbortSignal.timeout(5000),
  });
  await response.body?.cancel();
  return response.status;
}
