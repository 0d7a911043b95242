//! Tables of Markdown pages: each has a head, and each row as many cells as that. GitHub shows rows after a blank line as
//! plain text, and drops cells beyond the head.
//!
//! What not: what the cells say.

use crate::markdown::without_fences;
use crate::problem::Problem;
use crate::tree::Tree;

/// The rule.
pub fn check(tree: &Tree) -> Vec<Problem> {
    let pages = tree.files.iter().filter(|file| file.has_extension(&["md"]));
    pages
        .filter_map(|page| Some((page, page.text.as_deref()?)))
        .flat_map(|(page, text)| {
            let wrong = wrong_rows(&without_fences(text));
            wrong.into_iter().map(|(line, what)| Problem::error(&page.path, line, what))
        })
        .collect()
}

/// The lines, counted from 1, that are no rows of a table, and why.
fn wrong_rows(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut wrong = Vec::new();
    let mut head = None;
    for (at, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            head = None;
            continue;
        }
        let cells = cells(line);
        match head {
            None if lines.get(at + 1).is_some_and(|next| is_below_a_head(next)) => {
                head = Some(cells);
            }
            None => {
                wrong.push((at + 1, "a table begins without a head and a line of |---|".into()));
                // Its further rows say the same.
                head = Some(cells);
            }
            Some(head) if head != cells => {
                wrong.push((
                    at + 1,
                    format!("a row has {cells} cells, the head of its table {head}"),
                ));
            }
            Some(_) => {}
        }
    }
    wrong
}

fn is_below_a_head(line: &str) -> bool {
    line.starts_with('|') && line.chars().all(|letter| "|:- ".contains(letter))
}

/// The number of cells of a row: `\|` does not end one.
fn cells(row: &str) -> usize {
    row.trim_end().replace("\\|", "").matches('|').count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_as_many_cells_as_the_head_of_its_table() {
        let good = "| a | b |\n|---|---|\n| 1 | `x\\|y` |\n\ntext\n\n| c |\n|---|\n| 3 |\n";
        assert_eq!(wrong_rows(good), []);
        let short = "| a | b |\n|---|---|\n| 1 |\n";
        assert_eq!(
            wrong_rows(short),
            [(3, "a row has 1 cells, the head of its table 2".to_owned())]
        );
        let headless = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n| 5 | 6 |\n";
        assert_eq!(wrong_rows(headless).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [5]);
    }
}
