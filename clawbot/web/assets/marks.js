// What this browser has read: per session the number of replies seen. Unread = total - seen.

const KEY = "clawbot.read";

function load() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    if (stored && typeof stored.seen === "object" && stored.seen !== null) return stored;
  } catch {
    // Broken or forbidden storage: begin anew.
  }
  return null;
}

export class Marks {
  /** A browser that is new here has read everything there is. `on` is told of other tabs' marks. */
  constructor(sessions, now, on) {
    this.data = load();
    if (this.data === null) {
      this.data = { since: now, seen: {} };
      for (const session of sessions) this.data.seen[session.key] = session.total;
      this.#save();
    }
    window.addEventListener("storage", (event) => {
      if (event.key !== KEY) return;
      this.#merge();
      on();
    });
  }

  unread(session) {
    let seen = this.data.seen[session.key];
    if (seen === undefined) {
      // One that is older than this browser's first visit was not in the list then.
      seen = session.created_ms < this.data.since ? session.total : 0;
      this.data.seen[session.key] = seen;
    }
    return Math.max(0, session.total - seen);
  }

  read(session) {
    if ((this.data.seen[session.key] ?? -1) >= session.total) return;
    this.#merge();
    this.data.seen[session.key] = session.total;
    this.#save();
  }

  /** Another tab may have read more; marks only grow. */
  #merge() {
    const other = load();
    for (const [key, seen] of Object.entries(other?.seen ?? {})) {
      this.data.seen[key] = Math.max(seen, this.data.seen[key] ?? 0);
    }
  }

  #save() {
    try {
      localStorage.setItem(KEY, JSON.stringify(this.data));
    } catch {
      // Without storage the marks live as long as the page.
    }
  }
}
