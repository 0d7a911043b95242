//! What the memory controllers of two sockets and their links counted while a program ran on the first; and what the cores of a virtual
//! machine without memory controllers counted.

use base::Nanos;
use facts::{CountedEvent, EventCount, Recording};

use super::nothing;

/// Events of the program's cores, in 100 ms.
pub fn by_cores() -> Recording {
    let mut recording = nothing();
    recording.run.elapsed_ns = 400_000_000;
    let counts = [
        ("cycles", 250_000_000),
        ("longest_lat_cache.miss", 8_000_000),
        ("offcore_requests.all_requests", 14_000_000),
        ("dtlb_load_misses.walk_active", 50_000_000),
        ("dtlb_store_misses.walk_active", 5_000_000),
    ];
    for (id, (name, often)) in (0..).zip(counts) {
        let name = name.to_owned();
        recording.counted_events.push(CountedEvent { id, name, ..CountedEvent::default() });
        for step in 1..=4_u64 {
            recording.event_counts.push(EventCount {
                time: Nanos(step * 100_000_000),
                event: id,
                count: often + often / 8 * step,
                enabled: Nanos(100_000_000),
                running: Nanos(100_000_000),
            });
        }
    }
    recording
}

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
