//! Memory accesses: bandwidth, chases, walks, lines, loads that repeat themselves, address translation.

use analysis::Figure;
use analysis::accesses::Pattern;
use analysis::findings::{
    Figures, HotFunction, HotSite, NamedLocation, ReloadedLoop, RepeatedFunction, Restarts,
    Severity, SharedFigure, Traced, Walk, findings,
};
use facts::{Evidence, Metric};

use crate::threads::shared;
use crate::{
    NOTHING, about, doubtful, hot, ids, percent, place, quiet, share, site, with_function,
};

#[test]
fn a_saturated_function_is_found_and_one_of_doubtful_rate_is_not() {
    let busy = HotFunction { of_reach: share(90.0), ..hot(site(Pattern::Unit)) };
    let found = findings(&with_function(busy.clone()));
    assert_eq!(found.found[0].id, "bandwidth-saturated");
    assert_eq!(found.found[0].severity, Severity::High);
    // Half of the bytes: at most half of the second.
    // A quarter of the bytes, and a core that takes as long: between 1/4 at the same time and 1/4 + 3/4 x 1/4 in turn.
    assert_eq!(found.found[0].gain.value, Some(1.0 - (0.25 + 0.4375) / 2.0));
    // It comes back to a megabyte: a quarter of that is a tile.
    let advice = &found.found[0].advice;
    assert!(advice.contains("tiles of at most 181 x 181 numbers of 8 bytes (256 KiB)"), "{advice}");
    // What a tile holds already, or whose reuse is not known, needs no other.
    for fitting in [about(1e5, "bytes"), Metric::unavailable("bytes", "bursts are short")] {
        let small = findings(&with_function(HotFunction { fitting, ..busy.clone() }));
        assert!(!small.found[0].advice.contains("tile"), "{}", small.found[0].advice);
    }
    // Streams wait for nothing but the rate of memory, part of which others have; other accesses wait for themselves.
    let adjacent = |site: HotSite| {
        let waits = share(60.0);
        ids(&with_function(HotFunction { of_reach: share(50.0), waits, ..hot(site) }))
    };
    assert_eq!(adjacent(site(Pattern::Unit)), ["bandwidth-saturated"]);
    assert_eq!(adjacent(site(Pattern::Irregular)), NOTHING);
    let doubt = HotFunction { of_reach: doubtful(&busy.of_reach).into(), ..busy.clone() };
    assert_eq!(ids(&with_function(doubt)), NOTHING);
    // Two functions of a program that is saturated as a whole are one finding.
    let whole = Traced {
        whole: Some(busy.clone()),
        functions: vec![busy.clone(), busy.clone()],
        ..Traced::default()
    };
    assert_eq!(ids(&Figures { traced: Ok(whole), ..quiet() }), ["bandwidth-saturated"]);
    let impossible =
        HotFunction { of_reach: Metric::unavailable("percent", "too much").into(), ..busy.clone() };
    assert_eq!(ids(&with_function(impossible.clone())), NOTHING);
    // Of the whole program that is no all-clear; the classification says the same.
    let whole = Traced { whole: Some(impossible), ..Traced::default() };
    let found = findings(&Figures { traced: Ok(whole), ..quiet() });
    assert!(found.found.is_empty() && found.unjudged[0].id == "bandwidth-saturated");
    let unhurt = HotFunction { waits: share(10.0), ..busy.clone() };
    assert_eq!(ids(&with_function(unhurt)), NOTHING);
    let why = "this machine's bandwidth was not measured: run `fathom machine`";
    let unmeasured = HotFunction { of_reach: Metric::unavailable("percent", why).into(), ..busy };
    let found = findings(&with_function(unmeasured));
    assert!(found.found.is_empty() && found.unjudged[0].why.text().contains("fathom machine"));
}

#[test]
fn stores_that_fetch_what_they_overwrite() {
    let store = HotSite { reads: false, writes: true, ..site(Pattern::Unit) };
    let copy =
        HotFunction { of_reach: share(50.0), overwritten: share(33.0), ..hot(store.clone()) };
    assert_eq!(ids(&with_function(copy.clone())), ["non-temporal-stores"]);
    // Four stores of 16 bytes side by side fill lines as well; one of them alone does not.
    let piece = HotSite {
        pattern: Pattern::Strided(64),
        line_use: Metric::counted(25.0, "percent"),
        used_together: Metric::counted(100.0, "percent"),
        ..store.clone()
    };
    let unrolled = HotFunction { sites: vec![piece.clone(); 4], ..copy.clone() };
    assert_eq!(ids(&with_function(unrolled)), ["non-temporal-stores"]);
    let sparse = HotFunction { sites: vec![piece], waits: share(20.0), ..copy.clone() };
    assert_eq!(ids(&with_function(sparse)), NOTHING);
    let in_place = HotSite { reads: true, ..store };
    assert_eq!(ids(&with_function(HotFunction { sites: vec![in_place], ..copy.clone() })), NOTHING);
    assert_eq!(ids(&with_function(HotFunction { of_reach: share(10.0), ..copy.clone() })), NOTHING);
    // At the limit of memory the no-miss time does not matter; below it, it does.
    let unhurt = HotFunction { waits: share(12.0), ..copy.clone() };
    assert_eq!(ids(&with_function(unhurt.clone())), NOTHING);
    let limited = HotFunction { of_reach: share(80.0), ..unhurt };
    assert_eq!(ids(&with_function(limited)), ["non-temporal-stores"]);
    // Half of the bytes, and a fifth faster: 1 - 0.5 / 1.2 of the time.
    let all = share(100.0);
    let fill = HotFunction { overwritten: share(50.0), of_reach: all.clone(), waits: all, ..copy };
    let mut figures = with_function(fill);
    if let Ok(traced) = &mut figures.traced {
        traced.past_caches = Some(1.2);
    }
    let found = findings(&figures).found;
    let gain = &found.iter().find(|one| one.id == "non-temporal-stores").expect("found").gain;
    assert!((gain.value.expect("a gain") - 7.0 / 12.0).abs() < 1e-9, "{gain:?}");
    // With all at its worst at the same time: 45 % at 90 % of the limit, no faster, for nine tenths of a second.
    let low = gain.low.expect("a low end");
    assert!(low > 0.9 * 0.9 * 0.45 && low < 0.5, "{gain:?}");
}

#[test]
fn a_chase_counts_where_it_waits() {
    let chase = hot(site(Pattern::PointerChase));
    let found = findings(&with_function(chase.clone()));
    assert_eq!(found.found[0].id, "pointer-chase");
    // Of its waits 90 %, less the transfer of the lines in order, next to the core time: at most a fifth.
    let gain = &found.found[0].gain;
    assert!((gain.value.expect("a gain") - (0.75 * 0.9 - 0.5 * 0.2)).abs() < 1e-9, "{gain:?}");
    assert!(gain.low.expect("a low end") < 0.5 && gain.high.expect("a high end") > 0.65);
    // Two fields of a node in two lines share the waits.
    let half = HotSite { share: share(45.0), ..site(Pattern::PointerChase) };
    let twice = HotFunction { sites: vec![half.clone(), half], ..chase.clone() };
    assert_eq!(ids(&with_function(twice)), ["pointer-chase"]);
    let near = HotFunction { waits: doubtful(&chase.waits).into(), ..chase.clone() };
    assert_eq!(ids(&with_function(near)), NOTHING);
    assert_eq!(ids(&with_function(hot(site(Pattern::Irregular)))), NOTHING);
}

#[test]
fn columns_and_records_differ_by_where_runs_start() {
    let walk = |stride, near, all| {
        let restarts = Restarts { near, all, ..Restarts::default() };
        ids(&with_function(hot(HotSite { restarts, ..site(Pattern::Strided(stride)) })))
    };
    assert_eq!(walk(32_768, 30, 30), ["strided-walk"]);
    assert_eq!(walk(32_768, 0, 0), ["strided-walk"]);
    let changing = |stride, near, all| {
        let restarts = Restarts { near, all, ..Restarts::default() };
        ids(&with_function(hot(HotSite { restarts, ..site(Pattern::Runs(stride)) })))
    };
    assert_eq!(changing(16_384, 30, 30), ["strided-walk"]);
    assert_eq!(changing(16_384, 3, 30), NOTHING);
    assert_eq!(changing(16, 30, 30), NOTHING);
    assert_eq!(walk(64, 0, 0), ["low-line-use"]);
    assert_eq!(walk(256, 0, 5), ["low-line-use"]);
    assert_eq!(walk(256, 5, 5), ["strided-walk"]);
    // Hops of pages that do not return next to each other are neither.
    assert_eq!(walk(55_887_744, 0, 5), NOTHING);
    // All fields of the records together use the lines.
    let used_together = Metric::counted(100.0, "percent");
    let field = HotSite { share: share(12.0), used_together, ..site(Pattern::Strided(64)) };
    let all = HotFunction { sites: vec![field; 8], ..hot(site(Pattern::Unit)) };
    assert_eq!(ids(&with_function(all)), NOTHING);
    let cached = HotFunction { waits: share(5.0), ..hot(site(Pattern::Strided(32_768))) };
    assert_eq!(ids(&with_function(cached)), NOTHING);
}

#[test]
fn bursts_that_meet_many_columns_tell_a_walk_whose_end_none_of_them_saw() {
    let found = |moved: u64, stayed: u64, apart: u64| {
        let restarts = Restarts { moved, stayed, apart, ..Restarts::default() };
        let walk = HotSite { bytes: 4.0, restarts, ..site(Pattern::Strided(1024)) };
        ids(&with_function(hot(walk)))
    };
    assert_eq!(found(9, 1, 4), ["strided-walk"]);
    // The same field of each record, in a loop that takes several records at a time.
    assert_eq!(found(9, 1, 48), ["low-line-use"]);
    assert_eq!(found(1, 9, 4), ["low-line-use"]);
    assert_eq!(found(0, 10, 0), ["low-line-use"]);
}

#[test]
fn a_helper_that_repeats_its_loads_is_named_with_the_line_that_calls_it() {
    let helper = |seconds| {
        let one = RepeatedFunction {
            place: place("direct"),
            caller: NamedLocation { line: Some(61), ..place("triad") },
            time: about(seconds, "s"),
            loads: 3,
            per_burst: Metric::counted(50_000.0, "count"),
        };
        Figures { traced: Ok(Traced { repeated: vec![one], ..Traced::default() }), ..quiet() }
    };
    let found = findings(&helper(0.4)).found;
    assert_eq!((found[0].id, found[0].place.line), ("repeated-loads", Some(61)));
    assert_eq!(ids(&helper(0.02)), NOTHING);
}

#[test]
fn a_loop_that_loads_again_is_named_with_its_fields() {
    let with = |saved: Metric, stores| {
        let one = ReloadedLoop {
            place: place("stuff"),
            fields: vec!["writer.buffer".to_owned(), "writer.position".to_owned()],
            time: about(0.8, "s"),
            saved: saved.into(),
            vectors: 1.0,
            iteration: (about(2.4, "ns"), about(0.8, "ns")),
            accesses: 5,
            stores,
        };
        Figures { traced: Ok(Traced { reloaded: vec![one], ..Traced::default() }), ..quiet() }
    };
    let found = findings(&with(percent(60.0), true)).found;
    assert_eq!((found[0].id, found[0].place.line), ("repeated-loads", Some(12)));
    assert_eq!(found[0].title, "a loop in stuff keeps writer.buffer, writer.position in memory");
    assert!(found[0].advice.contains("store them after it"), "{}", found[0].advice);
    let found = findings(&with(percent(60.0), false)).found;
    assert!(found[0].title.ends_with("again in each iteration"), "{}", found[0].title);
    assert_eq!(ids(&with(percent(2.0), true)), NOTHING);
    // That it may be done with vectors then makes it no finding, but the gain may be larger by so much.
    let mut figures = with(percent(60.0), true);
    figures.traced.as_mut().expect("traced").reloaded[0].vectors = 0.0625;
    let gain = &findings(&figures).found[0].gain;
    assert!(gain.value.expect("a gain") > 0.55 && gain.high.expect("a high end") > 0.75);
    let open = findings(&with(doubtful(&percent(40.0)), true));
    assert!(open.found.is_empty());
    let of_rule = open.unjudged.iter().find(|one| one.id == "repeated-loads").expect("in doubt");
    assert!(of_rule.why.text().contains("apply to stuff"), "{:?}", of_rule.why);
    // Threads that take its line from each other come first.
    let line = SharedFigure { place: place("stuff"), ..shared(true, 80.0) };
    let contended = Figures { shared: Ok(vec![line]), ..with(percent(60.0), true) };
    assert_eq!(ids(&contended), ["false-sharing"]);
}

#[test]
fn neighbours_with_gaps_between_them_use_lines_in_part() {
    let used_together = Metric::counted(19.0, "percent");
    let rows = HotSite { used_together, ..site(Pattern::Unit) };
    let found = findings(&with_function(hot(rows))).found;
    assert_eq!(found[0].id, "low-line-use");
    assert!(found[0].advice.contains("rows without padding"), "{}", found[0].advice);
    // What it waits for are lines that threads take from each other.
    let place = found[0].place.clone();
    let line = SharedFigure { place, ..shared(true, 80.0) };
    let used_together = Metric::counted(19.0, "percent");
    let rows = HotSite { used_together, ..site(Pattern::Unit) };
    let contended = Figures { shared: Ok(vec![line]), ..with_function(hot(rows)) };
    assert_eq!(ids(&contended), ["false-sharing"]);
}

#[test]
fn page_walks_count_where_huge_pages_would_help() {
    let with =
        |walks, pattern| hot(HotSite { walks: about(walks, "count/s").into(), ..site(pattern) });
    let walks = with(1e7, Pattern::Irregular);
    assert_eq!(ids(&with_function(walks.clone())), ["tlb-bound"]);
    let mut huge = with_function(walks.clone());
    huge.faults.huge_percent = Metric::counted(95.0, "percent");
    assert_eq!(ids(&huge), NOTHING);
    assert_eq!(ids(&with_function(with(1e5, Pattern::Irregular))), NOTHING);
    assert_eq!(ids(&with_function(with(1e7, Pattern::Unit))), NOTHING);
    assert_eq!(ids(&with_function(with(1e7, Pattern::Strided(32)))), ["low-line-use"]);
    // Independent accesses overlap, and their walks with them: 30 % of 130 % is a part of 75 %; and of that a part is seen.
    let gain = |serial| {
        let serial = Metric::counted(serial, "percent");
        let found = findings(&with_function(HotFunction { serial, ..walks.clone() })).found;
        found[0].gain.value
    };
    assert!((gain(100.0).expect("a gain") - 0.4 * 0.3 * 75.0 / 130.0).abs() < 1e-9);
    assert!((gain(10.0).expect("a gain") - 0.4 * 0.3).abs() < 1e-9);
    // A chain waits for each.
    let chain = findings(&with_function(with(1e7, Pattern::PointerChase))).found;
    let chain = chain.iter().find(|one| one.id == "tlb-bound").expect("found");
    assert!((chain.gain.value.expect("a gain") - 0.3).abs() < 1e-9, "{:?}", chain.gain);
    // Getting 512 large pages costs 2.2 s more than small ones here.
    let mut dear = with_function(with(1e7, Pattern::PointerChase));
    dear.faults.resident_pages = Some(262_144.0);
    assert!(ids(&dear).contains(&"tlb-bound"));
    dear.faults.costs.large = Some(about(4.7e6, "ns"));
    assert!(!ids(&dear).contains(&"tlb-bound"), "{:?}", ids(&dear));
    let unknown = Figures { walk_cost: None, ..with_function(walks) };
    assert_eq!(findings(&unknown).unjudged[0].id, "tlb-bound");
}

#[test]
fn a_walk_is_blocked_for_the_second_level_and_its_array_is_named() {
    let walk = Walk {
        keeps: about(147_456.0, "bytes"),
        second_level: Metric::counted(1_048_576.0, "bytes"),
        lines: about(14_563.0, "count"),
    };
    let b = NamedLocation { object: Some("main matrix.c:155".to_owned()), ..place("loop") };
    let column = HotSite {
        place: b,
        walk: Some(walk),
        of_object: percent(99.0),
        ..site(Pattern::Strided(16_384))
    };
    let found = findings(&with_function(hot(column.clone()))).found;
    assert_eq!(found[0].id, "strided-walk");
    // The root of 14563 lines of 8 elements each is 341: 42 lines.
    let block = "at most 14563 lines (13107 to 16019), as blocks of 336 x 336 elements, at a time of main matrix.c:155";
    assert!(found[0].advice.contains(block), "{}", found[0].advice);
    assert!(
        found[0].evidence.iter().any(|one| one.what == "share of its lines from main matrix.c:155")
    );
    let unseen = HotSite { walk: None, ..column };
    let found = findings(&with_function(hot(unseen))).found;
    assert!(found[0].advice.contains("fathom report reuse"), "{}", found[0].advice);
}

#[test]
fn what_may_be_so_is_undecided_with_what_would_decide_it() {
    let chase =
        |waits: Figure| with_function(HotFunction { waits, ..hot(site(Pattern::PointerChase)) });
    let waits = |low, value, high| {
        let interval = (low, high);
        Figure::from(Metric::with_interval(Evidence::Estimated, value, "percent", interval, 20))
    };
    // What its figure says of itself, else more bursts.
    let untimed = waits(0.0, 60.0, 95.0).sharper_by("it could not be timed: try a small input");
    let found = findings(&chase(untimed));
    assert!(found.found.is_empty());
    assert_eq!((found.unjudged.len(), found.unjudged[0].id), (1, "pointer-chase"));
    let why = found.unjudged[0].why.text();
    assert_eq!(why, "it may apply to loop, but it could not be timed: try a small input");
    let few = findings(&chase(waits(0.0, 20.0, 95.0)));
    assert!(few.found.is_empty());
    assert_eq!((few.unjudged.len(), few.unjudged[0].id), (1, "pointer-chase"));
    let why = few.unjudged[0].why.text();
    assert!(
        why.contains("loop, but there were too few bursts") && why.contains("--repeat"),
        "{why}"
    );
    // One in forty is none; and what is found needs no doubt.
    assert!(findings(&chase(waits(0.0, 10.0, 30.0))).unjudged.is_empty());
    let sure = findings(&chase(share(75.0)));
    assert!(sure.found[0].id == "pointer-chase" && sure.unjudged.is_empty());
}
