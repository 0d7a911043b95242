//! Text for people: units, shortening, colours, tables.

mod format;
pub(crate) mod markdown;
mod paint;
mod table;

pub(crate) use format::{
    IN_PROSE, PROSE, about_refusals, bytes, count, coverage, cut_middle, filled, fit, interval,
    measure, number, percent, plus_minus, printable, rate, rates, seconds, share, shorten_function,
    shorten_path, wrap,
};
pub(crate) use paint::Paint;
pub(crate) use table::table;
