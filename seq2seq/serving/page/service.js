// Requests to the service. A new request for a purpose cancels the previous one.
import { find, say } from "./dom.js";

const WAIT = 250; // milliseconds from a key press to the request
const PLACES = { models: "header", file: "source" }; // where messages go, by purpose
const [running, timers] = [{}, {}]; // by purpose
let secret = "";

export function stop(...purposes) {
  for (const purpose of purposes) {
    running[purpose]?.abort();
    clearTimeout(timers[purpose]);
  }
}

export function later(purpose, action, milliseconds = WAIT) {
  stop(purpose);
  timers[purpose] = setTimeout(() => attempt(purpose, action), milliseconds);
}

export async function attempt(purpose, action) {
  stop(purpose);
  const { signal } = (running[purpose] = new AbortController());
  try {
    await action(signal);
  } catch (error) {
    if (signal.aborted) return;
    const isKeyWanted = error.code === 403;
    if (isKeyWanted) {
      find("#key").hidden = false;
      find("#key input").focus();
    }
    const at = isKeyWanted ? "header" : PLACES[purpose];
    say(error.wait ? `${error.message}. Trying again in ${error.wait} s` : error.message, { at, wrong: true });
    if (error.wait) later(purpose, action, error.wait * 1000);
  }
}

export function useKey() {
  secret = find("#key input").value;
}

// body: fields to send as JSON, or a form; read: function that reads the response.
export async function ask(signal, path, body, read = (response) => response.json()) {
  const headers = secret ? { Authorization: `Bearer ${secret}` } : {};
  const isForm = body instanceof FormData;
  if (body && !isForm) headers["Content-Type"] = "application/json";
  const options = body ? { method: "POST", keepalive: path === "suggest", // also when the page is closed
    body: isForm ? body : JSON.stringify(body) } : {};
  const response = await fetch(path, { ...options, headers, signal }).catch(() => null);
  const answer = response && (await (response.ok ? read(response) : response.json()).catch(() => null));
  if (response?.ok && answer) return answer;
  const busy = !answer || [429, 503].includes(response.status);
  const wait = busy && (Number(response?.headers.get("Retry-After")) || 3);
  throw Object.assign(new Error(answer?.error ?? "The service does not respond"), { code: response?.status, wait });
}
