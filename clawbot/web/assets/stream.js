// The event stream: reads it, keeps the cursor, connects again where it broke off.

const FIRST_RETRY_MS = 400;
const LONGEST_RETRY_MS = 10_000;
const SILENCE_MS = 40_000; // the server says something every 15 s

export class Stream {
  /** on.change, on.draft, on.resync are given the server's messages; on.state a word: connecting,
   * live, lost or locked. */
  constructor(on) {
    this.on = on;
    this.cursor = {};
    this.session = null;
    this.abort = null;
    this.running = false;
  }

  /** Begin, or go on with another session shown. */
  watch(session, cursor) {
    if (cursor) this.cursor = { ...cursor };
    this.session = session;
    this.abort?.abort("watch");
    if (!this.running) {
      this.running = true;
      this.#run();
    }
  }

  /** Do not wait for the next attempt: the network or the page is back. */
  hurry() {
    this.wake?.();
  }

  async #run() {
    let failures = 0;
    for (;;) {
      const abort = new AbortController();
      this.abort = abort;
      try {
        await this.#connect(abort, () => (failures = 0));
      } catch (error) {
        if (error?.status === 401) {
          this.on.state("locked");
          return;
        }
      }
      if (abort.signal.reason === "watch") continue;
      failures += 1;
      if (failures > 1) this.on.state("lost");
      const longest = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1));
      await this.#pause(longest * (0.5 + Math.random() / 2));
    }
  }

  #pause(ms) {
    return new Promise((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, ms);
    });
  }

  async #connect(abort, connected) {
    let silence = setTimeout(() => abort.abort("silence"), SILENCE_MS);
    try {
      const response = await fetch("/api/events", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ cursor: this.cursor, session: this.session }),
        signal: abort.signal,
      });
      if (!response.ok) throw Object.assign(new Error("refused"), { status: response.status });
      connected();
      this.on.state("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done || abort.signal.aborted) return;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort("silence"), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) this.#message(block);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  #message(block) {
    let kind = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (!kind) return;
    const body = JSON.parse(data);
    if (kind === "change") {
      this.cursor[body.session.key] = body.head;
      this.on.change(body);
    } else if (kind === "draft") this.on.draft(body);
    else if (kind === "resync") this.on.resync();
  }
}
