//! The fields that each sampling event records.
//!
//! What not: opening the events (`events`).

use sys::perf::{Attr, Flag, SoftwareEvent};

use super::super::traces::WAKES_AT;
use super::Settings;
use super::ring::ring_bytes;
use crate::counting::{Carried, Choice, SampleRate};

/// Every event samples these fields (see `record`).
pub(super) fn sampling(event: SoftwareEvent, settings: &Settings) -> Attr {
    Attr::recording(event, settings.stack_bytes)
        // Early enough to drain in time. For ordinary users it fits the smallest ring that `map_ring` falls back to.
        // Where root is denied locked memory, we rely on the wait of at most 100 ms instead.
        .watermark(u32::try_from(ring_bytes(settings.cpus.len()) / 8).unwrap_or(64 << 10))
        .flags(&[Flag::Inherit, Flag::SampleIdAll])
}

// Not PERF_SAMPLE_READ, though it would tell the CPU time of the thread: an inherited event with it keeps the kernel
// from handing a thread's events over to the next thread of the program as they are (`nr_no_switch_fast`,
// kernel/events/core.c, Linux 6.13). Each switch then takes all events from one thread and gives them to the other.
pub(super) fn clock_attr(settings: &Settings) -> Attr {
    sampling(SoftwareEvent::CpuClock, settings).all_registers().period(settings.period.0)
}

/// The event that is always on also announces mappings, names, births and deaths, and switches where these are
/// recorded.
pub(super) fn announcing(attr: Attr, settings: &Settings) -> Attr {
    let attr = attr.flags(&[Flag::Mmap, Flag::Mmap2, Flag::Comm, Flag::CommExec, Flag::Task]);
    if settings.wait_stack_rate.is_some() { attr.flags(&[Flag::ContextSwitch]) } else { attr }
}

/// Without a copied stack: such samples come often, and tell of the innermost function.
pub(super) fn counted_attr(choice: &Choice, settings: &Settings) -> Attr {
    if choice.carries == Carried::SpeAccess {
        // SPE takes no rate (drivers/perf/arm_spe_pmu.c, `arm_spe_pmu_event_init`).
        let attr = Attr::traced(choice.pmu, choice.config, WAKES_AT);
        let Some(SampleRate::Period(period)) = choice.sampled else { return attr };
        return attr.period(period);
    }
    let settings = Settings { stack_bytes: 0, ..settings.clone() };
    let attr = sampling(SoftwareEvent::Dummy, &settings).of_event(choice.pmu, choice.config);
    let attr = match choice.carries {
        Carried::Nothing | Carried::SpeAccess => attr,
        Carried::Branches => attr.branches(),
        Carried::Access { .. } => attr.accesses(true),
        Carried::IbsAccess => attr.accesses(false),
    };
    match choice.sampled {
        Some(SampleRate::Period(period)) => attr.period(period.max(1)),
        Some(SampleRate::Hertz(hertz)) => attr.frequency(hertz.max(1)),
        None => attr,
    }
}

pub(super) fn fault_attr(event: SoftwareEvent, settings: &Settings) -> Attr {
    sampling(event, settings).frequency(settings.fault_rate)
}
