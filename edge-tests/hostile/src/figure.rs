//! What an attack measured, and what it may measure at most.

use serde_json::{Value, json};

/// Least share of their usual success that honest peers keep under attack.
const HONEST_SHARE: f64 = 0.95;

/// What a figure must be
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Anything: it only describes the attack.
    None,
}

/// One figure of an attack
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) what: &'static str,
    /// The value.
    pub(crate) value: f64,
    /// What it must be.
    pub(crate) bound: Bound,
}

impl Figure {
    /// A figure that only describes the attack.
    pub(crate) fn note(what: &'static str, value: f64) -> Self {
        Self {
            what,
            value,
            bound: Bound::None,
        }
    }

    /// What the attacker gains, or the size of a table, which has a bound.
    pub(crate) fn at_most(what: &'static str, value: f64, most: f64) -> Self {
        Self {
            what,
            value,
            bound: Bound::AtMost(most),
        }
    }

    /// How often honest peers succeed under attack, as a share of how often they do without it.
    pub(crate) fn honest(what: &'static str, without: f64, with: f64) -> Self {
        let value = if without > 0.0 { with / without } else { 0.0 };
        Self {
            what,
            value,
            bound: Bound::AtLeast(HONEST_SHARE),
        }
    }

    /// Whether it is within its bound.
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
            Bound::None => true,
        }
    }

    /// As JSON: `{what, value, bound, met}`.
    pub(crate) fn json(&self) -> Value {
        json!({"what": self.what, "value": self.value, "bound": self.bound.text(), "met": self.is_met()})
    }
}

impl Bound {
    /// As it is printed.
    pub(crate) fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {}", number(most)),
            Self::AtLeast(least) => format!(">= {}", number(least)),
            Self::None => String::new(),
        }
    }
}

/// A value as it is printed.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}")
    } else {
        format!("{value:.3}")
    }
}
