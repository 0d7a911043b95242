//! The real measurement on the machine that runs the tests, short. No figure is judged by its size: only what must
//! hold on any machine.

use std::time::Duration;

use calibrate::reading::Reader;
use calibrate::{Options, measure};
use facts::host::{Calibration, ReadingMoment};
use facts::{Evidence, Metric};

fn all_metrics(calibration: &Calibration) -> Vec<&Metric> {
    let mut metrics: Vec<&Metric> = Vec::new();
    metrics.extend(calibration.bandwidth.iter().flat_map(|point| [&point.program, &point.bus]));
    metrics.extend(calibration.ladder.iter().map(|point| &point.latency));
    metrics.extend(
        calibration.effective_caches.iter().flat_map(|cache| [&cache.bytes, &cache.latency]),
    );
    metrics.extend(calibration.level_bandwidth.iter().map(|point| &point.rate));
    let operations = calibration.operations.iter();
    metrics.extend(operations.flat_map(|one| [Some(&one.each), one.latency.as_ref()]).flatten());
    metrics.extend(calibration.flops.iter().map(|point| &point.rate));
    let pairs = calibration.node_pairs.iter();
    metrics.extend(pairs.flat_map(|pair| [&pair.latency, &pair.one_thread, &pair.all_threads]));
    let single = [
        &calibration.dram_bandwidth_peak,
        &calibration.dram_latency,
        &calibration.flops_peak,
        &calibration.page_fault_4k,
        &calibration.page_fault_2m,
    ];
    metrics.extend(single.into_iter().flatten());
    metrics
}

/// Against a measurement of the same seconds; its figures are not judged.
fn reading(host: &facts::host::Host, stored: &Calibration) {
    let reader = Reader::new(host, stored);
    let reading = match reader.and_then(|reader| reader.read(ReadingMoment::After)) {
        Ok(reading) => reading,
        Err(why) => {
            println!("skipped: no reading: {why}");
            return;
        }
    };
    assert!(reading.bytes >= 4 << 20 && reading.took_seconds > 0.0 && !reading.points.is_empty());
    for point in &reading.points {
        let same = |one: &&facts::host::BandwidthPoint| {
            (&one.kernel, one.threads) == (&point.kernel, point.threads)
        };
        assert!(stored.bandwidth.iter().any(|one| same(&one)), "{point:?}");
        let (value, ends) = (point.bus.value.expect("passes"), (point.bus.low, point.bus.high));
        assert!(!point.passes.is_empty() && point.passes.iter().all(|rate| *rate > 0.0));
        assert!(ends.0.expect("low") <= value && value <= ends.1.expect("high"), "{point:?}");
    }
    // What there is nothing to compare with is not read.
    let none = Calibration { bandwidth: Vec::new(), ..stored.clone() };
    assert!(Reader::new(host, &none).is_err());
}

#[test]
fn a_short_measurement_gives_sound_metrics() {
    let (host, _) = calibrate::host();
    let mut seen = Vec::new();
    let options = Options { time_limit: Duration::from_secs(2) };
    let calibration =
        measure(&host, &options, &mut |done, what| seen.push((done, what.to_owned())));
    assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "progress goes forward");
    assert!(seen.last().is_some_and(|(done, _)| (0.999..=1.0).contains(done)), "and ends at 1");
    for metric in all_metrics(&calibration) {
        let Some(value) = metric.value else {
            assert!(metric.note.is_some() && metric.evidence.is_none(), "{metric:?}");
            continue;
        };
        assert_eq!(metric.evidence, Some(Evidence::Calibrated));
        assert!(value.is_finite() && value > 0.0 && metric.samples > 0, "{metric:?}");
        let (low, high) = (metric.low.expect("interval"), metric.high.expect("interval"));
        assert!(low <= value && value <= high, "{metric:?}");
    }
    assert!(
        !calibration.ladder.is_empty()
            && !calibration.bandwidth.is_empty()
            && !calibration.flops.is_empty()
    );
    assert_eq!(calibration.fingerprint, machine::fingerprint(&host));
    reading(&host, &calibration);
    let text = serde_json::to_string(&calibration).expect("plain data");
    let again: Calibration = serde_json::from_str(&text).expect("our own");
    assert_eq!(all_metrics(&again).len(), all_metrics(&calibration).len());
}

/// What pages cost is the machine's affair; that all were touched, or the time was over, is ours.
#[test]
fn pages_are_read_in_no_time() {
    let (host, _) = calibrate::host();
    match calibrate::pages::read(&host) {
        Ok(reading) => {
            assert!((1..=32).contains(&reading.large.len()), "{reading:?}");
            assert!((1..=4).contains(&reading.small.len()), "{reading:?}");
            assert!(reading.refused as usize <= reading.large.len(), "{reading:?}");
            let all = reading.small.iter().chain(&reading.large);
            assert!(all.clone().all(|nanos| nanos.is_finite() && *nanos > 0.0), "{reading:?}");
        }
        Err(why) => println!("skipped: no reading of pages: {why}"),
    }
}

/// The description agrees with what the C library says, and its stored text describes the same machine again.
#[test]
fn this_machine_is_described() {
    let (host, problems) = calibrate::host();
    let threads = std::thread::available_parallelism().expect("known on Linux").get();
    let quota = host.cpu_quota.map_or(usize::MAX, |quota| (quota as usize).max(1));
    assert_eq!(host.allowed_cpus.len().min(quota), threads, "{problems:?}");
    assert!(
        host.cores >= 1 && host.cores <= host.logical_cpus && host.memory_bytes > 0,
        "{host:?}"
    );
    let snapshot = calibrate::snapshot();
    let text = snapshot.to_text();
    let mut again = machine::Snapshot::from_text(&text).expect("our own text");
    again.cpuid = snapshot.cpuid.clone();
    again.architecture = snapshot.architecture.clone();
    again.page_bytes = snapshot.page_bytes;
    again.measured_tsc_hz = snapshot.measured_tsc_hz;
    let (first, second) = (machine::describe(&snapshot).0, machine::describe(&again).0);
    assert_eq!(first, second);
    assert_eq!(machine::fingerprint(&first), machine::fingerprint(&host));
}
