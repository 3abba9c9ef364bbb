//! What a scenario measured, for people and for programs.

use serde_json::{Value, json};

/// What a figure must be
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Not further from this than the second, as a share of it.
    Within(f64, f64),
}

impl Bar {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Within(expected, share) => (value - expected).abs() <= expected * share,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {}", number(most)),
            Self::AtLeast(least) => format!(">= {}", number(least)),
            Self::Within(expected, share) => format!("{} within {} %", number(expected), share * 100.0),
        }
    }
}

/// One figure
#[derive(Clone, Debug)]
pub struct Row {
    what: String,
    unit: &'static str,
    value: f64,
    bar: Option<Bar>,
}

impl Row {
    /// A figure without a bar.
    pub fn new(what: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            what: what.into(),
            unit,
            value,
            bar: None,
        }
    }

    /// The same figure with a bar.
    #[must_use]
    pub fn bar(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }

    /// The same figure among those of several runs.
    #[must_use]
    pub fn of(mut self, run: &str) -> Self {
        self.what = format!("{run}: {}", self.what);
        self
    }

    fn is_met(&self) -> bool {
        self.bar.is_none_or(|bar| bar.is_met(self.value))
    }

    fn value_text(&self) -> String {
        number(self.value)
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.4}")
    }
}

/// What one run gave
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// The command that plays it again.
    pub command: String,
    /// What was measured.
    pub rows: Vec<Row>,
    /// Hash of everything that the cores said.
    pub trace: [u8; 32],
    /// A picture of it as SVG, if one was asked for.
    pub figure: Option<String>,
}

impl Report {
    /// Whether every bar is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.rows.iter().all(Row::is_met)
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> String {
        let width = |text: fn(&Row) -> usize| self.rows.iter().map(text).max().unwrap_or(0);
        let what = width(|row| row.what.chars().count());
        let value = width(|row| row.value_text().len());
        let unit = width(|row| row.unit.len());
        let mut out = format!("{}\ntrace {}\n", self.command, self.trace_hex());
        for row in &self.rows {
            let bar = row.bar.map_or_else(String::new, |bar| {
                let verdict = if row.is_met() { "met" } else { "MISSED" };
                format!("  {}: {verdict}", bar.text())
            });
            let line = format!(
                "{:what$}  {:>value$} {:unit$}{bar}",
                row.what,
                row.value_text(),
                row.unit
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push_str(&self.verdict());
        out
    }

    /// One line: whether the bars are met, and if not, the command that shows it again.
    fn verdict(&self) -> String {
        let bars = self.rows.iter().filter(|row| row.bar.is_some()).count();
        let missed = self.rows.iter().filter(|row| !row.is_met()).count();
        match missed {
            0 => format!("PASS: {bars} bars met\n"),
            _ => format!("FAIL: {missed} of {bars} bars missed; replay: {}\n", self.command),
        }
    }

    /// As JSON: `{scenario, command, trace, met, rows: [{what, unit, value, bar, met}]}`.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "what": row.what,
                    "unit": row.unit,
                    "value": row.value,
                    "bar": row.bar.map(Bar::text),
                    "met": row.is_met(),
                })
            })
            .collect();
        json!({
            "scenario": self.scenario,
            "command": self.command,
            "trace": self.trace_hex(),
            "met": self.is_met(),
            "rows": rows,
        })
    }

    fn trace_hex(&self) -> String {
        self.trace.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bar_is_shown_with_the_seed_that_replays_it() {
        let mut report = Report {
            scenario: "settle".into(),
            command: "selfsame-sim settle --nodes 3 --seed 9".into(),
            rows: vec![Row::new("hops", "hops", 3.0).bar(Bar::Within(2.0, 0.05))],
            trace: [0; 32],
            figure: None,
        };
        assert!(!report.is_met());
        assert!(report.table().contains("MISSED"));
        let verdict = "FAIL: 1 of 1 bars missed; replay: selfsame-sim settle --nodes 3 --seed 9\n";
        assert!(report.table().ends_with(verdict));
        report.rows = vec![Row::new("hops", "hops", 2.05).bar(Bar::Within(2.0, 0.05))];
        assert!(report.is_met());
        assert!(report.table().ends_with("PASS: 1 bars met\n"));
        assert_eq!(report.json()["rows"][0]["met"], true);
    }
}
