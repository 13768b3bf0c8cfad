// The message box. Enter sends, Shift+Enter makes a new line, and an Enter that ends the input of a
// composed character does neither. What is not sent yet is kept per conversation.

const KEY = "clawbot.unsent";
const LONGEST_PX = 260;

export class Composer {
  /** nodes: form, text, send, stop; on.send(text), on.stop(). */
  constructor(nodes, on) {
    this.nodes = nodes;
    this.on = on;
    this.session = "";
    const { form, text, stop } = nodes;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    text.addEventListener("input", () => this.#changed());
    text.addEventListener("keydown", (event) => {
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
        event.preventDefault();
        this.#submit();
      } else if (event.key === "Escape" && !stop.hidden && !stop.disabled) {
        event.preventDefault();
        on.stop();
      }
    });
    stop.addEventListener("click", () => on.stop());
    window.addEventListener("resize", () => this.#resize());
  }

  show(session) {
    this.session = session;
    this.nodes.text.value = kept()[session] ?? "";
    this.#changed();
  }

  focus() {
    // A screen keyboard that opens unasked hides the conversation.
    if (matchMedia("(pointer: fine)").matches) this.nodes.text.focus({ preventScroll: true });
  }

  /** Give a text back to be changed, before what is written by now. */
  giveBack(text) {
    const box = this.nodes.text;
    box.value = box.value ? `${text}\n${box.value}` : text;
    this.#changed();
    box.focus();
  }

  setRunning(isRunning) {
    this.nodes.stop.hidden = !isRunning;
    if (!isRunning) this.nodes.stop.disabled = false;
  }

  #submit() {
    const text = this.nodes.text.value;
    if (!text.trim()) return;
    this.nodes.text.value = "";
    this.#changed();
    this.on.send(text);
  }

  #changed() {
    const { text, send } = this.nodes;
    send.disabled = !text.value.trim();
    keep(this.session, text.value);
    this.#resize();
  }

  #resize() {
    const { text } = this.nodes;
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight, LONGEST_PX)}px`;
  }
}

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function keep(session, text) {
  const all = kept();
  if (text) all[session] = text;
  else delete all[session];
  try {
    sessionStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // Without storage it lives as long as the page.
  }
}
