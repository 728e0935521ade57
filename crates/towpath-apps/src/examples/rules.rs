//! What is made of what: a file of rules, read and ordered.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

const RULES_MAX: usize = 10_000;
const NEEDS_MAX: usize = 1_000;
const COMMAND_MAX: usize = 64 << 10;

/// How a file is made: by a command, once all that it needs is there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) target: String,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    pub(super) run: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    rule: Vec<Rule>,
}

/// Rules that can be followed: no target twice, no circle, every need a target or a file.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) all: Vec<Rule>,
    /// By rule, which rules wait for it.
    pub(super) followers: Vec<Vec<usize>>,
    /// By rule, how many it waits for.
    pub(super) waits: Vec<usize>,
}

impl Rules {
    /// Files are looked for in `dir`.
    pub(super) fn read(text: &str, dir: &Path) -> anyhow::Result<Self> {
        let Text { rule: rules } = toml::from_str(text)?;
        let count = rules.len();
        ensure!((1..=RULES_MAX).contains(&count), "{count} rules: from 1 to {RULES_MAX}");
        let mut makers = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            let (needs, len) = (rule.needs.len(), rule.run.len());
            ensure!(!rule.target.is_empty(), "rule {}: no target", at + 1);
            let target = &rule.target;
            ensure!(needs <= NEEDS_MAX, "{target}: {needs} needs, at most {NEEDS_MAX}");
            let good = (1..=COMMAND_MAX).contains(&len);
            ensure!(good, "{target}: a command of {len} bytes, from 1 to {COMMAND_MAX}");
            ensure!(makers.insert(target.clone(), at).is_none(), "{target} is made by two rules");
        }
        let (mut followers, mut waits) = (vec![Vec::new(); count], vec![0; count]);
        for (at, rule) in rules.iter().enumerate() {
            for need in &rule.needs {
                if let Some(maker) = makers.get(need) {
                    followers[*maker].push(at);
                    waits[at] += 1;
                } else if !dir.join(need).exists() {
                    bail!("{} needs {need}: it is not there, and no rule makes it", rule.target);
                }
            }
        }
        let rules = Self { all: rules, followers, waits };
        rules.without_circle()?;
        Ok(rules)
    }

    /// Takes away what waits for nothing until there is nothing left (A. Kahn, 1962).
    fn without_circle(&self) -> anyhow::Result<()> {
        let mut waits = self.waits.clone();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|at| waits[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            for next in &self.followers[at] {
                waits[*next] -= 1;
                if waits[*next] == 0 {
                    ready.push(*next);
                }
            }
        }
        // What is left waits for a circle; going back from it one comes around.
        let Some(mut at) = waits.iter().position(|waits| *waits > 0) else { return Ok(()) };
        let before = |at: usize| {
            (0..waits.len()).find(|from| waits[*from] > 0 && self.followers[*from].contains(&at))
        };
        let mut way = Vec::new();
        while !way.contains(&at) {
            way.push(at);
            at = before(at).context("a rule that waits for one")?;
        }
        let begin = way.iter().position(|other| *other == at).unwrap_or(0);
        let name = |at: &usize| self.all[*at].target.as_str();
        let names: Vec<&str> = way[begin..].iter().chain([&at]).map(name).collect();
        bail!("a circle: {}", names.join(" needs "))
    }

    /// Whether a rule's target is there and no older than what it needs.
    pub(super) fn is_made(&self, at: usize, dir: &Path) -> bool {
        let age = |name: &str| dir.join(name).metadata().and_then(|about| about.modified()).ok();
        let Some(target) = age(&self.all[at].target) else { return false };
        self.all[at].needs.iter().all(|need| age(need).is_some_and(|need| need <= target))
    }
}
