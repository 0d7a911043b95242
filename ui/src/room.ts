// Room for names in a drawing: what is taken, and where else a name may stand. Names are measured in the page's own font.
//
// What not: drawing. A box may be turned, as a name along a sloped line is.

/** Four corners, in order. */
export type Box = [x: number, y: number][];

/** The font of `.tick` in the style sheet. */
const TICK = 11;
let context: CanvasRenderingContext2D | null | undefined;
const letters = new Map<string, number>();

function letterWidth(letter: string): number {
  let width = letters.get(letter);
  if (width === undefined) {
    if (context === undefined) {
      context = document.createElement("canvas").getContext("2d");
      if (context) context.font = `${TICK}px ${getComputedStyle(document.body).fontFamily}`;
    }
    letters.set(letter, (width = context?.measureText(letter).width ?? 7));
  }
  return width;
}

/** Pixels of a text of the drawing's small size: letter by letter, so that thousands of names cost little. */
export function widthOf(text: string): number {
  let sum = 0;
  for (const letter of text) sum += letterWidth(letter);
  return sum;
}

/** As much of a text as has room, with dots where it is cut; nothing where too little would be left to know it by. */
export function fitted(text: string, room: number, least = 3): string {
  if (widthOf(text) <= room) return text;
  let left = room - letterWidth("…");
  let end = 0;
  for (const letter of text) {
    left -= letterWidth(letter);
    if (left < 0) break;
    end += letter.length;
  }
  return end >= least ? `${text.slice(0, end)}…` : "";
}

/** Letters above and below their line, pixels. */
const [ABOVE, BELOW] = [9, 3];

export interface Name {
  text: string;
  /** Where its line begins or ends. */
  x: number;
  y: number;
  anchor: "start" | "end" | "middle";
  /** Degrees around that point. */
  turn?: number;
}

/** What a name covers. */
export function boxOf({ text, x, y, anchor, turn = 0 }: Name): Box {
  const wide = widthOf(text);
  const from = anchor === "start" ? 0 : anchor === "end" ? -wide : -wide / 2;
  const [cos, sin] = [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];
  const corners: Box = [[from, -ABOVE], [from + wide, -ABOVE], [from + wide, BELOW], [from, BELOW]];
  return corners.map(([right, down]) => [x + right * cos - down * sin, y + right * sin + down * cos]);
}

export function boxAround(x: number, y: number, radius: number): Box {
  return [[x - radius, y - radius], [x + radius, y - radius], [x + radius, y + radius], [x - radius, y + radius]];
}

/** From where to where a box reaches, across and down. */
const reach = (box: Box): [number, number, number, number] => {
  const [across, down] = [box.map(([x]) => x), box.map(([, y]) => y)];
  return [Math.min(...across), Math.max(...across), Math.min(...down), Math.max(...down)];
};

/** Whether two convex shapes have a point in common: where no line between them exists (separating axis theorem). */
export function meet(one: Box, other: Box): boolean {
  const apart = (of: Box) => of.some(([x, y], at) => {
    const [next, below] = of[(at + 1) % of.length]!;
    const across = ([right, down]: [number, number]) => right * (below - y) - down * (next - x);
    const [a, b] = [one.map(across), other.map(across)];
    return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a);
  });
  return !apart(one) && !apart(other);
}

export class Room {
  private readonly taken: { box: Box; reach: [number, number, number, number] }[] = [];

  constructor(private readonly left: number, private readonly top: number, private readonly right: number, private readonly bottom: number) {}

  take(box: Box): void {
    this.taken.push({ box, reach: reach(box) });
  }

  isFree(box: Box): boolean {
    const [left, right, top, bottom] = reach(box);
    if (left < this.left || right > this.right || top < this.top || bottom > this.bottom) return false;
    return !this.taken.some((one) => one.reach[0] < right && left < one.reach[1] && one.reach[2] < bottom && top < one.reach[3] && meet(one.box, box));
  }

  /** The first of these names that has room, which it takes; one that is not `better` only where no better one has room. */
  first(names: Iterable<Name>, better: (box: Box) => boolean = () => true): Name | undefined {
    let found: Name | undefined;
    for (const name of names) {
      const box = boxOf(name);
      if (!this.isFree(box)) continue;
      found ??= name;
      if (!better(box)) continue;
      found = name;
      break;
    }
    if (found) this.take(boxOf(found));
    return found;
  }
}
