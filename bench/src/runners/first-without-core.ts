// The same Worker without the core.
export default {
  fetch(): Response {
    return new Response("0");
  },
};
