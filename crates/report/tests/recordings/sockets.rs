//! What the memory controllers of two sockets counted while a program ran on the first.

use base::Nanos;
use facts::{CountedEvent, EventCount, Recording};

use super::nothing;

pub fn sockets() -> Recording {
    let mut recording = nothing();
    recording.run.elapsed_ns = 1_000_000_000;
    let counts =
        [(0, "memory reads"), (1, "memory reads"), (0, "memory writes"), (1, "memory writes")];
    for (id, (socket, name)) in (0..).zip(counts) {
        recording.counted_events.push(CountedEvent {
            id,
            name: name.into(),
            group: 0,
            kernel: true,
            socket: Some(socket),
            bytes_per_thousand: Some(64_000),
        });
        for step in 1..=10_u64 {
            let lines = if socket == 0 { 15_000_000 + 500_000 * (step % 4) } else { 60_000 };
            recording.event_counts.push(EventCount {
                time: Nanos(step * 100_000_000),
                event: id,
                count: if id < 2 { lines } else { lines / 3 },
                enabled: Nanos(100_000_000),
                running: Nanos(100_000_000),
            });
        }
    }
    recording
}
