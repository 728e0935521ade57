//! What the console remembers: aliases, variables and which of them children get, options.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::console::wrong_args;

/// Options that PVM's console shows, with the values they begin with.
const OPTIONS: [(&str, i32); 23] = [
    ("PvmRoute", 1),
    ("PvmDebugMask", 0),
    ("PvmAutoErr", 1),
    ("PvmOutputTid", -1),
    ("PvmOutputCode", 0),
    ("PvmTraceTid", -1),
    ("PvmTraceCode", 0),
    ("PvmTraceBuffer", 0),
    ("PvmTraceOptions", 1),
    ("PvmFragSize", 4080),
    ("PvmResvTids", 1),
    ("PvmSelfOutputTid", -1),
    ("PvmSelfOutputCode", 0),
    ("PvmSelfTraceTid", -1),
    ("PvmSelfTraceCode", 0),
    ("PvmSelfTraceBuffer", 0),
    ("PvmSelfTraceOptions", 0),
    ("PvmShowTids", 1),
    ("PvmOutputContext", 0),
    ("PvmTraceContext", 0),
    ("PvmSelfOutputContext", 0),
    ("PvmSelfTraceContext", 0),
    ("PvmNoReset", 1),
];
const EXPORT: &str = "PVM_EXPORT";

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Settings {
    aliases: BTreeMap<String, Vec<String>>,
    variables: BTreeMap<String, String>,
    exported: Vec<String>,
    options: Vec<i32>,
}

impl Settings {
    /// With the variables of this process. Those that are no text are left out.
    pub(super) fn from_environment() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(text).collect())
    }

    fn new(mut variables: BTreeMap<String, String>) -> Self {
        let exported = variables.remove(EXPORT).unwrap_or_default();
        let exported = exported.split(':').filter(|name| !name.is_empty()).map(String::from);
        Self {
            aliases: BTreeMap::new(),
            exported: exported.collect(),
            variables,
            options: OPTIONS.map(|(_, value)| value).to_vec(),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The variables that children get.
    pub(super) fn for_children(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut env: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut put = |name: &str, value: &str| env.push((name.into(), value.into()));
        for name in self.exported.iter().map(String::as_str).chain(["PVM_PATH"]) {
            if let Some(value) = self.variable(name) {
                put(name, value);
            }
        }
        put(EXPORT, &self.exported.join(":"));
        env
    }

    /// A line's words with its first one's alias in its place, `limit` times at most.
    pub(super) fn unaliased(&self, mut words: Vec<String>, limit: usize) -> Vec<String> {
        for _ in 0..limit {
            let Some(alias) = words.first().and_then(|name| self.aliases.get(name)) else { break };
            let own = alias.first() == words.first();
            words.splice(..1, alias.iter().cloned());
            if own {
                break;
            }
        }
        words
    }

    pub(super) fn alias(&mut self, args: &[&str]) -> String {
        let line =
            |(name, words): (&String, &Vec<String>)| format!("{name}\t{}\n", words.join(" "));
        match args {
            [] => self.aliases.iter().map(line).collect(),
            [name] => self.aliases.get_key_value(*name).map(line).unwrap_or_default(),
            [name, words @ ..] => {
                let words = words.iter().map(|word| (*word).to_string()).collect();
                self.aliases.insert((*name).into(), words);
                String::new()
            }
        }
    }

    pub(super) fn unalias(&mut self, args: &[&str]) -> anyhow::Result<String> {
        if args.is_empty() {
            return wrong_args();
        }
        self.aliases.retain(|name, _| !args.contains(&name.as_str()));
        Ok(String::new())
    }

    pub(super) fn export(&mut self, args: &[&str]) -> String {
        if args.is_empty() {
            return format!("{EXPORT}={}\n", self.exported.join(":"));
        }
        for name in args {
            if !self.exported.iter().any(|there| there == name) {
                self.exported.push((*name).into());
            }
        }
        String::new()
    }

    pub(super) fn unexport(&mut self, args: &[&str]) -> String {
        self.exported.retain(|name| !args.contains(&name.as_str()));
        String::new()
    }

    pub(super) fn setenv(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let line = |(name, value): (&String, &String)| format!("{name}={value}\n");
        match args {
            [] => Ok(self.variables.iter().map(line).collect()),
            [name] => Ok(self.variable(name).map(|value| format!("{value}\n")).unwrap_or_default()),
            [name, value] => {
                self.variables.insert((*name).into(), (*value).into());
                Ok(String::new())
            }
            _ => wrong_args(),
        }
    }

    pub(super) fn getopt(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut out = String::new();
        match args {
            [] => {
                for ((name, _), value) in OPTIONS.iter().zip(&self.options) {
                    let _ = writeln!(out, "{name} Currently Set to {value}");
                }
            }
            [wanted] => match option(wanted) {
                Some(at) => {
                    let (name, value) = (OPTIONS[at].0, self.options[at]);
                    let _ = writeln!(out, "{name} Currently Set to {value}");
                }
                None => out = unknown(wanted),
            },
            _ => return wrong_args(),
        }
        Ok(out)
    }

    pub(super) fn setopt(&mut self, args: &[&str]) -> anyhow::Result<String> {
        let [wanted, value] = args else { return wrong_args() };
        let Some(at) = option(wanted) else { return Ok(unknown(wanted)) };
        let Ok(value) = value.parse::<i32>() else {
            anyhow::bail!("`{value}` is no whole number");
        };
        let old = std::mem::replace(&mut self.options[at], value);
        let name = OPTIONS[at].0;
        Ok(format!("{name} Changed from {old} to {value} (of the console alone: no effect here)\n"))
    }
}

fn option(wanted: &str) -> Option<usize> {
    OPTIONS.iter().position(|(name, _)| *name == wanted)
}

fn unknown(wanted: &str) -> String {
    format!("PVM Option \"{wanted}\" Unknown.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let variables = [("PVM_EXPORT", "A:C"), ("A", "1"), ("B", "2"), ("PVM_PATH", "/x")];
        Settings::new(variables.map(|(n, v)| (n.to_string(), v.to_string())).into())
    }

    #[test]
    fn children_get_what_is_exported() {
        let mut settings = settings();
        settings.export(&["B", "A"]);
        settings.unexport(&["A"]);
        settings.setenv(&["B", "3"]).unwrap();
        assert_eq!(settings.export(&[]), "PVM_EXPORT=C:B\n");
        let env = [("B", "3"), ("PVM_PATH", "/x"), ("PVM_EXPORT", "C:B")];
        assert_eq!(settings.for_children(), env.map(|(n, v)| (n.into(), v.into())));
    }

    #[test]
    fn aliases_stand_for_words_and_end() {
        let mut settings = settings();
        for alias in [&["p", "ps", "-a"][..], &["q", "p", "-l"], &["ps", "ps", "-x"], &["a", "b"]] {
            settings.alias(alias);
        }
        settings.alias(&["b", "a", "1"]);
        let words = |line: &str| {
            let words = line.split(' ').map(String::from).collect();
            settings.unaliased(words, 8).join(" ")
        };
        assert_eq!(words("q x"), "ps -x -a -l x");
        assert_eq!(words("other p"), "other p");
        assert_eq!(words("a"), "a 1 1 1 1");
        assert_eq!(settings.alias(&["p"]), "p\tps -a\n");
    }

    #[test]
    fn options_say_what_they_were() {
        let mut settings = settings();
        let said = settings.setopt(&["PvmRoute", "2"]).unwrap();
        assert!(said.starts_with("PvmRoute Changed from 1 to 2"), "{said}");
        assert_eq!(settings.getopt(&["PvmRoute"]).unwrap(), "PvmRoute Currently Set to 2\n");
        assert_eq!(settings.getopt(&["route"]).unwrap(), "PVM Option \"route\" Unknown.\n");
        assert_eq!(settings.getopt(&[]).unwrap().lines().count(), 23);
        assert!(settings.setopt(&["PvmRoute"]).is_err());
    }
}
