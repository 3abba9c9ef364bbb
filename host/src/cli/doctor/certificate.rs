//! Whether a node's certificate lets it into its closed network, and for how long.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use selfsame_host::{Certified, Code};
use serde_json::Value;

use super::finding::Finding;
use crate::cli::membership::{Validity, admission, now_ms, revocations};

const CHECK: &str = "admission";
/// A certificate that expires sooner should have been renewed.
const SOON: Duration = Duration::from_secs(60 * 60);
/// How far an honest clock may be off.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
const RENEW: &str = "let the authority sign the next one (`selfsame authority sign`), write it into the file of --certificate, and send \
                     the node SIGHUP";
const CLOCK: &str =
    "let this machine and the authority's take their time from NTP, or have another one signed";

/// What a node that runs says of its membership; nothing in an open network.
pub(super) fn of_running(status: &Value) -> Vec<Finding> {
    let membership = &status["membership"];
    let Some(validity) = Validity::from_json(&membership["certificate"]) else {
        return Vec::new();
    };
    let text = format!("{}; revocations: {}", admission(status), revocations(membership));
    vec![Finding::well(CHECK, text), judge(validity, now_ms())]
}

/// What there is to say of a certificate in a file or in the DNS.
pub(super) fn of_file(certified: &Certified) -> Finding {
    judge(validity_of(certified), now_ms())
}

fn validity_of(certified: &Certified) -> Validity {
    let ms = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    };
    Validity {
        since_ms: ms(certified.not_before),
        until_ms: ms(certified.expires),
    }
}

fn judge(validity: Validity, now_ms: u64) -> Finding {
    let text = format!("certificate {}", validity.text(now_ms));
    let soon_ms = now_ms + SOON.as_millis() as u64;
    let wrong = |code: Code, remedy| Finding::wrong(CHECK, format!("{text}: {code}"), remedy);
    if validity.since_ms > now_ms + CLOCK_SKEW.as_millis() as u64 {
        wrong(Code::EarlyCertificate, CLOCK)
    } else if validity.until_ms <= now_ms {
        wrong(Code::ExpiredCertificate, RENEW)
    } else if validity.until_ms < soon_ms {
        Finding::warning(CHECK, text, RENEW)
    } else {
        Finding::well(CHECK, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 60 * 60 * 1000;

    #[test]
    fn certificate_is_judged_by_the_clock() {
        let validity = Validity {
            since_ms: 100 * HOUR_MS,
            until_ms: 124 * HOUR_MS,
        };
        for (now_ms, word) in [
            (100 * HOUR_MS - 61_000, "wrong"),
            (100 * HOUR_MS - 60_000, "ok"),
            (123 * HOUR_MS, "ok"),
            (123 * HOUR_MS + 1, "warning"),
            (124 * HOUR_MS, "wrong"),
        ] {
            assert_eq!(judge(validity, now_ms).verdict.word(), word, "{now_ms}");
        }
    }
}
