//! The findings at the end of the summary: what to do next, by predicted saving.

use super::{Page, quoted};
use crate::summary::Summary;
use crate::text::printable;

/// More are in their own view.
const TOP: usize = 3;

pub(super) fn findings(summary: &Summary, page: &mut Page) {
    if summary.findings.is_empty() {
        return;
    }
    page.heading("Findings", "by the time that they would save");
    for finding in summary.findings.iter().take(TOP) {
        let parts = [finding.short_title(), finding.place(), finding.gain()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        page.entry(finding.id, &printable(&parts.join("; ")));
        page.entry("", &printable(&finding.advice));
    }
    let result = quoted(&summary.result);
    let more = match summary.findings.len().saturating_sub(TOP) {
        0 => "evidence".to_owned(),
        more => format!("{more} more, and evidence"),
    };
    page.more(&more, &format!("fathom report findings -r {result}"));
}
