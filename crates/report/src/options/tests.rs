//! Names that a user types, valid and invalid.

use analysis::{Filter, Key};

use super::{View, parse_filter, parse_keys};
use crate::ReportError;

#[test]
fn every_view_and_key_is_found_by_its_name() {
    for (view, _) in View::ALL {
        assert_eq!(View::parse(view.name()), Ok(view));
    }
    assert_eq!(parse_keys("thread, function,thread"), Ok(vec![Key::Thread, Key::Function]));
}

#[test]
fn wrong_names_list_what_is_possible() {
    let shown = |error: ReportError| error.to_string();
    let views: Vec<&str> = View::ALL.iter().map(|(view, _)| view.name()).collect();
    assert_eq!(
        shown(View::parse("hotspot").expect_err("no such view")),
        format!("there is no view 'hotspot'; possible are {}", views.join(", "))
    );
    assert_eq!(
        shown(parse_keys("function,line").expect_err("no such key")),
        format!(
            "there is no grouping 'line'; possible are {}, or several of them joined by commas",
            Key::ALL.map(Key::name).join(", ")
        )
    );
    assert_eq!(parse_keys("memory-object,object"), Ok(vec![Key::Object]));
    assert!(shown(parse_keys("page-size").expect_err("later")).contains("needs figures per page"));
}

#[test]
fn filters_are_checked() {
    assert_eq!(parse_filter("function=a=b"), Ok(Filter::Function("a=b".into())));
    assert_eq!(parse_filter("time=0.5..2"), Ok(Filter::Time { start: 0.5, end: 2.0 }));
    assert_eq!(parse_filter("time=..2"), Ok(Filter::Time { start: 0.0, end: 2.0 }));
    for wrong in [
        "function",
        "function=",
        "time=2",
        "time=2..1",
        "time=-1..1",
        "time=a..b",
        "time=nan..1",
        "x=y",
    ] {
        assert!(matches!(parse_filter(wrong), Err(ReportError::BadFilter { .. })), "{wrong}");
    }
}
