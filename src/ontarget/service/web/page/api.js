// Requests to the service that served this page.

export class ProblemError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
  }
}

let onSignedOut = () => {};

/** Call this when the service asks for a token. */
export function whenSignedOut(act) {
  onSignedOut = act;
}

async function answered(response) {
  if (response.ok) return response.json();
  let problem = {};
  try { problem = await response.json(); } catch { /* no JSON: the status says it */ }
  if (response.status === 401) onSignedOut();
  throw new ProblemError(response.status, problem);
}

export async function get(path) {
  return answered(await fetch(path, { headers: { accept: "application/json" } }));
}

export async function post(path, body) {
  return answered(await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }));
}

/** The items of a paged list, up to so many, and whether there are more. */
export async function some(path, most) {
  const items = [];
  let after = "";
  while (items.length < most) {
    const join = path.includes("?") ? "&" : "?";
    const page = await get(`${path}${join}limit=1000${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    items.push(...page.items);
    after = page.next;
    if (!after) break;
  }
  return { items, more: Boolean(after) };
}

/** Every item of a paged list, up to so many. */
export async function all(path, most) {
  return (await some(path, most)).items;
}
