//! The measured performance of the machine's memory and arithmetic.

use super::{Page, Summary, figure};
use crate::text::{bytes, number, printable, rate, seconds};

/// Pages of 4 KiB in one of 2 MiB.
const PAGES: f64 = 512.0;

pub(super) fn machine(summary: &Summary, page: &mut Page) {
    let machine = &summary.machine;
    let age = match (summary.extra.calibrated, summary.extra.calibration_age) {
        (false, _) => String::new(),
        (true, age) if age < 3600 => "measured just before the run".to_owned(),
        (true, age) if age < 2 * 3600 => "measured an hour before the run".to_owned(),
        (true, age) if age < 2 * 86_400 => format!("measured {} hours before the run", age / 3600),
        (true, age) => format!("measured {} days before the run", age / 86_400),
    };
    page.heading("What this machine's memory can do", &age);
    let host = &summary.host;
    if !host.cpu.is_empty() {
        let virtualised =
            host.virtualised.as_deref().map(|name| format!(", virtual machine ({name})"));
        let plural = if host.logical_cpus == 1 { "" } else { "s" };
        page.entry(
            "Machine",
            &printable(&format!(
                "{}, {} CPU{plural}, {}{}",
                host.cpu,
                host.logical_cpus,
                bytes(host.memory_bytes as f64),
                virtualised.unwrap_or_default()
            )),
        );
    }
    if !summary.extra.calibrated {
        page.item(
            "n/a: this machine was not measured. `fathom machine` measures it in about 16 s.",
        );
        return;
    }
    let with =
        summary.extra.peak_reached_by.as_deref().map(|pass| format!(" ({})", printable(pass)));
    let peak = figure(&machine.dram_bandwidth_peak, |value| {
        format!("{}{}", rate(value, "GB/s"), with.clone().unwrap_or_default())
    });
    page.entry("Peak bandwidth", &peak);
    let levels = [
        ("L1", &machine.load_latency.l1),
        ("L2", &machine.load_latency.l2),
        ("L3", &machine.load_latency.l3),
        ("DRAM", &machine.load_latency.dram),
    ];
    let ladder = levels.map(|(name, metric)| match metric.value {
        Some(value) => format!("{name} {} ns", number(value)),
        None => format!("{name} n/a"),
    });
    page.entry(
        "Time per load",
        &format!("{} (each load depends on the one before)", ladder.join(", ")),
    );
    let flops = |value| format!("{} in double precision", rate(value, "GFLOP/s"));
    page.entry("Peak arithmetic", &figure(&machine.flops_peak, flops));
    let one = figure(&machine.page_fault_4k, |nanos| seconds(nanos * 1e-9));
    let large = |nanos: f64| format!(", {} for one of 2 MiB", seconds(nanos * 1e-9));
    let large = machine.page_fault_2m.value.map_or(String::new(), large);
    page.entry("One page fault", &format!("{one} for a new page of 4 KiB{large}"));
    let costs = [&machine.page_fault_4k, &machine.page_fault_2m].map(|cost| cost.value);
    if let [Some(small), Some(large)] = costs {
        // A tenth is within the spread of readings.
        let ratio = large / (PAGES * small);
        if ratio > 1.1 {
            page.item(&format!(
                "a page of 2 MiB costs {} times as much as the 512 small ones here: getting memory in large pages takes time",
                number(ratio)
            ));
        }
    }
    for note in summary.extra.calibration_notes.clone() {
        page.item(&printable(&note));
    }
}
