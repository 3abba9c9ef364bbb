use core::time::Duration;
use std::process::ExitCode;

/// What was checked
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: u32,
    failed: u32,
}

impl Report {
    /// Tells what came of a check: a figure, or what was wrong.
    pub(crate) fn check(&mut self, what: &str, outcome: Result<String, String>) {
        let (label, detail) = match outcome {
            Ok(figure) => {
                self.passed += 1;
                ("ok", figure)
            }
            Err(problem) => {
                self.failed += 1;
                ("FAILED", problem)
            }
        };
        println!("{label:<7} {what}: {detail}");
    }

    /// Counts all, in the last line.
    pub(crate) fn finish(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        ExitCode::from(u8::from(self.failed > 0))
    }
}

/// How long each of many took
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut each: Vec<Duration>) -> Self {
        each.sort_unstable();
        Self(each)
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }

    /// The distribution, in milliseconds.
    pub(crate) fn text(&self) -> String {
        let shares = [
            ("first", 0),
            ("10 %", 10),
            ("median", 50),
            ("90 %", 90),
            ("99 %", 99),
            ("last", 100),
        ];
        let last = self.0.len().saturating_sub(1);
        let texts = shares.map(|(name, share)| {
            let time = self.0.get(last * share / 100).copied().unwrap_or_default();
            format!("{name} {:.1}", time.as_secs_f64() * 1000.0)
        });
        format!("{} peers, ms: {}", self.0.len(), texts.join(", "))
    }
}
