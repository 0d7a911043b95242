// Where the names of a roofline stand: along roofs, under levels, next to points. No name covers another or a point; one that has
// no room next to its point has a line to it, and one that has no room at all is left to the legend, the table and what pointing
// at it says.

import { Room, boxAround, boxOf, meet, widthOf, type Box, type Name } from "../room";

/** A roof as it is drawn, from the left to the right. */
export interface RoofLine {
  text: string;
  from: [x: number, y: number];
  to: [x: number, y: number];
  /** Of the level whose bytes are on the axis. */
  here: boolean;
}

export interface Spot {
  x: number;
  y: number;
  radius: number;
  text: string;
  /** The heaviest find room first. */
  weight: number;
}

export interface SpotName extends Name {
  /** From the point to its name, where that is not next to it. */
  lead?: [from: [number, number], to: [number, number]];
}

/** Steps along a roof in which a place for its name is looked for, pixels. */
const STEP = 24;

/** Along the line from its right end on, above or below it. */
function* along({ text, from: [left, under], to: [right, over] }: RoofLine): Iterable<Name> {
  const [length, wide] = [Math.hypot(right - left, over - under), widthOf(text)];
  const slope = Math.atan2(over - under, right - left);
  const turn = (slope * 180) / Math.PI;
  for (let back = turn === 0 ? 4 : 10; back + wide + 4 <= length; back += STEP) {
    for (const down of [-4, 13]) {
      yield { text, turn, anchor: "end", x: right - back * Math.cos(slope) - down * Math.sin(slope), y: over - back * Math.sin(slope) + down * Math.cos(slope) };
    }
  }
}

/** A line of one pixel. */
function stroke([ax, ay]: [number, number], [bx, by]: [number, number]): Box {
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [right, down] = [(by - ay) / length / 2, (ax - bx) / length / 2];
  return [[ax + right, ay + down], [bx + right, by + down], [bx - right, by - down], [ax - right, ay - down]];
}

function nameOfSpot({ x, y, radius, text }: Spot, room: Room): SpotName | undefined {
  const near = ([[1, -7], [1, 15], [-1, -7], [-1, 15]] as const).map(([side, down]): Name => ({ text, x: x + side * (radius + 2), y: y + down, anchor: side > 0 ? "start" : "end" }));
  const next = room.first(near);
  if (next) return next;
  for (const far of [22, 40, 64]) {
    for (const degrees of [-40, 40, -140, 140, -75, 75, -105, 105]) {
      const [right, down] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
      const at = (out: number): [number, number] => [x + right * (radius + out), y + down * (radius + out)];
      const [end, anchor] = [at(far), right > 0 ? "start" : "end"] as const;
      const name: Name = { text, anchor, x: end[0] + (right > 0 ? 2 : -2), y: end[1] + 4 };
      const line = stroke(at(2), end);
      if (!room.isFree(line) || !room.isFree(boxOf(name))) continue;
      room.take(line);
      room.take(boxOf(name));
      return { ...name, lead: [at(1), end] };
    }
  }
  return undefined;
}

export interface Names {
  roofs: (Name | undefined)[];
  levels: (Name | undefined)[];
  spots: (SpotName | undefined)[];
}

/** `levels`: small circles, and their names, of which some are of several. */
export function namesOf(room: Room, roofs: RoofLine[], circles: { x: number; y: number }[], levels: { x: number; y: number; text: string }[], spots: Spot[]): Names {
  for (const { x, y, radius } of spots) room.take(boxAround(x, y, radius));
  for (const { x, y } of circles) room.take(boxAround(x, y, 5));
  const found: Names = { roofs: roofs.map(() => undefined), levels: [], spots: spots.map(() => undefined) };
  const first = roofs.map((_, at) => at).sort((a, b) => Number(roofs[b]!.here) - Number(roofs[a]!.here));
  const lines = roofs.map(({ from, to }) => stroke(from, to));
  for (const at of first) {
    // Better where no other roof goes through the name.
    if (roofs[at]!.text !== "") found.roofs[at] = room.first(along(roofs[at]!), (box) => lines.every((line, other) => other === at || !meet(line, box)));
  }
  found.levels = levels.map(({ x, y, text }) => room.first([17, -9].map((down): Name => ({ text, x, y: y + down, anchor: "middle" }))));
  const heaviest = spots.map((_, at) => at).sort((a, b) => spots[b]!.weight - spots[a]!.weight);
  for (const at of heaviest) found.spots[at] = nameOfSpot(spots[at]!, room);
  return found;
}
