//! What the memory controllers of two sockets and their links counted while a program ran on the first.

use base::Nanos;
use facts::{CountedEvent, EventCount, Recording};

use super::nothing;

pub fn sockets() -> Recording {
    let mut recording = nothing();
    recording.run.elapsed_ns = 1_000_000_000;
    // Name, link, bytes of 1,000, and how many in 100 ms on each socket.
    let counts: [(&str, Option<&str>, u32, [u64; 2]); 6] = [
        ("memory reads", None, 64_000, [15_000_000, 60_000]),
        ("memory writes", None, 64_000, [5_000_000, 20_000]),
        ("link sent", Some("UPI 0"), 7_111, [2_000_000, 90_000_000]),
        ("link received", Some("UPI 0"), 7_111, [90_000_000, 2_000_000]),
        ("link limit", Some("UPI 0"), 17_778, [130_000_000, 130_000_000]),
        ("link sent", Some("UPI 1"), 7_111, [0, 0]),
    ];
    let of_sockets = counts.iter().flat_map(|of| [(0, of), (1, of)]);
    for (id, (socket, (name, link, bytes, often))) in (0..).zip(of_sockets) {
        recording.counted_events.push(CountedEvent {
            id,
            name: (*name).into(),
            group: 0,
            kernel: true,
            socket: Some(socket),
            bytes_per_thousand: Some(*bytes),
            link: link.map(str::to_owned),
        });
        for step in 1..=10_u64 {
            let more = if socket == 0 && id < 4 { often[0] / 30 * (step % 4) } else { 0 };
            recording.event_counts.push(EventCount {
                time: Nanos(step * 100_000_000),
                event: id,
                count: often[socket as usize] + more,
                enabled: Nanos(100_000_000),
                running: Nanos(100_000_000),
            });
        }
    }
    recording
}
