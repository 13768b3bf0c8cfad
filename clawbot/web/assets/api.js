// Calls of the API. A failure is an ApiError whose message is for people.

const TIMEOUT_MS = 20_000;

export class ApiError extends Error {
  /** status 0: no answer came, and whether the request was carried out is not known. */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new ApiError(0, "no_answer", "clawbot does not answer. Is it running?");
  }
  let body = {};
  try {
    body = await response.json();
  } catch {
    // The status alone tells what happened.
  }
  if (!response.ok) {
    const message = body.message ?? `clawbot answered with status ${response.status}.`;
    throw new ApiError(response.status, body.error ?? "", message);
  }
  return body;
}

export function get(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return call(text ? `${path}?${text}` : path, { headers: { Accept: "application/json" } });
}

export function post(path, body) {
  return call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** A random id for a message or a chat. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
