/** A parser of server-sent events. */

export interface ServerEvent {
  event: string;
  data: string;
  id: string | undefined;
}

/** Collects bytes and returns complete events. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string | undefined;

  feed(bytes: Uint8Array): ServerEvent[] {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  #line(line: string): ServerEvent[] {
    if (line === "") {
      const event = { event: this.#event, data: this.#data.join("\n"), id: this.#id };
      const complete = this.#data.length > 0;
      [this.#event, this.#data, this.#id] = ["", [], undefined];
      return complete ? [event] : [];
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    return [];
  }
}
