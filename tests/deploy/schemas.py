"""Manifests of `deploy` against the schemas of Kubernetes.

What for: each object of a file against the schema of the oldest version that the guide names and of the newest known here, with unknown
fields refused. What not: what a schema cannot say, and a cluster.
"""
import pathlib

import kubernetes_validate
import yaml

OLDEST = "1.30"


def objects_of(name):
    """The objects of a manifest, which are valid."""
    file = pathlib.Path(__file__).parents[2] / "deploy" / name
    objects = list(yaml.safe_load_all(file.read_text()))
    for version in (OLDEST, kubernetes_validate.latest_version()):
        for one in objects:
            kubernetes_validate.validate(one, version, strict=True)
        broken = {**objects[-1], "spec": {**objects[-1]["spec"], "nonsense": 1}}
        try:
            kubernetes_validate.validate(broken, version, strict=True)
        except kubernetes_validate.ValidationError:
            pass
        else:
            raise AssertionError("the schema takes anything")
    return objects
