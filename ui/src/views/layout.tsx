// 3 Layout: the bytes of a value with how often each member is accessed, a cache line below the other, and the members as a
// table. What not: members that no traced instruction accesses; their bytes are left grey.

import { useRef } from "preact/hooks";
import { useDoc } from "../data";
import { bytes, percent } from "../format";
import { SaveDrawing, Value } from "../parts";
import { isMetric, textOf, valueOf, type LayoutDocument, type Metric, type Row } from "../types";
import { useFollowing } from "./calls";

/** Bytes of a cache line, and what is drawn of a long value at most. */
const LINE = 64;
const MOST_LINES = 32;
const CELL = 5;

interface Member {
  name: string;
  of: string;
  ofBytes: number;
  offset: number;
  bytes: number;
  share: number;
  row: Row;
}

function membersOf(rows: Row[], layout: LayoutDocument): Member[] {
  return rows.flatMap((row) => {
    const name = textOf(row.field);
    // Names come from programs: only what the document itself has is looked up.
    const place = Object.hasOwn(layout.fields, name) ? layout.fields[name] : undefined;
    if (!place) return [];
    const [of, ofBytes, offset, size] = place;
    return [{ name: name.slice(of.length + 1), of, ofBytes, offset, bytes: size, share: valueOf(row.access_percent) ?? 0, row }];
  });
}

/** What is known of the members of the types that an object is accessed as, the most accessed type first. */
export function Fields({ name }: { name: string }) {
  const table = useFollowing("objects?group=object,field&limit=400");
  const { value: layout } = useDoc<LayoutDocument>("layout");
  if (!table || !layout) return null;
  const members = membersOf(table.rows.filter((row) => row.object === name), layout);
  const types = new Map<string, Member[]>();
  for (const member of members) types.set(member.of, [...(types.get(member.of) ?? []), member]);
  const weight = (list: Member[]) => list.reduce((sum, member) => sum + member.share, 0);
  const sorted = [...types].sort((a, b) => weight(b[1]) - weight(a[1]));
  return <>{sorted.map(([of, list]) => <Type key={of} name={of} members={list.sort((a, b) => a.offset - b.offset)} />)}</>;
}

const heat = (part: number): number => (part > 0.6 ? 4 : part > 0.3 ? 3 : part > 0.1 ? 2 : part > 0 ? 1 : 0);

function Type({ name, members }: { name: string; members: Member[] }) {
  const most = Math.max(...members.map((member) => member.share), 1e-30);
  return (
    <>
      <h3>Layout of <span class="code">{name}</span>, {bytes(members[0]!.ofBytes)}</h3>
      <Drawing name={name} members={members} most={most} />
      <table class="fields">
        <thead><tr><th>Offset</th><th>Member</th><th class="number">Accesses</th><th class="number">Latency</th></tr></thead>
        <tbody>
          {members.map((member) => (
            <tr key={member.name} class={`heat${heat(member.share / most)}`}>
              <td class="number">{member.offset}</td><td class="code">{member.name}</td>
              <td class="number"><Value metric={metric(member.row, "access_percent")} badge={false} /></td>
              <td class="number"><Value metric={metric(member.row, "latency")} badge={false} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      <Order members={members} />
    </>
  );
}

/** Of the accesses, what counts as most of them. */
const HOT = 0.9;

/** The alignment that a member has at least room for: of its size and its place. */
function alignment({ offset, bytes: size }: Member): number {
  for (const power of [16, 8, 4, 2]) if (size % power === 0 && offset % power === 0) return power;
  return 1;
}

/** Lines of a value that begins at a line, which these members lie in. */
const linesOf = (members: { offset: number; bytes: number }[]): number =>
  new Set(members.flatMap(({ offset, bytes: size }) => Array.from({ length: Math.floor((offset + size - 1) / LINE) - Math.floor(offset / LINE) + 1 }, (_, at) => Math.floor(offset / LINE) + at))).size;

/** The most accessed members next to each other, where they then lie in fewer cache lines. */
function Order({ members }: { members: Member[] }) {
  const all = members.reduce((sum, member) => sum + member.share, 0);
  if (members[0]!.ofBytes <= LINE || members.length < 2 || all <= 0) return null;
  const sorted = [...members].sort((a, b) => b.share - a.share);
  let [sum, hot] = [0, [] as Member[]];
  for (const member of sorted) {
    if (sum >= HOT * all) break;
    hot = [...hot, member];
    sum += member.share;
  }
  // Larger alignments first leave no holes.
  const together = [...hot].sort((a, b) => alignment(b) - alignment(a) || b.share - a.share);
  let at = 0;
  const placed = together.map((member) => {
    const step = alignment(member);
    const offset = Math.ceil(at / step) * step;
    at = offset + member.bytes;
    return { offset, bytes: member.bytes };
  });
  const [now, then] = [linesOf(hot), linesOf(placed)];
  const names = together.map((member) => member.name);
  const share = percent((sum / all) * 100);
  if (then >= now) return <p class="legend">{`${share} of its accesses are to members in ${now === 1 ? "one cache line" : `${now} cache lines`}: no other order needs fewer.`}</p>;
  return (
    <p class="legend">
      Suggested order: <span class="code">{names.join(", ")}</span> first. They have {share} of its accesses and lie in {now} cache lines;
      next to each other they lie in {then}, if values begin at a line. That helps where they are used together, which is not known here.
    </p>
  );
}

function metric(row: Row, key: string): Metric | undefined {
  const cell = row[key];
  return isMetric(cell) ? cell : undefined;
}

/** One row of cells for each cache line, as if the value began at a line. */
function Drawing({ name, members, most }: { name: string; members: Member[]; most: number }) {
  const svg = useRef<SVGSVGElement>(null);
  const size = Math.min(members[0]!.ofBytes, LINE * MOST_LINES);
  const lines = Math.max(1, Math.ceil(size / LINE));
  const height = lines * 14;
  const cells = (member: Member) => {
    const parts = [];
    for (let at = member.offset; at < Math.min(member.offset + member.bytes, size);) {
      const end = Math.min(member.offset + member.bytes, size, (Math.floor(at / LINE) + 1) * LINE);
      parts.push({ x: (at % LINE) * CELL, y: Math.floor(at / LINE) * 14, width: (end - at) * CELL - 1 });
      at = end;
    }
    return parts;
  };
  return (
    <div class="plot">
      <svg ref={svg} width={LINE * CELL} height={height} viewBox={`0 0 ${LINE * CELL} ${height}`} role="img" aria-label={`Layout of ${name}: ${members.map((member) => `${member.name} at ${member.offset}, ${percent(member.share)} of all accesses`).join("; ")}`}>
        {Array.from({ length: lines }, (_, line) => <rect key={line} class="unused" x={0} y={line * 14} width={Math.min(LINE, size - line * LINE) * CELL - 1} height={12} />)}
        {members.map((member) => (
          <g key={member.name}>
            <title>{`${member.name}, ${member.bytes} bytes at ${member.offset}: ${percent(member.share)} of all accesses`}</title>
            {cells(member).map((part) => <rect key={part.y} class="member" x={part.x} y={part.y} width={part.width} height={12} style={{ fillOpacity: 0.2 + 0.8 * (member.share / most) }} />)}
          </g>
        ))}
      </svg>
      <SaveDrawing svg={svg} name="layout" />
    </div>
  );
}
