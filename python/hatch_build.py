"""What the wheel has besides the Python files: the binary, its licences, the types of the summary, and the platform it is for.

What not: building and stripping the binary; scripts/package.sh, which calls this, does.
"""

import json
import keyword
import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEAD = '''"""The summary of a result, as types: written by hatch_build.py from docs/format/summary.schema.json. The glossary has each figure."""

from __future__ import annotations

from typing import Literal, Protocol

from ._values import Metric
'''


class Types:
    """A schema as protocols, a class per object: the few words of JSON Schema that ours uses."""

    def __init__(self, schema):
        self.text = HEAD
        for name, of in schema["$defs"].items():
            if name != "metric":
                self.annotation(of, name)
        self.annotation(schema, "summary")

    def annotation(self, schema, name):
        if "$ref" in schema:
            return _class_name(schema["$ref"].rsplit("/", 1)[1])
        if "const" in schema or "enum" in schema:
            return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
        if isinstance(schema["type"], list):
            return " | ".join(self.annotation({**schema, "type": kind}, name) for kind in schema["type"])
        if schema["type"] == "array":
            return f"list[{self.annotation(schema['items'], name)}]"
        if schema["type"] == "object":
            # A keyword cannot be an attribute: such a value has its name in brackets only.
            fields = [
                f"    {field}: {self.annotation(of, f'{name}_{field}')}\n"
                for field, of in schema["properties"].items()
                if not keyword.iskeyword(field)
            ]
            self.text += f"\n\nclass {_class_name(name)}(Protocol):\n{''.join(fields)}"
            return _class_name(name)
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[schema["type"]]


def _class_name(name):
    return "".join(word.capitalize() for word in name.split("_"))


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        # The tree of usr/ that package.sh fills, and the newest C library that the binary asks for.
        stage, libc = Path(os.environ["FATHOM_STAGE"]), os.environ["FATHOM_LIBC"].replace(".", "_")
        types = stage / "summary.py"
        types.write_text(Types(json.loads(Path(self.root, "../docs/format/summary.schema.json").read_text())).text)
        build_data["tag"] = f"py3-none-manylinux_{libc}_{os.uname().machine}"
        build_data["shared_scripts"] = {str(stage / "bin/fathom"): "fathom"}
        build_data["force_include"] = {str(types): "fathom/summary.py", str(stage / "share/doc/fathom/copyright"): "fathom/COPYRIGHT"}
