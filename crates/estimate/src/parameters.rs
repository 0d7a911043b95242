//! Numbers that were chosen, not sampled, and that widen intervals: one table.
//!
//! What for: each has a value, its source, and its effect on the scores of drawn programs. A number without both does not go in.
//! `docs/glossary/README.md` has the same rows; a test compares them. What not: constants that follow from a measurement of the
//! machine, or that change no interval.

/// A number that was chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// Its name in the glossary.
    pub name: &'static str,
    /// The value in use.
    pub value: f64,
    /// What it means.
    pub meaning: &'static str,
    /// Why this value.
    pub source: &'static str,
    /// Effect of other values: coverage and median half-width of bytes and counts of 28 drawn programs (`bench/drawn.py`, seeds
    /// 927331132 and 1621121990, 117 figures), which are 87 % and 42 % with this one. Of those of paces 48 programs, seeds
    /// 1365919851 and 122005782, 169 figures, 94 % and 10.4 %.
    pub sensitivity: &'static str,
}

/// Correlation of what is unknown in two regions of the code.
pub const COMMON: Parameter = Parameter {
    name: "common part of unknowns",
    value: 0.5,
    meaning: "correlation of how high two unknown amounts of different code are",
    source: "half of the error of a cache model is common to all code (the sizes of caches, what they share), half is each region's \
             own (how far back its data was used); no measurement",
    sensitivity: "0.2: 88 %, 41 %; 0.8: 87 %, 42 %",
};

/// How much what is known of the scatter of others counts where few observations tell one's own.
pub const ONE_VARIANCE: Parameter = Parameter {
    name: "one variance",
    value: 3.0,
    meaning: "windows as which the scatter of windows in all regions counts in that of each",
    source: "the fewest whose tails still have an end at 95 % that says something; no measurement",
    sensitivity: "1, 10: the same 98 % of 82 bytes and counts of 24 drawn programs (seed 2876639476), half-width 12.7 %",
};

/// How far apart regions are in what an instruction takes.
pub const PACES_APART: Parameter = Parameter {
    name: "paces apart",
    value: 1.0,
    meaning: "standard deviation, as a logarithm, of the native time of an instruction in different regions, before any is known; counts as much as \
              three regions",
    source: "median of the regions of 17 public programs: 1.1, 0.3 to 3.9 (AMD Zen 4)",
    sensitivity: "0.5, 2: the same 98 % of 82 bytes and counts of 24 drawn programs (seed 2876639476), half-width 12.7 %; loads of one of them, 1.4 G, \
                  0.91 to 4.38 G at 0.3 and 0.90 to 4.91 G at 3",
};

/// Beyond 1, the part of unknowns that stand at an end.
pub const ENDS: Parameter = Parameter {
    name: "unknowns at their ends",
    value: 1.0125,
    meaning: "stretch of the arcsine distribution between the ends of an unknown; with it one in ten is at an end",
    source: "1 / cos(0.05 pi): the 95 % interval of a single unknown reaches both of its ends",
    sensitivity: "1 (none at an end): 85 %, 42 %",
};

/// Factor by which code without bursts may differ from code with bursts.
pub const UNLIKE: Parameter = Parameter {
    name: "unlike code",
    value: 30.0,
    meaning: "a region without bursts that is unlike all others does up to this many times as much as one of them, or as little",
    source: "loads take from 0.3 ns to 10 ns each where they are not one chain through memory",
    sensitivity: "10: 87 %, 41 %; 100: 88 %, 50 %",
};

/// Least work of a kind that no other code does, in code without bursts.
pub const LEAST_PART: Parameter = Parameter {
    name: "least part",
    value: 1e-3,
    meaning: "work that no region with bursts does: a region without bursts does up to what a core can, and down to this part of that",
    source: "a prior for a scale (H. Jeffreys, Theory of Probability, 3rd ed. 1961, 3.1) needs ends; smaller parts have no visible effect",
    sensitivity: "1e-2: 88 %, 44 %; 1e-4: 86 %, 41 %",
};

/// Standard deviation of the work of a stratum with a single observation, as a part of it.
pub const SINGLE: Parameter = Parameter {
    name: "single observation",
    value: 1.0 / 1.96,
    meaning: "standard deviation of the work of a stratum with one observation, as a part of it",
    source: "half of its 95 % interval is all of it: one observation gives the order of magnitude",
    sensitivity: "a half of it: 87 %, 42 %",
};

/// Factor by which a processor's branch predictor may differ from ours where that was not measured.
pub const PREDICTORS_DIFFER: Parameter = Parameter {
    name: "predictors differ",
    value: 0.5,
    meaning: "part by which a processor mispredicts more or fewer branches than our predictor, where that was not measured",
    source: "directions of 120 bursts of gapbs and XSBench run again on AMD Zen 4: 0.9 to 1.2 times as many for each program, \
             0.5 to 1.6 for nine bursts of ten",
    sensitivity: "memory's share of gapbs bfs is 38 to 70 %; 0: 41 to 63 %",
};

/// By how much a replay of branches is off.
pub const REPLAY_OFF: Parameter = Parameter {
    name: "replay off",
    value: 0.15,
    meaning: "part by which replayed branches are mispredicted more or less often than in the program",
    source: "they lie elsewhere, calls are left out, and the predictor forgets between lists only what it has no room for: the same \
             lists, run again after 500,000 other branches, lost 0.85 to 1.05 times as much (AMD Zen 4)",
    sensitivity: "0: memory's share of gapbs cc is 30 to 60 %, of tc 31 to 74 %; 0.5: 27 to 68 % and 24 to 81 %",
};

/// What a mispredicted branch waits for, where that was not measured.
pub const UNRESOLVED: Parameter = Parameter {
    name: "branch resolution",
    value: 1.0,
    meaning: "part by which a mispredicted branch costs more, at most, than one that waits for nothing, where what it waits for was not measured",
    source: "merges of sorted integers and of doubles: 0.3 and 0.9 (AMD Zen 4)",
    sensitivity: "memory's share of gapbs bfs, 22 to 65 %, is 37 to 65 with 0 and 19 to 65 with 2; of pr 18 to 57, 25 to 58 and 13 to 57 %",
};

/// Least relative error of a burst's speed.
pub const SPEED_OFF: Parameter = Parameter {
    name: "burst speed off",
    value: 0.15,
    meaning: "part by which code without a pace may run quicker or slower natively than its bursts and windows tell, at least",
    source: "bursts of 31 drawn programs in loops whose pace registers tell: 0.87 to 1.1 times the speed by windows in 26 of them, \
             0.66 to 2.3 in five (AMD Zen 4)",
    sensitivity: "of 52 drawn programs, 226 figures: 94 %, 28 %; none: 93 %, 25 %",
};

/// Cycles by which copies of blocks take longer than native code.
pub const COPIES: Parameter = Parameter {
    name: "copies of blocks",
    value: 2.9,
    meaning: "cycles of the time-stamp counter: where a block takes w of them in a count window on average, w / (w + this) of its time is native",
    source: "loads by cachegrind over the CPU time, and over that of windows, of 15 programs: twelve interpreters, packers and a database of \
             bench/public.py, bwa mem and index, x264, of 0.5 to 2.7 ns per block; native shares of 0.26 to 0.79 (AMD Zen 5)",
    sensitivity: "its error is `COPIES_APART`; a cost of 0.4 ns per counter and of jumps and look-ups by their number, in its place, was off by \
                  a factor of 1.7 (standard deviation), perl and ruby by 3",
};

/// How far copies are apart from [`COPIES`] in one program.
pub const COPIES_APART: Parameter = Parameter {
    name: "copies apart",
    value: 0.4,
    meaning: "standard deviation, as a logarithm, of the native share of a program's windows over what \"copies of blocks\" says",
    source: "the same programs: 0.29; six interpreters twice on AMD Zen 3, where the share is 0.27 to 0.67, lower by 0.49 on average: 0.56; \
             together 0.39",
    sensitivity: "words of memory narrow it; without them it is what is known of the speed of code without a pace",
};

/// Seconds that the first execution of a block waits for its code.
pub const COLD_BLOCK: Parameter = Parameter {
    name: "cold block",
    value: 1e-6,
    meaning: "seconds by which a burst takes longer for each block that its thread waited for without a stop",
    source: "its code, the table entry that leads to it and their pages, each from memory: windows of 300 to 600 blocks of a program without \
             optimisation, 250 ms apart, took 0.6 to 3 us longer per block (Intel Granite Rapids, virtual)",
    sensitivity: "it decides which bursts tell a rate: those of which it is half or less; not varied",
};

/// How much a core's speed changes until no-miss times are measured.
pub const LATER_SPEED: Parameter = Parameter {
    name: "speed after the run",
    value: 0.15,
    meaning: "part by which a core may be quicker or slower right after a run, when no-miss times are measured, than in it",
    source: "medians of one loop after 8 and 4 runs, each over some hundred turns: 1.33 to 1.67 ns and 1.16 to 1.33 ns (a virtual machine \
             with neighbours, AMD Zen 4)",
    sensitivity: "0: memory's share of one drawn program in four runs was 31 +-2, 51 +-5, 44 +-4 and 8 (0 to 56) %; with it 39 to 48 +-10 %",
};

/// How much shorter than the longest the mean of runs of one kind may be.
pub const UNLIKE_RUNS: Parameter = Parameter {
    name: "unlike runs",
    value: 1.25,
    meaning: "by so many times what places in runs lie apart from an even spread, and by chance, their mean length may be too large",
    source: "a mean over runs of which half are shorter by a third lies so much lower (the head of `run_length`)",
    sensitivity: "0.6: 94 %, 10.4 %, mean interval score 8 % less; 2.5: 93 %, 15.8 %, 16 % more",
};

/// How long a loop stays with one of the functions that it calls.
pub const STEADY_CALLEE: Parameter = Parameter {
    name: "steady callee",
    value: 10.0,
    meaning: "samples that a loop which calls several functions by a pointer has in one before the next, on average, for each to have its \
              own pace",
    source: "a pace needs ten pairs of samples",
    sensitivity: "5 and 20: no change",
};

/// How many samples tell trips.
pub const FEWEST_RUNS: Parameter = Parameter {
    name: "fewest runs",
    value: 5.0,
    meaning: "samples of runs that are alike, below which they tell no trips",
    source: "their outermost places are known to a third of the length (the head of `run_length`)",
    sensitivity: "2 and 10: no change",
};

/// Which part of the samples must tell trips.
pub const TELLING: Parameter = Parameter {
    name: "telling samples",
    value: 0.9,
    meaning: "part of the samples of a loop that must tell trips",
    source: "the others may be of other runs, which are then a tenth of its time at most",
    sensitivity: "0.45: no change; 0.99: 94 %, 12.8 %",
};

/// When bursts refute a pace.
pub const MISSED_RUNS: Parameter = Parameter {
    name: "missed runs",
    value: 1.5,
    meaning: "by so many times as often as registers tell, a loop iterates in bursts if samples miss runs of it",
    source: "translated code is no quicker than native code; bursts see other moments than samples, so that small differences are chance",
    sensitivity: "1: 94 %, 13.0 %; 3: no change; without: one loop of 215 has 1/26 of its iterations",
};

/// When pairs of samples are no fair choice of runs.
pub const OTHER_RUNS: Parameter = Parameter {
    name: "other runs",
    value: 2.0,
    meaning: "samples that follow one another in different runs, for each pair in one, above which the pairs are no fair choice of runs",
    source: "of 17 drawn programs with a loop of more than five, four had 0.6 to 0.8 times their true loads (AMD Zen 5)",
    sensitivity: "1: 94 %, 13.0 %; 4: 94 %, 12.8 %",
};

/// Error of what a sample takes.
pub const SAMPLE_OFF: Parameter = Parameter {
    name: "cost of a sample",
    value: 0.25,
    meaning: "by this part what a clock sample takes from the program may differ from what calibration found",
    source: "it copies more or less of the stack; by the slopes of two loops 13.6 and 17.2 us, where calibration found 15.7 (AMD Zen 4, virtual)",
    sensitivity: "of 24 drawn programs, seed 20261128: no visible effect",
};

/// When threads leave their CPU so often that a loop's run may have ended between two samples of the slow clock.
pub const SWITCHES: Parameter = Parameter {
    name: "switches between samples",
    value: 1.0,
    meaning: "times that threads leave their CPU between two samples of the slow clock, on average, above which these are of different runs",
    source: "the fast clock samples threads that do so up to 1.25 times (a timer of 8 us may take 1 % of the time: `collect::perf::clocks`)",
    sensitivity: "0 and 3: no change; of 72 loops of three programs with 16 threads 24 have a pace with 1 and 3, 13 with 0",
};

/// All of them.
pub const ALL: [Parameter; 23] = [
    COMMON,
    ENDS,
    UNLIKE,
    LEAST_PART,
    SINGLE,
    PREDICTORS_DIFFER,
    REPLAY_OFF,
    UNRESOLVED,
    SPEED_OFF,
    ONE_VARIANCE,
    PACES_APART,
    COPIES,
    COPIES_APART,
    COLD_BLOCK,
    LATER_SPEED,
    UNLIKE_RUNS,
    STEADY_CALLEE,
    FEWEST_RUNS,
    TELLING,
    MISSED_RUNS,
    OTHER_RUNS,
    SAMPLE_OFF,
    SWITCHES,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glossary_has_each_parameter() {
        let glossary = include_str!("../../../docs/glossary/README.md");
        for one in ALL {
            let row = glossary.lines().find(|line| line.starts_with(&format!("| {} |", one.name)));
            let row = row.unwrap_or_else(|| panic!("no row of '{}'", one.name));
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let value: f64 = cells[2].parse().expect("a value");
            assert!((value / one.value - 1.0).abs() < 0.005 && cells[3] == one.meaning, "{row}");
            assert!(!one.source.is_empty() && !one.sensitivity.is_empty());
        }
    }
}
