// What the page and its SQL worker tell each other. Each message has one reply; a failed one is `{ error }`.

export type Plain = string | number | null;

/** A table, flat: what SQL sees of it. */
export interface Given {
  name: string;
  columns: string[];
  rows: Plain[][];
}

/** What a question finds; `more`: there are more rows than were asked for. */
export interface Found {
  columns: string[];
  rows: Plain[][];
  more: boolean;
}

export type Message = { wasm: ArrayBuffer } | { load: string; columns: string[]; rows: Plain[][] } | { sql: string; most: number };
