// Light or dark: as the system has it, until the user chooses. The choice is kept for the next page.
// A server's port, and with it the origin of its page, is another each time: there a cookie keeps the choice, for a cookie is of
// the host alone. A page from disk has no cookies.

export type Theme = "light" | "dark";

const KEY = "fathom-theme";
const YEAR = 365 * 24 * 3600;

function known(word: string | null | undefined): Theme | undefined {
  return word === "light" || word === "dark" ? word : undefined;
}

function kept(): Theme | undefined {
  try {
    return known(new RegExp(`(?:^|; )${KEY}=(\\w+)`).exec(document.cookie)?.[1]) ?? known(localStorage.getItem(KEY));
  } catch {
    // A browser may refuse both to a page from disk.
    return undefined;
  }
}

/** What is shown now. */
export function theme(): Theme {
  return known(document.documentElement.dataset.theme) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** Shows what was chosen before. */
export function restoreTheme(): void {
  const before = kept();
  if (before) document.documentElement.dataset.theme = before;
}

export function chooseTheme(next: Theme): void {
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
    document.cookie = `${KEY}=${next}; path=/; max-age=${YEAR}; samesite=strict`;
  } catch {
    // Then it is for this page only.
  }
}
