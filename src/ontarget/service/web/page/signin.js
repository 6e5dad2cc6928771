// Signing in with a token. The service answers with a cookie that no script can read.

import { post } from "./api.js";
import { h } from "./dom.js";

export function signIn(done) {
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, placeholder: "ot_…" });
  const trouble = h("p", { role: "alert", class: "trouble" });
  const form = h("form", { class: "signin", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await post("/session", { token: token.value.trim() });
      done();
    } catch (error) {
      trouble.textContent = error.message;
      token.select();
    }
  } },
  h("label", { for: "token" }, "Token ", token), h("button", { type: "submit" }, "Sign in"));
  const view = h("section", {}, h("h1", {}, "Sign in"),
    h("p", {}, "This service needs a token with the scope read. Whoever runs it makes one with: ontarget serve … --new-token read"), form, trouble);
  requestAnimationFrame(() => token.focus());
  return { view, title: "Sign in", close: () => {} };
}
