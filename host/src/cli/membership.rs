//! What people read of a node's membership of a closed network.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::value::{each, text};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The time in which a certificate counts, in milliseconds since 1970
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) since_ms: u64,
    pub(crate) until_ms: u64,
}

impl Validity {
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            since_ms: value["since_ms"].as_u64()?,
            until_ms: value["until_ms"].as_u64()?,
        })
    }

    /// How old the certificate is, and for how long it still counts.
    pub(crate) fn text(self, now_ms: u64) -> String {
        let age = match now_ms.checked_sub(self.since_ms) {
            Some(age) => format!("{} old", span(age)),
            None => format!("counts in {}", span(self.since_ms - now_ms)),
        };
        match self.until_ms.checked_sub(now_ms) {
            Some(left) if left > 0 => format!("{age}, expires in {}", span(left)),
            _ => format!("{age}, expired {} ago", span(now_ms - self.until_ms)),
        }
    }
}

/// What this machine's clock says, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time in the largest unit that it has one of.
fn span(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (1000, "s")];
    let unit = units.into_iter().find(|(unit, _)| ms >= *unit);
    unit.map_or_else(
        || format!("{ms} ms"),
        |(unit, name)| format!("{} {name}", ms / unit),
    )
}

/// How the network admits its members.
pub(crate) fn admission(status: &Value) -> String {
    let authority = text(&status["membership"]["authority"]);
    match text(&status["admission"]) {
        "dns" => format!("dns, certificates of {authority}"),
        "certificates" => format!("certificates of {authority}"),
        _ => "open".into(),
    }
}

/// What the newest list of revocations says.
pub(crate) fn revocations(membership: &Value) -> String {
    let list = &membership["revocations"];
    match list["serial"].as_u64() {
        None | Some(0) => "none".into(),
        Some(serial) => format!("list {serial} of {} keys", list["revoked"]),
    }
}

/// When the certificate of a neighbour counts.
pub(crate) fn of_neighbour(status: &Value, id: &str) -> Option<Validity> {
    let mut neighbours = each(&status["membership"]["neighbours"]);
    let found = neighbours.find(|neighbour| neighbour["id"] == id)?;
    Validity::from_json(&found["certificate"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_is_told_by_age_and_expiry() {
        let validity = Validity {
            since_ms: DAY_MS,
            until_ms: 2 * DAY_MS,
        };
        for (now_ms, expected) in [
            (DAY_MS + 3 * HOUR_MS, "3 h old, expires in 21 h"),
            (2 * DAY_MS - 90_000, "23 h old, expires in 1 min"),
            (2 * DAY_MS, "1 d old, expired 0 ms ago"),
            (5 * DAY_MS, "4 d old, expired 3 d ago"),
            (DAY_MS - 2000, "counts in 2 s, expires in 1 d"),
        ] {
            assert_eq!(validity.text(now_ms), expected);
        }
    }
}
