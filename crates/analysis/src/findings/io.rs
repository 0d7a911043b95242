//! `io-bound`: the working threads wait for files, pipes, sockets or disks.
//!
//! Where every thread switch was recorded, the waits are known. Gain: what can overlap, the smaller of waiting and computing,
//! over the threads. Elsewhere idle CPUs during reads and writes are only a sign, and no gain is stated. Nothing is reported
//! where other programs were busy: the reads and writes may be theirs.

use super::gain::{stated, unquantified};
use super::{
    Draft, Figures, LEAST_GAIN, NamedLocation, NotJudged, Proof, WaitFigures, at_least_half,
    exactly, of_lives, words,
};

/// Share of the elapsed time that CPUs must be idle before a disk is suspected, without more knowledge.
const IDLE: f64 = 0.1;
/// Share of the machine that other programs may use without being suspected of the reads and writes, percent.
const OTHERS: f64 = 10.0;
const ADVICE: &str = "Read ahead while computing (a separate thread, io_uring, posix_fadvise(..., \
                POSIX_FADV_WILLNEED)). Read and write large blocks, and write asynchronously. Check whether all of \
                it is needed.";

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    if let Ok(waits) = &figures.waits {
        return Ok(vec![by_waits(figures, waits)]);
    }
    let idle = &figures.system.io_wait;
    let Some(seconds) = idle.value else {
        return Err(idle.note.clone().unwrap_or_default().into());
    };
    let waited = figures.waiting.value.unwrap_or(0.0);
    if seconds.min(waited) < IDLE * figures.elapsed {
        return Ok(Vec::new());
    }
    if let Some(others) = figures.other_percent.value.filter(|others| *others > OTHERS) {
        return Err(NotJudged::OtherAnalysis(format!(
            "CPUs were idle during reads and writes, but other programs used {others:.0} % of the machine: `fathom \
             collect threading` shows which program waited"
        )));
    }
    Ok(vec![Draft {
        title: format!("CPUs were idle for {seconds:.1} s while a disk was read or written"),
        evidence: vec![
            Proof::new("idle during a read or write, whole machine", idle),
            Proof::new("lifetime of threads without running", &figures.waiting),
        ],
        place: NamedLocation::default(),
        advice: format!("`fathom collect threading` shows which threads. {ADVICE}"),
        gain: unquantified("it is not known whether the program waited"),
        next: [words("collect threading --"), figures.command.clone()].concat(),
    }])
}

fn by_waits(figures: &Figures, waits: &WaitFigures) -> Draft {
    let percent = of_lives(&waits.io.time, waits);
    let waited = waits.io.time.value.unwrap_or(0.0);
    let gain = (waited.min(waits.useful) / waits.workers.max(1.0)).min(figures.elapsed);
    let hopeless = waited / waits.lived.max(1e-9) >= IDLE && gain < LEAST_GAIN * figures.elapsed;
    Draft {
        title: format!("Threads wait {percent:.0} % of their time for files, pipes or sockets"),
        evidence: vec![
            Proof::new("waited for them, summed over threads", &waits.io.time),
            Proof::new("of the threads' time", &exactly(percent)),
        ],
        place: waits.io.place.clone(),
        advice: ADVICE.to_owned(),
        gain: match hopeless {
            true => unquantified("it computes too little to overlap with the waits"),
            false => stated(figures, at_least_half(gain, 1)),
        },
        next: words("report waits"),
    }
}
