//! Prints what this machine is and what it was measured to do. For developers: users have `fathom machine`.
//! `--json`: both as JSON. `--peak`: only the bandwidth lines that `bench/calibration` reads. `--snapshot`: the
//! files behind the description. A number is the time limit in seconds.

use std::time::Duration;

use facts::Metric;

fn metric(metric: &Metric) -> String {
    let Some(value) = metric.value else {
        return format!("n/a ({})", metric.note.as_deref().unwrap_or("no reason given"));
    };
    let (low, high) = (metric.low.unwrap_or(value), metric.high.unwrap_or(value));
    format!("{value:.2} {} [{low:.2} .. {high:.2}] n={}", metric.unit, metric.samples)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wants = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if wants("--snapshot") {
        print!("{}", calibrate::snapshot().to_text());
        return;
    }
    let started = std::time::Instant::now();
    let (host, problems) = calibrate::host();
    let took = started.elapsed();
    let mut options = calibrate::Options::default();
    if let Some(seconds) = arguments.iter().find_map(|argument| argument.parse().ok()) {
        options.time_limit = Duration::from_secs(seconds);
    }
    let calibration = calibrate::measure(&host, &options, &mut |done, what| {
        eprint!("\r{:3.0} % {what:40}", done * 100.0);
    });
    eprintln!();
    if wants("--json") {
        println!("{}", serde_json::json!({ "host": host, "calibration": calibration }));
        return;
    }
    if !wants("--peak") {
        println!("host, in {took:?}: {host:#?}\nproblems: {problems:#?}");
    }
    for point in &calibration.bandwidth {
        let (program, bus) = (metric(&point.program), metric(&point.bus));
        println!("{:9} {:3} threads   program {program}   bus {bus}", point.kernel, point.threads);
    }
    if let Some(peak) = &calibration.dram_bandwidth_peak {
        println!("peak {} by {}", metric(peak), calibration.peak_kernel.as_deref().unwrap_or("?"));
        println!("     {}", peak.note.as_deref().unwrap_or_default());
    }
    if wants("--peak") {
        return;
    }
    for point in &calibration.ladder {
        println!(
            "{:>9} {:>6} pages {}",
            base::Bytes(point.bytes).to_string(),
            base::Bytes(point.page_bytes).to_string(),
            metric(&point.latency)
        );
    }
    for cache in &calibration.effective_caches {
        println!(
            "L{} size {}   latency {}",
            cache.level,
            metric(&cache.bytes),
            metric(&cache.latency)
        );
    }
    for point in &calibration.flops {
        println!(
            "{:9} {:6} {:3} threads {}",
            point.simd,
            point.precision,
            point.threads,
            metric(&point.rate)
        );
    }
    for (name, value) in [
        ("DRAM latency", &calibration.dram_latency),
        ("FLOPS peak", &calibration.flops_peak),
        ("fault 4K", &calibration.page_fault_4k),
        ("fault 2M", &calibration.page_fault_2m),
    ] {
        println!("{name}: {}", value.as_ref().map_or("n/a".to_owned(), metric));
    }
    println!("took {:.1} s; notes: {:#?}", calibration.took_seconds, calibration.notes);
}
