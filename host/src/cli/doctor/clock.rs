//! This machine's clock beside those of other nodes.

use core::time::Duration;
use std::time::SystemTime;

use selfsame_host::clock_at;

use super::Finding;

/// Others refuse what is further ahead of their clock (`CLOCK_SKEW_MS` of the core); half of it is the time to act.
const MOST_SKEW: Duration = Duration::from_secs(30);
/// Members whose clocks are looked at.
const MOST_CLOCKS: usize = 3;
const REMEDY: &str = "let both machines take their time from NTP (timedatectl set-ntp true)";

/// The clocks of some nodes beside this machine's.
#[derive(Debug)]
pub(super) struct Clocks(Vec<Comparison>);

/// How far this machine's clock is from that of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    url: String,
    apart: Duration,
    is_ahead: bool,
}

impl Clocks {
    /// Asks bootstraps and neighbours for the time; those that do not tell it are left out.
    pub(super) async fn compare(bootstraps: &[String], neighbours: &[String]) -> Self {
        let mut urls: Vec<&str> = bootstraps.iter().map(|url| without_id(url)).collect();
        urls.extend(neighbours.iter().map(String::as_str));
        urls.dedup();
        let mut comparisons = Vec::new();
        for url in urls.into_iter().take(MOST_CLOCKS) {
            match clock_at(url).await {
                Ok(Some(there)) => comparisons.push(Comparison::new(url, there, SystemTime::now())),
                Ok(None) => {}
                Err(error) => tracing::debug!(url, %error, "no clock to compare with"),
            }
        }
        Self(comparisons)
    }

    /// What they say about this machine's clock.
    pub(super) fn findings(&self) -> Vec<Finding> {
        if self.0.is_empty() {
            let text = "nobody tells the time by HTTP to compare it with";
            return vec![Finding::unknown("clock", text)];
        }
        self.0.iter().map(Comparison::finding).collect()
    }

    /// What is wrong with a bootstrap that gives no answer because it drops what this machine signs: one of the two clocks
    /// is wrong.
    pub(super) fn refusal(&self, bootstrap: &str) -> Option<Finding> {
        let url = without_id(bootstrap);
        let comparison = self.0.iter().find(|comparison| comparison.url == url)?;
        let text = format!(
            "{bootstrap} refuses this node, whose clock is {}",
            comparison.text()
        );
        comparison
            .is_wrong()
            .then(|| Finding::wrong("bootstrap", text, REMEDY))
    }
}

impl Comparison {
    fn new(url: &str, there: SystemTime, here: SystemTime) -> Self {
        let (apart, is_ahead) = match here.duration_since(there) {
            Ok(ahead) => (ahead, true),
            Err(behind) => (behind.duration(), false),
        };
        let url = url.to_owned();
        Self { url, apart, is_ahead }
    }

    fn is_wrong(&self) -> bool {
        self.apart >= MOST_SKEW
    }

    /// The other side tells whole seconds.
    fn text(&self) -> String {
        let word = if self.is_ahead { "ahead of" } else { "behind" };
        format!("{} s {word} that of {}", self.apart.as_secs(), self.url)
    }

    fn finding(&self) -> Finding {
        if self.is_wrong() {
            let text = format!(
                "{}, and records from more than 60 s ahead are refused",
                self.text()
            );
            return Finding::wrong("clock", text, REMEDY);
        }
        let (url, seconds) = (&self.url, self.apart.as_secs() + 1);
        Finding::well(
            "clock",
            format!("it shows the time that {url} tells, within {seconds} s"),
        )
    }
}

fn without_id(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Verdict;

    #[test]
    fn clock_that_others_refuse_is_wrong() {
        let now = SystemTime::now();
        for (there, is_wrong) in [
            (now + Duration::from_secs(2), false),
            (now - Duration::from_secs(29), false),
            (now + Duration::from_secs(31), true),
            (now - Duration::from_secs(3600), true),
        ] {
            let finding = Comparison::new("ws://a:1", there, now).finding();
            assert_eq!(
                matches!(finding.verdict, Verdict::Wrong { .. }),
                is_wrong,
                "{finding:?}"
            );
        }
    }

    #[test]
    fn bootstrap_refusal_names_the_clock() {
        let now = SystemTime::now();
        let hour = now - Duration::from_secs(3600);
        let clocks = Clocks(vec![
            Comparison::new("ws://a:1", hour, now),
            Comparison::new("ws://b:1", now, now),
        ]);
        assert_eq!(clocks.refusal("ws://b:1#id"), None);
        assert_eq!(clocks.refusal("ws://c:1#id"), None);
        let finding = clocks
            .refusal("ws://a:1#id")
            .expect("its clock is an hour behind");
        assert!(
            finding.text.contains("3600 s ahead of that of ws://a:1"),
            "{finding:?}"
        );
    }
}
