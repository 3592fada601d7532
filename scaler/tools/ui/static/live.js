// The one connection to `scaler ui`: tables of rows by name, first whole, then what has changed
// (tools/ui/feed.py).

const KEY = "scaler.token";

// The token comes after the # of the address that was printed; it is kept for this tab and taken
// out of the address.
export function takeToken() {
  const found = /[#&]token=([\w-]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    const rest = location.hash.replace(/[#&]?token=[\w-]+/, "").replace(/^#?$/, "#/");
    history.replaceState(null, "", location.pathname + rest);
  }
  return sessionStorage.getItem(KEY) || "";
}

const headers = () => ({ Authorization: `Bearer ${sessionStorage.getItem(KEY) || ""}` });

export async function ask(path, body) {
  const options = body === undefined ? { headers: headers() } : {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, options);
  const unreadable = () => ({ problem: `${response.status} ${response.statusText}` });
  const answer = await response.json().catch(unreadable);
  return response.ok ? answer : { problem: answer.problem || String(response.status) };
}

export class Live {
  constructor() {
    this.tables = new Map();
    this.versions = new Map();
    this.link = "connecting"; // live, lost, refused
    this.offset = 0;
    this.speed = 1;
    this.heard = performance.now();
    this.serverNow = Date.now() / 1000;
    this.changedAt = 0; // when something that is shown changed last
    this.listeners = new Set();
    this.frame = 0;
    this.query = null;
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  table(name) { return this.tables.get(name) || EMPTY; }
  version(name) { return this.versions.get(name) || 0; }
  get head() { return this.table("head").get("") || {}; }
  // Seconds since the epoch as the cluster counts.
  now() { return this.serverNow + ((performance.now() - this.heard) / 1000) * this.speed; }

  changed() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        for (const listener of this.listeners) listener();
      });
    }
  }

  // Look at another view; what the last one showed is forgotten when the first message of this one
  // is there.
  watch(query) {
    if (query === this.query) return;
    this.query = query;
    this.stop?.abort();
    this.stop = new AbortController();
    this.run(query, this.stop.signal);
  }

  async run(query, signal) {
    for (let pause = 250; !signal.aborted; pause = Math.min(pause * 2, 4000)) {
      try {
        const response = await fetch(`/api/watch?${query}`, { headers: headers(), signal });
        if (response.status === 403) { this.set("refused"); return; }
        if (response.ok) {
          pause = 250;
          await this.read(response.body.getReader(), signal);
        }
      } catch { /* the server has gone, or the view is another one */ }
      if (signal.aborted) return;
      this.set("lost");
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  async read(reader, signal) {
    const decoder = new TextDecoder();
    let parts = [];
    const fresh = new Set();
    for (;;) {
      const silence = setTimeout(() => reader.cancel(), 30000);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done || signal.aborted) return;
      const pieces = decoder.decode(value, { stream: true }).split("\n");
      parts.push(pieces[0]);
      for (let i = 1; i < pieces.length; i++) {
        const line = parts.join("");
        parts = [pieces[i]];
        if (line) this.take(JSON.parse(line), fresh);
      }
    }
  }

  take(message, fresh) {
    if (typeof message.now === "number") {
      this.serverNow = message.now;
      if (this.news) this.changedAt = message.now;
      this.news = false;
      this.heard = performance.now();
      this.set("live");
      return;
    }
    for (const [name, { set, gone }] of Object.entries(message)) {
      const rows = fresh.has(name) ? this.table(name) : new Map();
      // what a view begins with is no change
      if (name !== "head" && fresh.has(name)) this.news = true;
      fresh.add(name);
      for (const key of gone) rows.delete(key);
      for (const [key, row] of Object.entries(set)) rows.set(key, row);
      this.tables.set(name, rows);
      this.versions.set(name, this.version(name) + 1);
    }
    this.speed = this.head.speed || 1;
    this.set("live");
  }

  set(link) {
    this.link = link;
    this.changed();
  }
}

const EMPTY = new Map();
