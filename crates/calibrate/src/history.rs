//! Whether today's peak bandwidth is like earlier ones of this machine.
//!
//! What for: a virtual machine may get another share of the memory tomorrow, and every figure is compared with the
//! last measurement. What not: files (`cache`). Assumption: the stored calibration may be hostile or from a busy
//! machine.

use facts::host::{Calibration, EarlierPeak};

/// Number of earlier peaks that are kept.
const KEPT: usize = 10;
/// Fewer peaks do not make a spread.
const LEAST: usize = 3;
/// Peaks of one machine differ by some percent from day to day; one further outside gets a note.
const MARGIN: f64 = 0.05;

/// Gives a fresh calibration the earlier peaks, newest last, and a note if its own lies outside them. `stored`: the
/// previous one of the same machine.
pub fn follow(stored: &Calibration, fresh: &mut Calibration) {
    let plausible =
        |peak: &EarlierPeak| peak.gb_per_s.is_finite() && (0.0..1e6).contains(&peak.gb_per_s);
    let last = stored.dram_bandwidth_peak.as_ref().and_then(|peak| peak.value);
    let last = last.map(|gb_per_s| EarlierPeak { measured_unix: stored.measured_unix, gb_per_s });
    // A busy machine says nothing about what it could do.
    let last = last.filter(|_| !stored.disturbed);
    let mut earlier: Vec<EarlierPeak> =
        stored.earlier_peaks.iter().copied().chain(last).filter(plausible).collect();
    earlier.drain(..earlier.len().saturating_sub(KEPT));
    let note = outside(&earlier, fresh);
    fresh.earlier_peaks = earlier;
    fresh.notes.extend(note);
}

fn outside(earlier: &[EarlierPeak], fresh: &Calibration) -> Option<String> {
    let peak = fresh.dram_bandwidth_peak.as_ref()?;
    let value = peak.value?;
    let (low, high) = (peak.low.unwrap_or(value), peak.high.unwrap_or(value));
    let of = |pick: fn(f64, f64) -> f64| earlier.iter().map(|peak| peak.gb_per_s).reduce(pick);
    let (least, most) = (of(f64::min)?, of(f64::max)?);
    let differs = high < least * (1.0 - MARGIN) || low > most * (1.0 + MARGIN);
    if earlier.len() < LEAST || !differs {
        return None;
    }
    let since = earlier.iter().map(|peak| peak.measured_unix).min().unwrap_or(0);
    let days = fresh.measured_unix.saturating_sub(since) / 86_400;
    Some(format!(
        "the peak bandwidth of {value:.1} GB/s is unlike that of {} earlier measurements of this machine within {days} days: \
         {least:.1} to {most:.1} GB/s",
        earlier.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(day: u64, gb_per_s: f64) -> Calibration {
        Calibration {
            measured_unix: day * 86_400,
            dram_bandwidth_peak: Some(facts::Metric::counted(gb_per_s, "GB/s")),
            ..Calibration::default()
        }
    }

    fn after(peaks: &[f64]) -> Calibration {
        let mut last = measured(0, peaks[0]);
        for (day, peak) in (1..).zip(&peaks[1..]) {
            let mut fresh = measured(day, *peak);
            follow(&last, &mut fresh);
            last = fresh;
        }
        last
    }

    #[test]
    fn a_peak_unlike_the_earlier_ones_is_reported() {
        assert_eq!(after(&[24.0, 25.0, 25.5, 26.0]).notes, [""; 0]);
        assert_eq!(after(&[24.0, 25.0, 18.0]).notes, [""; 0], "two are no spread");
        assert_eq!(
            after(&[24.0, 25.0, 25.5, 18.0]).notes,
            [
                "the peak bandwidth of 18.0 GB/s is unlike that of 3 earlier measurements of this machine within 3 days: 24.0 \
                 to 25.5 GB/s"
            ]
        );
        assert_eq!(after(&[24.0, 25.0, 25.5, 31.0]).notes.len(), 1);
        let mut wide = measured(3, 18.0);
        let peak = wide.dram_bandwidth_peak.as_mut().expect("measured");
        (peak.low, peak.high) = (Some(17.0), Some(24.5));
        follow(&after(&[24.0, 25.0, 25.5]), &mut wide);
        assert_eq!(wide.notes, [""; 0], "its interval reaches them");
    }

    #[test]
    fn ten_are_kept_and_what_cannot_be_is_not() {
        let peaks: Vec<f64> = (0..15).map(|n| 20.0 + f64::from(n) / 10.0).collect();
        let kept = after(&peaks).earlier_peaks;
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept.last().map(|peak| peak.gb_per_s), Some(peaks[13]));
        let mut hostile = measured(1, f64::NAN);
        let peak = |gb_per_s| EarlierPeak { measured_unix: u64::MAX, gb_per_s };
        hostile.earlier_peaks = vec![peak(-1.0), peak(f64::INFINITY), peak(21.0)];
        hostile.earlier_peaks.extend(vec![peak(22.0); 10_000]);
        let mut fresh = measured(2, 22.0);
        follow(&hostile, &mut fresh);
        assert_eq!((fresh.earlier_peaks.len(), fresh.notes.len()), (KEPT, 0));
        let mut fresh = measured(2, 22.0);
        follow(&Calibration { disturbed: true, ..measured(1, 3.0) }, &mut fresh);
        assert!(fresh.earlier_peaks.is_empty(), "a busy machine's peak is none");
    }
}
