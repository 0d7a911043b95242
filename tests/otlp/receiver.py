#!/usr/bin/env python3
"""A receiver of OTLP profiles on 127.0.0.1 that looks at every request as the protocol demands.

    receiver.py [--https CERTIFICATE KEY]

What for: requests of `fathom export otlp --send` and `fathom watch --otlp` are parsed by the classes of opentelemetry-proto, not by ours.
The first line that it prints is its port; then a JSON object for each request. What it answers depends on the path: /refuse 400, /busy
503, /part that it took all but one; all else as a receiver does. It ends with its standard input.
"""
import gzip
import http.server
import json
import os
import ssl
import sys
import threading

from google.rpc import status_pb2
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

TABLES = {"mapping_table": "Mapping", "location_table": "Location", "function_table": "Function", "link_table": "Link",
          "attribute_table": "KeyValueAndUnit", "stack_table": "Stack"}


def value(any_value):
    kind = any_value.WhichOneof("value")
    return getattr(any_value, kind)


def check(request):
    """What the comments of profiles.proto demand; returns what a test wants to know."""
    tables = request.dictionary
    assert tables.string_table[0] == "" and len(set(tables.string_table)) == len(tables.string_table)
    for name in TABLES:
        entries = [entry.SerializeToString(deterministic=True) for entry in getattr(tables, name)]
        parsed = getattr(tables, name)
        assert parsed[0] == type(parsed[0])(), f"{name}: the first is no zero value"
        assert len(set(entries)) == len(entries), f"{name}: one is there twice"
    used = {name: {0} for name in [*TABLES, "string_table"]}

    def of(table, index):
        assert 0 <= index < len(getattr(tables, table)), (table, index)
        used[table].add(index)
        return getattr(tables, table)[index]

    def attributes(indices):
        pairs = [of("attribute_table", index) for index in indices]
        keys = [of("string_table", pair.key_strindex) for pair in pairs]
        assert len(set(keys)) == len(keys), keys
        return {key: value(pair.value) for key, pair in zip(keys, pairs)}

    [resource] = request.resource_profiles
    [scope] = resource.scope_profiles
    profiles, ids = {}, set()
    for profile in scope.profiles:
        kind = of("string_table", profile.sample_type.type_strindex)
        unit = of("string_table", profile.sample_type.unit_strindex)
        assert len(profile.profile_id) == 16 and any(profile.profile_id) and profile.time_unix_nano and profile.duration_nano
        ids.add(profile.profile_id.hex())
        total, functions, identities = 0, {}, set()
        for sample in profile.samples:
            [amount] = sample.values
            assert amount > 0 and not sample.timestamps_unix_nano
            identity = (sample.stack_index, tuple(sorted(sample.attribute_indices)), sample.link_index)
            assert identity not in identities, "samples of one identity are not combined"
            identities.add(identity)
            total += amount
            attributes(sample.attribute_indices)
            for depth, at in enumerate(of("stack_table", sample.stack_index).location_indices):
                place = of("location_table", at)
                frame = attributes(place.attribute_indices)
                assert frame["profile.frame.type"] in ("native", "kernel", "cpython"), frame
                of("string_table", of("mapping_table", place.mapping_index).filename_strindex)
                [line] = place.lines
                function = of("function_table", line.function_index)
                of("string_table", function.system_name_strindex), of("string_table", function.filename_strindex)
                name = of("string_table", function.name_strindex)
                assert name
                if depth == 0:
                    functions[name] = functions.get(name, 0) + amount
        assert kind not in profiles
        profiles[kind] = {"unit": unit, "total": total, "functions": functions, "attributes": attributes(profile.attribute_indices)}
    for name, seen in used.items():
        assert len(seen) == len(getattr(tables, name)), f"{name}: nobody refers to {len(getattr(tables, name)) - len(seen)}"
    assert len(ids) == len(profiles)
    return {"profiles": profiles, "ids": sorted(ids), "scope": scope.scope.name,
            "resource": {pair.key: value(pair.value) for pair in resource.resource.attributes}}


class Receiver(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        seen = {"path": self.path, "bytes": len(body), "key": self.headers.get("Authorization")}
        status, answer = 200, service.ExportProfilesServiceResponse()
        try:
            assert self.headers["Content-Type"] == "application/x-protobuf" and self.headers["Content-Encoding"] == "gzip"
            seen |= check(service.ExportProfilesServiceRequest.FromString(gzip.decompress(body)))
        except Exception as error:
            seen["wrong"], status = f"{type(error).__name__}: {error}", 400
        if self.path == "/refuse":
            status, answer = 400, status_pb2.Status(code=3, message="this receiver wants no profiles")
        elif self.path == "/busy":
            status, answer = 503, status_pb2.Status(code=14, message="later")
        elif self.path == "/part":
            answer.partial_success.rejected_profiles, answer.partial_success.error_message = 1, "one is too large"
        elif self.path != "/v1development/profiles":
            status, answer = 404, status_pb2.Status()
        print(json.dumps(seen), flush=True)
        sent = answer.SerializeToString()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
if sys.argv[1:2] == ["--https"]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[2:4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
