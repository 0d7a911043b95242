// Colours of functions: the same in the flame graph and on the timeline.

/** One hue per module, from the palette of Okabe and Ito, which colour-blind people can tell apart; its vermilion is the kernel's. */
export const HUES = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#CC79A7", "#7FA7D9"];

const known = new Map<string, string>();

/** The hue of the module in a shade of the function. */
export function colourOf(module: string, label: string): string {
  const key = `${module}\n${label}`;
  let found = known.get(key);
  if (found === undefined) known.set(key, (found = made(module, label)));
  return found;
}

function made(module: string, label: string): string {
  let hash = 7;
  for (const letter of module) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  let light = 0;
  for (const letter of label) light = (light * 31 + letter.charCodeAt(0)) >>> 0;
  const base = HUES[hash % HUES.length]!;
  const part = (at: number) => parseInt(base.slice(at, at + 2), 16);
  const mix = 0.18 + (light % 16) / 50;
  const shade = (value: number) => Math.round(value + (255 - value) * mix);
  return `rgb(${shade(part(1))},${shade(part(3))},${shade(part(5))})`;
}
