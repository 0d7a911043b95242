//! Parts of a long table, sorted, searched and cut here, so that a page holds only its visible rows.
//!
//! What for: `objects?from=0&count=200&sort=loads&search=node`. A table of 100,000 rows is hundreds of megabytes of JSON; a
//! page needs a few dozen rows of it at a time. What not: which rows exist (`report`).

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use report::{Cell, Table};
use serde_json::{Value, json};

/// Most rows of one answer.
const MOST: usize = 500;

/// Which part of a table is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    /// Column to sort by: figures falling, names rising. `None`: as the table is.
    pub(crate) sort: Option<String>,
    /// The other way round; what has no value still comes last.
    pub(crate) turned: bool,
    /// Text that a name of the row must contain, whatever the case; empty: all rows.
    pub(crate) search: String,
    /// Number of the first row.
    pub(crate) from: usize,
    /// Rows.
    pub(crate) count: usize,
}

/// A table without its rows, and these.
struct Long {
    question: String,
    shell: Table,
    rows: Vec<Vec<Cell>>,
    /// The text of each row that a search reads: lower case, one line per row.
    texts: Vec<String>,
}

impl Long {
    fn new(question: &str, mut shell: Table) -> Long {
        let rows = std::mem::take(&mut shell.rows);
        let texts = rows.iter().map(|row| texts(row)).collect();
        Long { question: question.to_owned(), shell, rows, texts }
    }
}

/// The order of rows for what was asked last: scrolling asks for the next part of the same.
struct Order {
    long: Arc<Long>,
    sort: Option<String>,
    turned: bool,
    search: String,
    rows: Arc<Vec<usize>>,
}

/// The table that was asked for last; others are made again.
#[derive(Default)]
pub(crate) struct LongTables {
    last: Mutex<Option<Order>>,
}

impl LongTables {
    /// The part of the table that `make` makes, as JSON: a table whose `found` is the number of rows that match.
    pub(crate) fn part<E>(
        &self,
        question: &str,
        window: &Window,
        make: impl FnOnce() -> Result<Table, E>,
    ) -> Result<Value, E> {
        let (long, rows) = self.order(question, window, make)?;
        let count = window.count.min(MOST);
        let wanted = rows.iter().skip(window.from).take(count);
        let mut part = long.shell.clone();
        part.rows = wanted.map(|at| long.rows[*at].clone()).collect();
        let mut value = json!(part);
        value["found"] = json!(rows.len());
        Ok(value)
    }

    fn order<E>(
        &self,
        question: &str,
        window: &Window,
        make: impl FnOnce() -> Result<Table, E>,
    ) -> Result<(Arc<Long>, Arc<Vec<usize>>), E> {
        // Held while the table is made, so that two parts asked for at once do not make it twice.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let long = match &*last {
            Some(order) if order.long.question == question => {
                if order.sort == window.sort
                    && order.turned == window.turned
                    && order.search == window.search
                {
                    return Ok((Arc::clone(&order.long), Arc::clone(&order.rows)));
                }
                Arc::clone(&order.long)
            }
            _ => Arc::new(Long::new(question, make()?)),
        };
        let rows = Arc::new(chosen(&long, window));
        *last = Some(Order {
            long: Arc::clone(&long),
            sort: window.sort.clone(),
            turned: window.turned,
            search: window.search.clone(),
            rows: Arc::clone(&rows),
        });
        Ok((long, rows))
    }
}

/// Positions of the rows that match, in order.
fn chosen(long: &Long, window: &Window) -> Vec<usize> {
    let wanted = window.search.to_lowercase();
    let mut rows: Vec<usize> = (0..long.rows.len())
        .filter(|at| wanted.is_empty() || long.texts[*at].contains(&wanted))
        .collect();
    if let Some(column) = window.sort.as_deref().and_then(|key| long.shell.column(key)) {
        // Each cell is looked up once, not at every comparison, and names are put side by side: rows lie all over the memory.
        let mut names = String::new();
        for at in &rows {
            if let Some(Cell::Text(text)) = long.rows[*at].get(column) {
                names.push_str(text);
            }
        }
        let mut rest = names.as_str();
        let keys = rows.iter().map(|at| (sort_key(long.rows[*at].get(column), &mut rest), *at));
        let mut keys: Vec<(SortKey<'_>, usize)> = keys.collect();
        keys.sort_by(|(a, _), (b, _)| compare(*a, *b, window.turned));
        rows = keys.into_iter().map(|(_, at)| at).collect();
    }
    rows
}

fn texts(row: &[Cell]) -> String {
    let mut texts = String::new();
    let mut add = |text: &str| {
        texts.push_str(&text.to_lowercase());
        texts.push('\n');
    };
    for cell in row {
        match cell {
            Cell::Text(text) => add(text),
            Cell::Stack(frames) => frames.iter().for_each(|frame| add(frame)),
            _ => {}
        }
    }
    texts
}

/// What a row is sorted by.
#[derive(Clone, Copy)]
enum SortKey<'a> {
    Name(&'a str),
    Figure(f64),
}

/// `names` begins with the text of the cell, if it has one, which is taken from there.
fn sort_key<'a>(cell: Option<&Cell>, names: &mut &'a str) -> SortKey<'a> {
    match cell {
        Some(Cell::Text(text)) => {
            let (name, rest) = names.split_at(text.len());
            *names = rest;
            SortKey::Name(name)
        }
        other => SortKey::Figure(number(other)),
    }
}

/// Large figures first, names in their order; what has no value comes last.
fn compare(a: SortKey<'_>, b: SortKey<'_>, turned: bool) -> Ordering {
    let way = |order: Ordering| if turned { order.reverse() } else { order };
    let is_known = |figure: f64| figure != f64::NEG_INFINITY;
    match (a, b) {
        (SortKey::Name(a), SortKey::Name(b)) => way(a.cmp(b)),
        (SortKey::Name(_), SortKey::Figure(_)) => Ordering::Less,
        (SortKey::Figure(_), SortKey::Name(_)) => Ordering::Greater,
        (SortKey::Figure(a), SortKey::Figure(b)) => {
            is_known(b).cmp(&is_known(a)).then(way(b.total_cmp(&a)))
        }
    }
}

fn number(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Metric(metric)) => metric.value.unwrap_or(f64::NEG_INFINITY),
        Some(Cell::Number(number)) => *number as f64,
        Some(Cell::Seconds(number) | Cell::Probability(number)) => *number,
        _ => f64::NEG_INFINITY,
    }
}
