//! What the doctor finds, and how it tells it.

use serde_json::json as value;

use crate::cli::output::{Failure, Output};

/// What was found out about one thing
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well.
    Well,
    /// It could not be found out.
    Unknown,
    /// Something will soon be wrong unless this is done.
    Warning { remedy: String },
    /// Something is wrong, and this mends it.
    Wrong { remedy: String },
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Well => "ok",
            Self::Unknown => "unknown",
            Self::Warning { .. } => "warning",
            Self::Wrong { .. } => "wrong",
        }
    }

    fn remedy(&self) -> Option<&str> {
        match self {
            Self::Well | Self::Unknown => None,
            Self::Warning { remedy } | Self::Wrong { remedy } => Some(remedy),
        }
    }
}

impl Finding {
    pub(super) fn well(check: &'static str, text: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Well,
            text: text.into(),
        }
    }

    pub(super) fn unknown(check: &'static str, text: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Unknown,
            text: text.into(),
        }
    }

    pub(super) fn warning(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Warning {
                remedy: remedy.into(),
            },
            text: text.into(),
        }
    }

    pub(super) fn wrong(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Wrong {
                remedy: remedy.into(),
            },
            text: text.into(),
        }
    }
}

/// Tells each finding as it comes
pub(super) struct Report {
    output: Output,
    wrong: usize,
}

impl Report {
    pub(super) fn new(output: Output) -> Self {
        Self { output, wrong: 0 }
    }

    pub(super) fn tell(&mut self, finding: &Finding) -> Result<(), Failure> {
        let Finding { check, verdict, text } = finding;
        self.wrong += usize::from(matches!(verdict, Verdict::Wrong { .. }));
        let (word, remedy) = (verdict.word(), verdict.remedy());
        let mend = remedy.map_or_else(String::new, |remedy| format!(": {remedy}"));
        self.output.print(
            format_args!("{word:<8}{check:<14}{text}{mend}"),
            &value!({ "check": check, "verdict": word, "text": text, "remedy": remedy }),
        )
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        match self.wrong {
            0 => Ok(()),
            1 => Err(Failure::other("one thing is wrong")),
            wrong => Err(Failure::other(format!("{wrong} things are wrong"))),
        }
    }
}
