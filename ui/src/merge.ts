// The call stacks of two results as one document, in which each figure is there twice: of the one and of the other.
// What for: trees and flame graphs of what changed. What not: statistics of repeated runs (`fathom diff`).

import { Stacks } from "./stacks";
import type { Figure, StacksDocument } from "./types";

export interface Both {
  stacks: Stacks;
  /** Figures that both have, each of the new result and of the base. */
  figures: { now: Figure; base: Figure }[];
}

/** The file name of a module without its version: `libc.so.6` is `libc.so` (crates/report/src/diff/align.rs). */
function unversioned(module: string): string {
  return /^(.*\.so)[\d.]*$/.exec(module)?.[1] ?? module;
}

/** Without the suffixes of compiler clones. */
function bare(name: string): string {
  // Addresses move from build to build: code without a name is one.
  const unnamed = /^\[(.*)\+0x[0-9a-f]+\]$/.exec(name);
  return unnamed ? `[${unnamed[1]}]` : name.replace(/\.(constprop|isra|part|cold|lto_priv)(\.\d+)*(?=\.|$)/g, "");
}

/** What modules are called in both: a program keeps its place also under another name. */
function modules(base: StacksDocument, now: StacksDocument): (module: string) => string {
  const names = (doc: StacksDocument) => [...new Set(doc.modules.map(unversioned))];
  const [old, young] = [names(base), names(now)];
  const [gone, come] = [old.filter((name) => !young.includes(name)), young.filter((name) => !old.includes(name))];
  const alone = gone.length === 1 && come.length === 1 ? new Map([[gone[0]!, come[0]!]]) : new Map<string, string>();
  return (module) => alone.get(unversioned(module)) ?? unversioned(module);
}

export function bothOf(base: StacksDocument, now: StacksDocument): Both {
  const common = modules(base, now);
  const doc: StacksDocument = {
    view: "stacks", elapsed: Math.max(base.elapsed, now.elapsed), threads: [], cpus: [], over_time: [], modules: [], files: [], notes: [], figures: [],
    functions: { name: [], module: [], file: [] }, nodes: { parent: [], function: [], line: [], inlined: [] },
  };
  const texts = (list: string[]) => {
    const known = new Map<string, number>();
    return (text: string) => {
      const before = known.get(text);
      if (before !== undefined) return before;
      known.set(text, list.push(text) - 1);
      return list.length - 1;
    };
  };
  const [module, file] = [texts(doc.modules), texts(doc.files)];
  const [functions, nodes] = [new Map<string, number>(), new Map<string, number>()];
  /** Positions of the nodes of one document in both. */
  const placed = (of: StacksDocument): number[] => {
    const fns = of.functions.name.map((name, fn) => {
      const [label, where] = [bare(name), common(of.modules[of.functions.module[fn] ?? -1] ?? "?")];
      const key = `${label}\n${where}`;
      const before = functions.get(key);
      if (before !== undefined) return before;
      const source = of.files[of.functions.file[fn] ?? -1];
      doc.functions.name.push(label);
      doc.functions.module.push(module(where));
      doc.functions.file.push(source === undefined ? -1 : file(source));
      functions.set(key, doc.functions.name.length - 1);
      return doc.functions.name.length - 1;
    });
    const at: number[] = [];
    of.nodes.parent.forEach((parent, node) => {
      const [above, fn] = [parent >= 0 && parent < node ? at[parent]! : -1, fns[of.nodes.function[node]!] ?? -1];
      const key = `${above} ${fn}`;
      let place = nodes.get(key);
      if (place === undefined) {
        nodes.set(key, (place = doc.nodes.parent.push(above) - 1));
        doc.nodes.function.push(fn);
        doc.nodes.line.push(of.nodes.line[node] ?? 0);
        doc.nodes.inlined.push(of.nodes.inlined[node] ?? 0);
      }
      at.push(place);
    });
    return at;
  };
  // Lines and files are those of the new result, where it has the function.
  const [young, old] = [placed(now), placed(base)];
  const moved = (figure: Figure, at: number[]): Figure => ({ ...figure, cells: { ...figure.cells, node: figure.cells.node.map((node) => at[node] ?? Infinity), thread: figure.cells.thread.map(() => -1) } });
  const figures = now.figures.flatMap((figure) => {
    const other = base.figures.find(({ key }) => key === figure.key);
    return other ? [{ now: moved(figure, young), base: moved(other, old) }] : [];
  });
  return { stacks: new Stacks(doc), figures };
}
