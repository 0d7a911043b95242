#!/usr/bin/env python3
"""A notebook that records its own cells, in a real kernel: cells do what they do alone, and the kernel goes on after every error.

Usage: notebook.py FATHOM
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

os.environ["FATHOM"] = sys.argv[1]
os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "python/src")
sys.path.append(os.environ["PYTHONPATH"])

# A cell, and what must be in its output: of its streams, errors and results.
CELLS = [
    ("%load_ext fathom\nimport os, time\nkernel = os.getpid()", []),
    (
        "%%fathom -a hotspots -o spun\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: sum(range(1000))\nprint('still here')\n6 * 7",
        ["still here", "42", "### `r000hs` hotspots"],
    ),
    ("spun.summary.cpu_time.value > 0.2, spun.summary.target", ["(True, 'attached')"]),
    ("spun", ["### `r000hs` hotspots"]),
    ("spun.plot_flame()", ["data:image/svg+xml;base64"]),
    ("kept = %fathom -a memory-consumption list(range(100_000)); 1 / 0", ["ZeroDivisionError"]),
    ("kept.path.name", ["r001mc"]),
    ("%%fathom -k burst-interval=20\nblock = bytearray(50_000_000)\nsum(block)", ["### `r002ma` memory-access"]),
    ("%fathom -a nonsense 1", ["UsageError", "possible values: memory-access"]),
    ("%%fathom -a hotspots\nawait None", ["UsageError", "with fathom.profile()"]),
    ("%%fathom\n", ["UsageError"]),
    ("%%fathom -a hotspots\nprint('begun', flush=True)\nwhile True: pass", ["begun", "KeyboardInterrupt", "### `r003hs` hotspots"]),
    ("kernel == os.getpid()", ["True"]),
    # The last one: Fathom ends with its kernel, and keeps what it has.
    ("%%fathom -a hotspots\nos.kill(kernel, 9)", None),
]


async def execute(client, cells):
    async with client.async_setup_kernel():
        for index, cell in enumerate(cells):
            asked = asyncio.ensure_future(client.async_execute_cell(cell, index))
            while "while True" in cell.source and not asked.done():
                await asyncio.sleep(0.2)
                if any("begun" in output.get("text", "") for output in cell.get("outputs", [])):
                    await client.km.interrupt_kernel()
                    break
            try:
                await asked
            except RuntimeError as died:
                assert CELLS[index][1] is None, died


def text(output):
    return f"{output.get('text', '')}{output.get('ename', '')}{output.get('evalue', '')}{' '.join(map(str, output.get('data', {}).values()))}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        cells = [nbformat.v4.new_code_cell(source) for source, _ in CELLS]
        notebook = nbformat.v4.new_notebook(cells=cells)
        asyncio.run(execute(NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True), cells))
        for cell, (source, expected) in zip(cells, CELLS):
            shown = "\n".join(map(text, cell.outputs))
            for words in expected or []:
                assert words in shown, f"{source}\n--- lacks {words!r}:\n{shown}"
        import fathom

        last, until = fathom.Result("r004hs"), time.monotonic() + 60
        while fathom.Result(last.path).summary.state != "complete":
            assert time.monotonic() < until, last
            time.sleep(0.1)
        os.chdir("/")


main()
