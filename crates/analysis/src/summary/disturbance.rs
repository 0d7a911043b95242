//! CPU time that other programs, the hypervisor and the samples themselves took.

use facts::{CountedEvent, EventSample, Evidence, GaugeKind, Metric, Recording};

use crate::profile::Profile;

/// The last poll of a machine-wide CPU time: nanoseconds, and what all CPUs had to offer until then.
fn machine_time(profile: &Profile<'_>, kind: GaugeKind) -> Option<(f64, f64)> {
    let gauges = profile.recording.gauges.iter().filter(|gauge| gauge.kind == kind);
    let (time, nanos) = gauges.map(|gauge| (gauge.time, gauge.value)).max()?;
    let offered = f64::from(profile.recording.run.host.logical_cpus) * time.0 as f64;
    (offered > 0.0).then_some((nanos as f64, offered))
}

pub(super) fn stolen(profile: &Profile<'_>) -> Metric {
    match machine_time(profile, GaugeKind::StolenTime) {
        Some((nanos, offered)) => Metric::counted((nanos / offered * 100.0).min(100.0), "percent"),
        None => Metric::unavailable("percent", "not recorded"),
    }
}

/// What the whole machine used, less the program and the profiler.
pub(super) fn other_cpu(profile: &Profile<'_>, cpu_time: &Metric) -> Metric {
    let machine = machine_time(profile, GaugeKind::MachineCpuTime);
    let (Some((nanos, offered)), Some(program)) = (machine, cpu_time.value) else {
        return Metric::unavailable("percent", "not recorded");
    };
    let ours = profile.recording.run.own_cost.cpu_time_ns as f64;
    let others = (nanos - program * 1e9 - ours).clamp(0.0, offered);
    Metric {
        low: None,
        high: None,
        evidence: Some(Evidence::Estimated),
        ..Metric::counted(others / offered * 100.0, "percent")
    }
    .noted("CPU time of the machine less the program's and the profiler's; ticks of 10 ms, so no interval")
}

/// Samples that counters took, an interrupt each. Those of Arm SPE come as a trace, and an import's cost its recording.
fn counter_samples(recording: &Recording) -> u64 {
    if recording.run.source.is_some() {
        return 0;
    }
    let is_trace = |event: &CountedEvent| event.name.starts_with("arm_spe");
    let traced: Vec<bool> = recording.counted_events.iter().map(is_trace).collect();
    let interrupts = |sample: &&EventSample| traced.get(sample.event as usize) != Some(&true);
    recording.event_samples.iter().filter(interrupts).count() as u64
}

/// Echoes of clock samples have registers and nothing else: at least so many were taken.
fn echoes(profile: &Profile<'_>) -> u64 {
    let registers = profile.recording.sample_registers.iter().map(|piece| u64::from(piece.samples));
    registers.sum::<u64>().saturating_sub(profile.whole().records())
}

pub(super) fn sampling_cost(profile: &Profile<'_>, cpu_time: &Metric) -> Metric {
    let calibration = profile.calibration();
    let cost = calibration.and_then(|calibration| calibration.sample_cost.as_ref());
    let cpu = cpu_time.value.filter(|cpu| *cpu > 0.0);
    let (Some(cost), Some(cpu)) = (cost.filter(|cost| cost.value.is_some()), cpu) else {
        return Metric::unavailable("percent", "the cost of a sample was not calibrated");
    };
    let taken = profile.whole().records().saturating_add(profile.lost_samples());
    let taken = taken.saturating_add(counter_samples(profile.recording));
    let taken = taken.saturating_add(echoes(profile));
    let mut metric = cost.times(taken as f64 * 1e-9 / cpu * 100.0, "percent");
    metric.evidence = Some(Evidence::Estimated);
    metric.samples = taken;
    metric.noted("samples times the calibrated cost of one, of CPU time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_counters_cost_an_interrupt_each_those_of_a_trace_none() {
        let event = |name: &str| CountedEvent { name: name.to_owned(), ..CountedEvent::default() };
        let sample = |event| EventSample {
            time: base::Nanos(0),
            pid: base::Pid(1),
            tid: base::Tid(1),
            cpu: None,
            stack: None,
            privilege: facts::Privilege::User,
            event,
            weight: 1,
        };
        let mut recording = Recording {
            counted_events: vec![event("cycles"), event("arm_spe_0/load_filter=1,store_filter=1/")],
            event_samples: [0, 0, 1].map(sample).to_vec(),
            ..Recording::default()
        };
        assert_eq!(counter_samples(&recording), 2);
        recording.run.source = Some(facts::Source::default());
        assert_eq!(counter_samples(&recording), 0);
    }
}
