// Whether a name matches one of a selection: as the command line's filters do (crates/analysis/src/selection/names.rs), so that
// call trees, which the page filters, and tables, which the server filters, mean the same.

/** The whole name, or a pattern in which `*` stands for any text. */
export function nameMatches(name: string, wanted: string): boolean {
  if (!wanted.includes("*")) return name === wanted;
  const [first = "", ...parts] = wanted.split("*");
  if (!name.startsWith(first)) return false;
  const last = parts.pop() ?? "";
  let rest = name.slice(first.length);
  for (const part of parts) {
    const at = rest.indexOf(part);
    if (at < 0) return false;
    rest = rest.slice(at + part.length);
  }
  return rest.endsWith(last);
}

/** Also without its parameters, template arguments and namespaces. */
export function functionMatches(name: string, wanted: string): boolean {
  if (nameMatches(name, wanted)) return true;
  const bare = bareName(name);
  return bare === wanted || bare.endsWith(`::${wanted}`);
}

const bareNames = new Map<string, string>();

function bareName(name: string): string {
  let bare = bareNames.get(name);
  if (bare === undefined) bareNames.set(name, (bare = madeBare(name)));
  return bare;
}

/** `void ns::Grid<double>::step<4>(int)` is `ns::Grid::step`. */
function madeBare(name: string): string {
  if (/^[[<]/.test(name) || name.includes("operator")) return name;
  let [bare, depth] = ["", 0];
  for (const letter of name.replaceAll("(anonymous namespace)::", "").replaceAll("{anonymous}::", "")) {
    if (letter === "<") depth += 1;
    else if (letter === ">") depth = Math.max(0, depth - 1);
    else if (depth > 0) continue;
    else if (letter === "(" || letter === "[") break;
    else bare = letter === " " ? "" : bare + letter;
  }
  return bare === "" ? name : bare;
}
