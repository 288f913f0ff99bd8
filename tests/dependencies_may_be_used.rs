//! Licences and sources of all dependencies, held against deny.toml without cargo-deny.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// All packages of Cargo.lock that are not of this repository. Cargo fetches those that no build on this machine has needed, which are for
/// other platforms.
fn dependencies() -> Vec<Value> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version=1", "--locked"]).current_dir(lab::checkout());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter(|package| !package["source"].is_null()).cloned().collect()
}

/// A list of deny.toml, one item a line.
fn listed(opening: &str) -> Vec<String> {
    let text = std::fs::read_to_string(lab::checkout().join("deny.toml")).unwrap();
    let lines = text.lines().skip_while(|line| *line != opening).skip(1).take_while(|line| *line != "]");
    let lines: Vec<String> = lines.map(|line| line.trim().trim_end_matches(',').to_owned()).collect();
    assert!(!lines.is_empty(), "deny.toml has no list {opening:?}");
    lines
}

/// Whether a licence expression can be met with these licences. It knows `OR`, `AND`, brackets, and the old `/`.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    let parts = |text: &str, word: &str| -> Vec<String> {
        let (mut depth, mut parts) = (0, vec![String::new()]);
        for token in text.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
            depth += i32::from(token == "(") - i32::from(token == ")");
            match depth == 0 && token == word {
                true => parts.push(String::new()),
                false => parts.last_mut().unwrap().push_str(&format!("{token} ")),
            }
        }
        parts.iter().map(|part| part.trim().to_owned()).collect()
    };
    for (word, needs_all) in [("OR", false), ("AND", true)] {
        let parts = parts(&expression, word);
        if parts.len() > 1 {
            let mut met = parts.iter().map(|part| is_met(part, allowed));
            return if needs_all { met.all(|it| it) } else { met.any(|it| it) };
        }
    }
    match expression.trim().strip_prefix('(').and_then(|rest| rest.trim().strip_suffix(')')) {
        Some(inner) => is_met(inner, allowed),
        None => allowed.contains(expression.trim()),
    }
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for met in [
        "MIT",
        "GPL-3.0 OR MIT",
        "GPL-3.0/MIT",
        "(GPL-3.0 OR MIT) AND ISC",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_met(met, &allowed), "{met}");
    }
    for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT AND GPL-3.0) OR GPL-2.0", "", "MIT AND (GPL-3.0 OR Zlib)"] {
        assert!(!is_met(unmet, &allowed), "{unmet}");
    }
}

#[test]
fn every_licence_is_on_the_list() {
    let allowed: BTreeSet<String> = listed("allow = [").iter().map(|item| item.trim_matches('"').to_owned()).collect();
    let clarified = listed("clarify = [");
    for package in dependencies() {
        let name = package["name"].as_str().unwrap();
        let is_clarified = clarified.iter().any(|line| line.contains(&format!("crate = {name:?}")));
        let licence = package["license"].as_str().unwrap_or_default();
        let is_fine = is_met(licence, &allowed) || (licence.is_empty() && is_clarified);
        assert!(is_fine, "the licence of {name} is {licence:?}; deny.toml does not allow it");
    }
}

#[test]
fn no_dependency_is_banned() {
    let banned: Vec<String> = listed("deny = [")
        .iter()
        .map(|line| line.trim_start_matches("{ crate = \"").trim_end_matches("\" }").to_owned())
        .collect();
    assert!(banned.contains(&"openssl-sys".to_owned()), "{banned:?}");
    for package in dependencies() {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.iter().any(|banned| banned == name), "{name} is banned by deny.toml");
    }
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let sources: BTreeSet<String> = dependencies().iter().map(|it| it["source"].as_str().unwrap().to_owned()).collect();
    assert_eq!(sources.len(), 1, "{sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("registry+")), "{sources:?}");
}
