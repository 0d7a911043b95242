// The page of a result of which a part is gone: it names the part, and every view shows what there is or says what is not.
//
//   node tests/ui/damaged.mjs CHROMIUM ADDRESS WORD       (WORD: what the message must name)

import assert from "node:assert/strict";
import { open } from "./harness.mjs";

const { address, page, step, tab, view, run } = await open();
const word = process.argv[4];

step("what is gone is said above every view", async () => {
  await page.goto(address);
  const alert = page.getByRole("alert").filter({ hasText: "This result is damaged in part" });
  await alert.waitFor();
  assert.ok((await alert.textContent()).includes(word));
  for (const name of await page.getByRole("tab").allTextContents()) {
    await tab(name);
    await view.locator(":scope > *").first().waitFor();
    await alert.waitFor();
    assert.equal(await view.getByText("this is a bug").count(), 0, name);
  }
});

await run();
