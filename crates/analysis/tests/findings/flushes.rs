//! Rules about flushed cache lines and fences.

use super::*;

/// A function in which samples spend `time` seconds at flushes and fences.
fn flushed(time: f64, redundant: f64, alone: f64) -> FlushFigure {
    let object = Some("pool".to_owned());
    let place = NamedLocation { object, ..place("persist_all") };
    FlushFigure {
        place: place.clone(),
        redundant_place: place,
        time: about(time, "s"),
        flushes: about(1e6, "count/s"),
        redundant: share(redundant),
        fences: about(1e5, "count/s"),
        lines_per_fence: about(10.0, "count"),
        alone: share(alone),
    }
}

fn with(one: FlushFigure) -> Figures {
    Figures { flushes: Ok(vec![one]), ..quiet() }
}

#[test]
fn redundant_flushes_and_fences_for_single_lines_are_found_where_they_take_time() {
    assert_eq!(ids(&with(flushed(0.8, 50.0, 0.0))), ["redundant-flushes"]);
    assert_eq!(ids(&with(flushed(0.8, 0.0, 95.0))), ["unbatched-flushes"]);
    assert_eq!(ids(&with(flushed(0.8, 50.0, 95.0))), ["unbatched-flushes", "redundant-flushes"]);
    let found = findings(&with(flushed(0.8, 0.0, 95.0)));
    let one = &found.found[0];
    assert_eq!(one.place.object.as_deref(), Some("pool"));
    // All of it but a tenth goes, or a third.
    let gain = &one.gain;
    assert!(gain.low > Some(0.2) && gain.high < Some(0.95) && gain.value > Some(0.5), "{gain:?}");
    assert_eq!(
        one.next.join(" "),
        "report flushes --filter function=persist_all -g object,source-line"
    );
}

#[test]
fn near_misses_of_flushes_are_not_found() {
    // Few are redundant; few fences wait alone; or nobody waits.
    for (time, redundant, alone) in [(0.8, 10.0, 0.0), (0.8, 0.0, 30.0), (0.02, 90.0, 95.0)] {
        assert_eq!(ids(&with(flushed(time, redundant, alone))), NOTHING);
    }
    let doubtful = Metric { low: Some(2.0), high: Some(98.0), ..percent(50.0) };
    let unsure = FlushFigure { redundant: doubtful.into(), ..flushed(0.8, 0.0, 0.0) };
    let found = findings(&with(unsure));
    assert!(found.found.is_empty());
    assert_eq!(found.unjudged[0].id, "redundant-flushes");
    let unknown = Figures { flushes: Err("9 records were not used".into()), ..quiet() };
    let unjudged: Vec<&str> = findings(&unknown).unjudged.iter().map(|rule| rule.id).collect();
    assert_eq!(unjudged, ["unbatched-flushes", "redundant-flushes"]);
}
