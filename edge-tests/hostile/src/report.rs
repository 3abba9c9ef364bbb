//! The table of all attacks: what each gained before the defences were there, and what it gains now.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::attacks::{Arena, Attack};
use crate::figure::{Figure, number};

/// What each figure was on commit 80d672a, with seed 1: `{attack: {backend: {what: value}}}`.
const BEFORE: &str = include_str!("../before.json");

/// Figures of a commit on which the attacks succeeded
pub(crate) struct Before(BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>);

impl Before {
    /// Those that were recorded.
    ///
    /// # Panics
    /// When the recorded file is damaged.
    pub(crate) fn recorded() -> Self {
        Self(serde_json::from_str(BEFORE).expect("before.json is {attack: {backend: {what: value}}}"))
    }

    fn value(&self, attack: &str, backend: &str, what: &str) -> Option<f64> {
        self.0.get(attack)?.get(backend)?.get(what).copied()
    }
}

/// One attack in one back end
struct Played {
    attack: &'static str,
    what: &'static str,
    arena: Arena,
    figures: Vec<(Figure, Option<f64>)>,
}

impl Played {
    fn is_met(&self) -> bool {
        self.figures.iter().all(|(figure, _)| figure.is_met())
    }
}

/// All that was played
#[derive(Default)]
pub(crate) struct Report {
    played: Vec<Played>,
}

impl Report {
    /// Takes what an attack measured.
    pub(crate) fn add(&mut self, attack: &Attack, arena: Arena, figures: Vec<Figure>, before: &Before) {
        let with_before = |figure: Figure| {
            let before = before.value(attack.name, arena.backend.name(), figure.what);
            (figure, before)
        };
        self.played.push(Played {
            attack: attack.name,
            what: attack.what,
            arena,
            figures: figures.into_iter().map(with_before).collect(),
        });
    }

    /// How many attacks had a figure outside its bound.
    pub(crate) fn failed(&self) -> usize {
        self.played.iter().filter(|played| !played.is_met()).count()
    }

    /// `N passed, N failed`.
    pub(crate) fn summary(&self) -> String {
        let failed = self.failed();
        format!("{} passed, {failed} failed", self.played.len() - failed)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        for played in &self.played {
            let verdict = if played.is_met() { "ok" } else { "FAILED" };
            let (attack, backend) = (played.attack, played.arena.backend.name());
            out.push_str(&format!("{verdict:<7} {attack} ({backend}): {}\n", played.what));
            for (figure, before) in &played.figures {
                let before = before.map_or_else(|| "-".into(), number);
                let (value, bound) = (number(figure.value), figure.bound.text());
                let missed = if figure.is_met() { "" } else { "  <-- outside" };
                let line = format!(
                    "        {:<58} before {before:>10}  now {value:>10}  {bound:<9}{missed}",
                    figure.what
                );
                out.push_str(line.trim_end());
                out.push('\n');
            }
            if !played.is_met() {
                let seed = played.arena.seed;
                out.push_str(&format!(
                    "        repeat: npm run test:hostile -- --attack {attack} --backend {backend} --seed {seed}\n"
                ));
            }
        }
        out
    }

    /// As JSON: `{met, attacks: [{attack, backend, seed, met, figures: [{what, value, bound, met, before}]}]}`.
    pub(crate) fn json(&self) -> Value {
        let attacks: Vec<Value> = self.played.iter().map(Played::json).collect();
        json!({"met": self.failed() == 0, "attacks": attacks})
    }
}

impl Played {
    fn json(&self) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|(figure, before)| {
                let mut json = figure.json();
                json["before"] = json!(before);
                json
            })
            .collect();
        json!({
            "attack": self.attack,
            "backend": self.arena.backend.name(),
            "seed": self.arena.seed,
            "met": self.is_met(),
            "figures": figures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacks::ATTACKS;
    use crate::module::Backend;

    fn arena() -> Arena {
        Arena {
            backend: Backend::Wasmtime,
            seed: 9,
        }
    }

    #[test]
    fn every_attack_was_recorded_when_it_succeeded() {
        let Before(recorded) = Before::recorded();
        for attack in ATTACKS {
            for backend in [Backend::Wasmtime, Backend::Node] {
                let of_attack = recorded.get(attack.name);
                let figures = of_attack.and_then(|of_attack| of_attack.get(backend.name()));
                assert!(figures.is_some(), "{} in {}", attack.name, backend.name());
            }
        }
    }

    #[test]
    fn figure_outside_its_bound_fails_with_its_seed() {
        let mut report = Report::default();
        let figures = vec![Figure::note("sent", 3.0), Figure::at_most("held", 2.0, 1.0)];
        report.add(&ATTACKS[0], arena(), figures, &Before::recorded());
        assert_eq!(report.summary(), "0 passed, 1 failed");
        assert!(report.table().contains("--backend wasmtime --seed 9"));
        assert_eq!(report.json()["attacks"][0]["figures"][1]["met"], false);
    }

    #[test]
    fn honest_peers_keep_most_of_their_success() {
        for (with, is_met) in [(0.8, true), (0.76, true), (0.7, false)] {
            assert_eq!(Figure::honest("calls", 0.8, with).is_met(), is_met);
        }
        assert!(
            !Figure::honest("calls", 0.0, 0.0).is_met(),
            "an attack on nothing tells nothing"
        );
    }
}
