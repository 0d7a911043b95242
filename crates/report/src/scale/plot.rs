//! A plot in characters: points, curves and axes on a small grid.

/// Points with the sign that marks them; later series are drawn over earlier ones.
pub(super) struct Series {
    pub(super) sign: char,
    pub(super) points: Vec<(f64, f64)>,
}

const HEIGHT: usize = 12;
const MARGIN: usize = 8;

/// The plot, `width` columns wide. Both axes begin at 0; what lies above `top` is left out.
pub(super) fn plot(series: &[Series], right: f64, top: f64, width: usize, ticks: &[u32]) -> String {
    let columns = width.saturating_sub(MARGIN + 2).clamp(20, 72);
    let mut grid = vec![vec![' '; columns]; HEIGHT];
    for one in series {
        for (x, y) in &one.points {
            if !(0.0..=right).contains(x) || !(0.0..=top).contains(y) {
                continue;
            }
            let column = (x / right * (columns - 1) as f64).round() as usize;
            let row = (y / top * (HEIGHT - 1) as f64).round() as usize;
            grid[HEIGHT - 1 - row][column] = one.sign;
        }
    }
    let mut out = String::new();
    for (at, row) in grid.iter().enumerate() {
        let labelled = at == 0 || at == HEIGHT - 1 || at == HEIGHT / 2;
        let value = top * (HEIGHT - 1 - at) as f64 / (HEIGHT - 1) as f64;
        let label = if labelled { crate::text::number(value) } else { String::new() };
        let line: String = row.iter().collect();
        out += format!("{label:>MARGIN$} |{line}").trim_end();
        out.push('\n');
    }
    out += &format!("{:>MARGIN$} +{}\n", "", "-".repeat(columns));
    let mut axis = vec![' '; columns + MARGIN];
    let mut free = 0;
    for tick in ticks {
        let text = tick.to_string();
        let at = (f64::from(*tick) / right * (columns - 1) as f64).round() as usize;
        if at >= free && at + text.len() <= axis.len() {
            text.chars().enumerate().for_each(|(offset, c)| axis[at + offset] = c);
            free = at + text.len() + 1;
        }
    }
    let axis: String = axis.into_iter().collect();
    out += format!("{:>MARGIN$}  {axis}", "").trim_end();
    out += "\n";
    out
}
