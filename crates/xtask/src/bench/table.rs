//! Rows by systems, and how they are printed.

use serde_json::{Value, json};

/// One figure of one system.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    value: f64,
    less_is_better: bool,
}

impl Row {
    /// A figure of which more is better.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self { what: what.into(), unit, value, less_is_better: false }
    }

    /// A figure of which less is better.
    pub(crate) fn less(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self { less_is_better: true, ..Self::new(what, unit, value) }
    }
}

struct Line {
    row: Row,
    /// By system, the figures of all rounds.
    values: Vec<Vec<f64>>,
}

/// The figures of all systems.
pub(crate) struct Table {
    systems: Vec<String>,
    lines: Vec<Line>,
}

impl Table {
    pub(crate) fn new(systems: Vec<String>) -> Self {
        Self { systems, lines: Vec::new() }
    }

    /// Adds the figure of a round; a row seen for the first time comes last.
    pub(crate) fn put(&mut self, row: Row, column: usize) {
        let value = row.value;
        self.line(row).values[column].push(value);
    }

    /// Keeps the highest figure of which less is better.
    pub(crate) fn raise(&mut self, what: &str, unit: &'static str, column: usize, value: f64) {
        let figures = &mut self.line(Row::less(what, unit, value)).values[column];
        *figures = vec![figures.iter().copied().fold(value, f64::max)];
    }

    fn line(&mut self, row: Row) -> &mut Line {
        let index = self.lines.iter().position(|line| line.row.what == row.what).unwrap_or_else(|| {
            self.lines.push(Line { row, values: vec![Vec::new(); self.systems.len()] });
            self.lines.len() - 1
        });
        &mut self.lines[index]
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:<40} {:<7}", "", "unit");
        self.systems.iter().for_each(|system| text += &format!(" {system:>18}"));
        text += "   ratio\n";
        for line in &self.lines {
            text += &format!("{:<40} {:<7}", line.row.what, line.row.unit);
            line.values.iter().for_each(|figures| text += &format!(" {:>18}", figure(median(figures))));
            let ratios = line.ratios();
            text += &format!(" {:>7}", median(&ratios).map_or_else(String::new, |r| format!("{r:.2}")));
            if ratios.len() > 1 {
                let all: Vec<String> = ratios.iter().map(|r| format!("{r:.2}")).collect();
                text += &format!("  ({})", all.join(" "));
            }
            text.push('\n');
        }
        text + "ratio: how many times better the first system is than the second; below 1 it is worse. Of several rounds: the\n\
                medians of the figures and of the ratios, and the ratio of each round.\n"
    }

    pub(crate) fn json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            let values: serde_json::Map<String, Value> =
                self.systems.iter().cloned().zip(line.values.iter().map(|f| json!(median(f)))).collect();
            let ratios = line.ratios();
            json!({
                "row": line.row.what, "unit": line.row.unit, "values": values,
                "ratio": median(&ratios), "ratios": ratios,
            })
        });
        json!({"rows": lines.collect::<Vec<_>>()})
    }
}

impl Line {
    /// How many times better the first system is than the second, in each round.
    fn ratios(&self) -> Vec<f64> {
        let [first, second, ..] = self.values.as_slice() else { return Vec::new() };
        let ratio = |(first, second): (&f64, &f64)| {
            let (better, worse) = if self.row.less_is_better { (second, first) } else { (first, second) };
            (*worse > 0.0).then(|| better / worse)
        };
        first.iter().zip(second).filter_map(ratio).collect()
    }
}

/// The middle one; of two, their mean.
fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_direction() {
        let mut table = Table::new(vec!["a".to_owned(), "b".to_owned()]);
        table.put(Row::new("speed", "per s", 30.0), 0);
        table.put(Row::new("speed", "per s", 10.0), 1);
        table.put(Row::less("uploads", "PUTs", 3.0), 0);
        table.put(Row::less("uploads", "PUTs", 60.0), 1);
        let ratios: Vec<_> = table.lines.iter().map(|line| line.ratios()[0]).collect();
        assert_eq!(ratios, [3.0, 20.0]);
    }

    #[test]
    fn the_highest_figure_of_memory_is_kept() {
        let mut table = Table::new(vec!["a".to_owned()]);
        for value in [5.0, 9.0, 7.0] {
            table.raise("memory", "MB", 0, value);
        }
        assert_eq!(table.lines[0].values, [[9.0]]);
    }

    #[test]
    fn several_rounds_give_medians_and_one_ratio_each() {
        let mut table = Table::new(vec!["a".to_owned(), "b".to_owned()]);
        for (a, b) in [(10.0, 10.0), (40.0, 10.0), (30.0, 15.0)] {
            table.put(Row::new("speed", "per s", a), 0);
            table.put(Row::new("speed", "per s", b), 1);
        }
        let line = &table.lines[0];
        assert_eq!((median(&line.values[0]), median(&line.ratios())), (Some(30.0), Some(2.0)));
        assert_eq!((median(&[]), median(&[1.0, 2.0])), (None, Some(1.5)));
        assert!(table.text().contains("(1.00 4.00 2.00)"));
    }
}
