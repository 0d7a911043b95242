"""Records programs, running processes, and the code of a `with` block in this process. What not: reading results (`_result`)."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Dict, Iterator, List, Mapping, MutableMapping, Optional, Sequence, Tuple, Type, Union

from ._command import FathomError, binary
from ._result import Result

AnyPath = Union[str, "os.PathLike[str]"]

#: prctl(2): the process that may trace this one where Yama else lets parents only (kernel.yama.ptrace_scope 1).
PR_SET_PTRACER = 0x59616D61
#: Fathom waits up to 3 s for a thread that can map its heap library (docs/guide/command-line.md, Attaching).
ATTACH_SECONDS = 15
#: The end of the name of a result, where it is not the initials of its analysis.
SUFFIXES = {"hotspots": "hs", "threading": "tr"}
#: Columns of a table and parameters of a module that get names: there may be thousands.
_MOST_PARTS = 100


def collect(
    analysis: str,
    command: Union[AnyPath, Sequence[AnyPath], None] = None,
    *,
    pid: Optional[int] = None,
    system: bool = False,
    result: Optional[AnyPath] = None,
    repeat: Optional[int] = None,
    duration: Optional[float] = None,
    limit: Optional[int] = None,
    ranks: Optional[str] = None,
    cwd: Optional[AnyPath] = None,
    env: Optional[Mapping[str, str]] = None,
    **knobs: object,
) -> Result:
    """Records a program, a running process or the machine, as `fathom collect` does. `command` is the program, or a list of it and its
    arguments; `env` adds to its environment. Knobs are written with `_` for `-`: `overhead=10`, `sampling_interval=0.5`. Without `result`,
    the result gets the next free name here.

    The program's standard error comes through a pipe. A program that fails leaves a result, too: `result.summary.exit_code`. `FathomError`
    is raised where there is no result, and where Fathom could not finish it."""
    words: List[AnyPath] = [command] if isinstance(command, (str, os.PathLike)) else list(command or [])
    environment = {**os.environ, **(env or {})}
    if words:
        _name_functions(os.fspath(words[0]), environment)
    target = ["--", *words] if words else [f"--pid={pid}"] if pid is not None else []
    options = [*(["--system"] if system else []), *_options(knobs, repeat=repeat, duration=duration, limit=limit, ranks=ranks)]
    while True:
        directory = _named(result, analysis)
        is_new = not directory.exists()
        # Another one may take the name meanwhile: nobody needs to read that.
        taken = f"{directory} exists already" if result is None else None
        code, text = _run([binary(), "collect", analysis, "--quiet", f"--result={directory}", *options, *target], cwd, environment, taken)
        if code != 2 or taken is None or taken not in text:
            break
    recorded = Result(directory)
    # The code of a program that failed is passed on; any other is a failure of ours.
    if code and not (words and is_new and (directory / "run.json").exists() and recorded.summary.exit_code == code):
        raise FathomError(code, text)
    return recorded


def run(command: Union[AnyPath, Sequence[AnyPath]], analysis: str = "memory-access", **options: Any) -> Result:
    """Runs a program and records it; options as of `collect`. A Python program gets PYTHONPERFSUPPORT=1 where its interpreter knows that
    (3.12 and later): reports then name its functions `py::NAME`, and calls of them take longer. `env={"PYTHONPERFSUPPORT": "0"}` prevents it."""
    return collect(analysis, command, **options)


def run_script(path: AnyPath, *arguments: str, **options: Any) -> Result:
    """Runs a Python script with this interpreter and records it; options as of `run`."""
    return run([sys.executable, path, *arguments], **options)


def attach(pid: int, seconds: Optional[float] = None, analysis: str = "memory-access", **options: Any) -> Result:
    """Records a running process for so many seconds, or until it ends; options as of `collect`. The process continues."""
    return collect(analysis, pid=pid, duration=seconds, **options)


class profile:
    """Records this process while a block runs, by a Fathom that attaches to it; `result` is there after the block.

        with fathom.profile() as recording:
            work()
        print(recording.result)

    Options as of `collect`. With `names`, Python 3.12 and later name the functions that the block calls
    (`sys.activate_stack_trampoline`); calls of Python functions take longer meanwhile. NumPy arrays that are variables when the block
    begins, of its function or of a module, have their names in `view("objects")`."""

    result: Result
    _in_use = threading.Lock()

    def __init__(
        self,
        analysis: str = "memory-access",
        *,
        result: Optional[AnyPath] = None,
        limit: Optional[int] = None,
        names: bool = True,
        **knobs: object,
    ) -> None:
        # Frames of the interpreter are large, and a notebook has many of its own below a cell.
        knobs.setdefault("stack_size", 32768)
        self._directory, self._names = _named(result, analysis), names
        self._words = [analysis, "--quiet", f"--result={self._directory}", f"--pid={os.getpid()}", *_options(knobs, limit=limit)]

    def __enter__(self) -> profile:
        if not self._in_use.acquire(blocking=False):
            raise FathomError(2, "this process is being recorded already")
        try:
            frame = sys._getframe(1)
            self._objects = _name_arrays({**vars(sys.modules["__main__"]), **frame.f_globals, **frame.f_locals})
            self._attach()
        except BaseException:
            self._in_use.release()
            raise
        self._names = self._names and _activate_names()
        return self

    def _attach(self) -> None:
        self._messages = tempfile.TemporaryFile()
        # The shell keeps its process id and waits for the line: so this process can name its tracer before Fathom needs that. In a
        # session of its own, Ctrl-C and the interrupt of a notebook reach the block, not Fathom.
        self._child = subprocess.Popen(
            ["sh", "-c", 'read -r _ && exec "$@"', "sh", binary(), "collect", *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,
        )
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(self._child.pid), 0, 0, 0)
        with self._child.stdin as gate:  # type: ignore[union-attr]
            gate.write(b"\n")
        until = time.monotonic() + ATTACH_SECONDS
        try:
            while not self._is_recording():
                if self._child.poll() is not None:
                    raise self._error()
                if time.monotonic() > until:
                    raise FathomError(3, f"Fathom did not attach to this process within {ATTACH_SECONDS} s")
                time.sleep(0.01)
        except BaseException:
            self._child.terminate()
            raise

    def _is_recording(self) -> bool:
        """Events are opened last. Where there are none, the journal grows after a second."""
        try:
            files = Path(f"/proc/{self._child.pid}/fd").iterdir()
            return any("[perf_event]" in os.readlink(file) for file in files) or (self._directory / "journal.fathom").stat().st_size > 16
        except OSError:
            return False

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], _: Optional[TracebackType]) -> None:
        try:
            if sys.version_info >= (3, 12) and self._names:
                sys.deactivate_stack_trampoline()
            # Of an attached Fathom the first one ends the recording, and no signal touches the process.
            self._child.send_signal(signal.SIGINT)
            code = self._child.wait()
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(0), 0, 0, 0)
        finally:
            self._objects.close()
            self._in_use.release()
        self.result = Result(self._directory)
        if code and error is None:
            raise self._error()

    def _error(self) -> FathomError:
        self._messages.seek(0)
        return FathomError(self._child.wait(), self._messages.read().decode(errors="replace"))


def _named(result: Optional[AnyPath], analysis: str) -> Path:
    """The directory of a new result: this one, else the next free of `r000ma`, `r001ma`, ... as `fathom collect` counts."""
    if result is not None:
        return Path(result).absolute()
    suffix = SUFFIXES.get(analysis, "".join(word[:1] for word in analysis.split("-")))
    taken = [int(name[1:4]) for name in os.listdir() if re.fullmatch(r"r\d{3}[a-z]{2}", name)]
    return Path(f"r{max(taken, default=-1) + 1:03}{suffix}").absolute()


def _options(knobs: Mapping[str, object], **options: object) -> List[str]:
    words = [f"--{name}={value}" for name, value in options.items() if value is not None]
    for name, value in knobs.items():
        words.append(f"--knob={name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
    return words


def _run(words: Sequence[AnyPath], cwd: Optional[AnyPath], environment: Mapping[str, str], but: Optional[str]) -> Tuple[int, str]:
    """The exit code of a Fathom with a program, and the end of what they wrote to standard error, which is passed on but for this."""
    end: List[bytes] = []
    child = subprocess.Popen(words, stderr=subprocess.PIPE, cwd=cwd, env=environment)
    # Children of the program may keep the pipe longer than Fathom runs: nobody waits for its end.
    passing_on = threading.Thread(target=_pass_on, args=(child.stderr, end, but), daemon=True)
    passing_on.start()
    interrupts = 0
    while True:
        try:
            code = child.wait()
            break
        except KeyboardInterrupt:
            # Ctrl-C and a notebook's interrupt reach Fathom, too, which then ends the recording and keeps it. The next one ends the program.
            interrupts += 1
            if interrupts > 1:
                child.terminate()
    passing_on.join(timeout=1)
    if interrupts:
        raise KeyboardInterrupt
    return code, b"".join(end).decode(errors="replace")


def _pass_on(pipe: IO[bytes], end: List[bytes], but: Optional[str]) -> None:
    for piece in iter(lambda: os.read(pipe.fileno(), 65536), b""):
        text = piece.decode(errors="replace")
        if but is None or but not in text:
            sys.stderr.write(text)
            sys.stderr.flush()
        end.append(piece)
        del end[:-16]


def _name_functions(program: str, environment: MutableMapping[str, str]) -> None:
    """Sets what makes a Python name its functions for profilers, and says so."""
    if not Path(program).name.startswith("python") or "PYTHONPERFSUPPORT" in environment:
        return
    asked = [program, "-c", "import sys; sys.activate_stack_trampoline('perf')"]
    try:
        has_names = subprocess.run(asked, env=environment, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    except OSError:
        # There is no such program: Fathom says that.
        return
    if has_names:
        environment["PYTHONPERFSUPPORT"] = "1"
    says = "its functions are named py::NAME, and calls take longer (PYTHONPERFSUPPORT=1)" if has_names else "it cannot name its functions: Python 3.12 or later can"
    print(f"fathom: {program}: {says}", file=sys.stderr)


def _arrays(numpy: Any, name: str, value: Any, depth: int = 0) -> Iterator[Tuple[str, Any]]:
    """The arrays that a variable consists of, as NumPy sees their memory: its own; columns of pandas; what shows its memory by DLPack, as
    tensors of PyTorch and JAX and arrays of Arrow do; and the parameters of a module of PyTorch."""
    pandas: Any = sys.modules.get("pandas")
    if isinstance(value, numpy.ndarray):
        yield name, value
    elif hasattr(pandas, "DataFrame") and isinstance(value, pandas.DataFrame):
        for column in range(min(value.shape[1], _MOST_PARTS)):
            yield from _arrays(numpy, f"{name}[{value.columns[column]!r}]", value.iloc[:, column])
    elif hasattr(pandas, "Series") and isinstance(value, pandas.Series):
        # Of a column with a mask, its values; what is neither has no array of its own.
        values = getattr(value.array, "_data", value.array)
        values = values if isinstance(values, numpy.ndarray) else value.to_numpy() if isinstance(value.dtype, numpy.dtype) else None
        if values is not None:
            yield name, values
    elif callable(getattr(type(value), "named_parameters", None)) and depth == 0:
        for part, parameter in list(value.named_parameters())[:_MOST_PARTS]:
            yield from _arrays(numpy, f"{name}.{part}", parameter, 1)
    elif hasattr(type(value), "__dlpack__"):
        # A tensor that takes part in a gradient shows its memory only without that.
        shown = value.detach() if hasattr(type(value), "detach") else value
        yield name, numpy.from_dlpack(shown)


def _name_arrays(variables: Mapping[str, object]) -> IO[str]:
    """The file by which a process names its data for Fathom, with the memory of arrays: lines of first address, bytes and name. Of several
    with the same memory the owner counts, and then a name without `_`."""
    numpy: Any = sys.modules.get("numpy")
    lines: Dict[int, Tuple[bool, bool, str]] = {}
    for variable, value in variables.items() if hasattr(numpy, "ndarray") else ():
        try:
            found = list(_arrays(numpy, variable, value))
        except Exception:
            # Memory of another device, an object that is not whole yet: it has no name, and nobody asked for its error.
            continue
        for name, array in found:
            owner: Any = array
            # A column within a table of its own keeps its name where it lies in one piece.
            while isinstance(owner.base, numpy.ndarray) and (name == variable or not owner.flags.forc):
                owner = owner.base
            if owner.flags.forc and owner.nbytes:
                # Of a part whose memory is that of the whole, the whole.
                shown, name = (array, name) if owner is array or name == variable else (owner, variable)
                line = f"{owner.ctypes.data:x} {owner.nbytes:x} {name}: {shown.dtype}{list(shown.shape)}\n"
                better = (owner is not array, name.startswith("_"), line)
                lines[owner.ctypes.data] = min(better, lines.get(owner.ctypes.data, better))
    file = open(os.memfd_create("fathom-objects"), "w")
    file.writelines(line for _, _, line in lines.values())
    file.flush()
    return file


def _activate_names() -> bool:
    """Whether this process names Python functions from now on, and did not before."""
    if sys.version_info < (3, 12) or sys.is_stack_trampoline_active():
        return False
    try:
        sys.activate_stack_trampoline("perf")
    except ValueError:
        # Built without it.
        return False
    return True
