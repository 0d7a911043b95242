#!/usr/bin/env python3
"""Reads a trace by the classes of Perfetto's own messages, and prints what is on each track as JSON.

    perfetto_trace.py FILE

What for: `fathom export perfetto` writes what Perfetto's .proto files define and what their comments demand. What not: Perfetto's trace
processor, a program that its package downloads when it is first used.
"""
import json
import pathlib
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def check_known(message):
    """A field that the definitions do not have is kept apart, and no error of the parser."""
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    assert not unknown, f"{message.DESCRIPTOR.full_name} has no field {unknown}"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                check_known(part)


trace = Trace.FromString(pathlib.Path(sys.argv[1]).read_bytes())
check_known(trace)
tracks, open_slices = {}, {}
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id > 0, "track events need the sequence that they are of"
    kind = packet.WhichOneof("data")
    if kind == "track_descriptor":
        descriptor = packet.track_descriptor
        assert descriptor.uuid not in tracks, f"track {descriptor.uuid} is described twice"
        unit = descriptor.counter.unit_name if descriptor.HasField("counter") else None
        tracks[descriptor.uuid] = {"name": descriptor.name, "unit": unit, "values": [], "slices": [], "moments": []}
        open_slices[descriptor.uuid] = []
        continue
    assert kind == "track_event", f"a packet of {kind}"
    event, time = packet.track_event, packet.timestamp
    track, begun = tracks[event.track_uuid], open_slices[event.track_uuid]
    assert (event.type == TrackEvent.TYPE_COUNTER) == (track["unit"] is not None), "values are on tracks of counters, nothing else is"
    if event.type == TrackEvent.TYPE_COUNTER:
        assert event.WhichOneof("counter_value_field") == "double_counter_value"
        track["values"].append([time, event.double_counter_value])
    elif event.type == TrackEvent.TYPE_INSTANT:
        track["moments"].append([time, event.name])
    elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
        begun.append([time, event.name])
    else:
        assert event.type == TrackEvent.TYPE_SLICE_END
        start, name = begun.pop()
        assert start <= time, f"{name} ends before it begins"
        track["slices"].append([start, time, name])
assert not any(open_slices.values()), "a slice has no end"
for track in tracks.values():
    assert track["values"] == sorted(track["values"], key=lambda value: value[0]), "values in the order of time"
print(json.dumps(list(tracks.values())))
