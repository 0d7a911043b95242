"""`%fathom` and `%%fathom` for IPython and Jupyter: record a line or a cell in this very process."""

from __future__ import annotations

from typing import Any, Optional

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from ._command import FathomError
from ._recording import profile
from ._result import Result


@magics_class
class FathomMagics(Magics):  # type: ignore[misc]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def fathom(self, line: str, cell: Optional[str] = None) -> Optional[Result]:
        """Records a line or a cell with Fathom, and shows the result.

            %fathom [options] statement
            %%fathom [options]
            statements

        -a ANALYSIS    memory-access (default), hotspots, memory-consumption, threading
        -k NAME=VALUE  a knob of `fathom collect` (repeatable)
        -r DIRECTORY   where the result goes; default: the next free of r000ma, r001ma, ... here
        -o NAME        also keep the result in this variable; it is the output of the cell in any case
        -n             leave Python functions without names (Python 3.12 and later name them, and calls take longer meanwhile)

        Fathom attaches to this kernel while the code runs, and leaves. Code that fails is recorded, too."""
        options, statement = self.parse_options(line, "a:k:r:o:n", list_all=True, posix=False, preserve_non_opts=True)
        code = statement if cell is None else cell
        if not code.strip() or (cell is not None and statement.strip()):
            raise UsageError("%fathom [options] statement, or %%fathom [options] as the first line of a cell; %fathom? has the options")
        if self._awaits(code):
            raise UsageError("a cell that awaits runs in the kernel's own loop: write `with fathom.profile() as recording:` in it instead")
        knobs = dict(knob.partition("=")[::2] for knob in options.get("k", []))
        last = {name: options[name][-1] for name in "aro" if name in options}
        try:
            with profile(last.get("a", "memory-access"), result=last.get("r"), names="n" not in options, **knobs) as recording:
                self.shell.run_cell(code)
        except FathomError as error:
            raise UsageError(str(error)) from None
        if "o" in last:
            self.shell.user_ns[last["o"]] = recording.result
        return recording.result

    def _awaits(self, code: str) -> bool:
        try:
            return bool(self.shell.should_run_async(code, transformed_cell=self.shell.transform_cell(code)))
        except SyntaxError:
            # Running it says so.
            return False


def load(shell: Any) -> None:
    shell.register_magics(FathomMagics)
