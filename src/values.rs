//! Spec and overrides become the values of one release.
//!
//! ```text
//! valuesFrom ──▶ from::merge ───────────────────┐
//! spec of the CR ──────────────────────────────┤
//! generated texts ─────────────────────────────┤          ┌▶ file_json()       for `helm -f`
//! overrideValues ──▶ env::expand ──▶ Overrides ┴▶ Values ─┼▶ exact_integers()  for `helm --set`
//!                                                         ├▶ left_out()        for a warning
//!                                                         └▶ sourced()         for whoever shows something
//! ```
//!
//! Everything here is a pure function on JSON. This module does not read the environment (the lookup is passed in), does
//! not evaluate templates (it only says which overrides contain one), does not know the chart's defaults, and never puts a
//! value into an error message: overrides may be secrets.
//!
//! **Why two ways into Helm.** Helm reads every number of a `-f` file as float64, so a template that prints 1000000 writes
//! `1e+06`, and 2^53 + 1 loses its last digit. What comes by `--set` is an int64. So the file carries everything, and the
//! integers of the spec that a float would spoil are assigned again beside it. Those of other origins stay in the file, since
//! arguments can be listed by others. `null` stays in the file: it is how a release takes a
//! default of the chart away.
//!
//! **Overrides win over generated texts**, these over the spec, and the spec over what comes from ConfigMaps and Secrets. Their rules are in
//! [`overrides`], [`placed`] and [`from`], the key grammar in [`set`].

use serde_json::{Map, Value};

pub mod env;
pub mod exact;
pub mod from;
pub mod overrides;
pub mod placed;
pub mod set;

pub use exact::{LeftOut, Reason};
pub use from::{Sourced, TargetPath};
pub use overrides::{OverrideError, Overrides};
pub use placed::Placed;

use set::SetError;

/// Helm's YAML reader takes no key that is longer than this in the file, quotes and escapes included.
const KEY_CHARACTERS: usize = 1024;

/// Why a CR has no values. All of it is for the author of the CR, or of watches.yaml, to repair: a retry changes nothing.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ValuesError {
    #[error(
        "the spec is {found}, but chart values are an object: write the values as `key: value` entries under `spec`"
    )]
    SpecNotObject { found: &'static str },
    #[error(
        "the override `{key}` of watches.yaml does not fit the spec: {reason}; change the spec at that place, or the override"
    )]
    Override { key: String, reason: SetError },
    #[error(
        "the generated value for `{path}` does not fit the spec: {reason}; change the spec at that place, or `targetPath` in watches.yaml"
    )]
    Generated { path: String, reason: SetError },
    #[error(
        "a key in `{under}` is too long for Helm, which reads at most {KEY_CHARACTERS} characters: shorten the one that begins `{start}`"
    )]
    KeyTooLong { under: String, start: String },
    /// It is not quoted: it may be a secret.
    #[error(
        "a key in the values from ConfigMaps and Secrets is too long for Helm, which reads at most {KEY_CHARACTERS} characters: shorten it"
    )]
    SourcedKeyTooLong,
    #[error(
        "the values from ConfigMaps and Secrets have too many entries under long keys: shorten the keys, or refer to less"
    )]
    SourcedTooMuch,
}

/// The values of one release, complete: what the chart's defaults are merged under.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    json: Value,
    exact: exact::Exact,
    sourced: Vec<String>,
    overruled: Vec<String>,
}

impl Values {
    /// Puts the overrides over the spec. An absent or null spec is an empty one.
    pub fn new(spec: Option<&Value>, overrides: &Overrides) -> Result<Self, ValuesError> {
        Self::with_generated(spec, &[], overrides)
    }

    /// The same, with generated texts over the spec.
    pub fn with_generated(
        spec: Option<&Value>,
        generated: &[Placed],
        overrides: &Overrides,
    ) -> Result<Self, ValuesError> {
        Self::merged(Sourced::default(), spec.cloned(), generated, overrides)
    }

    /// The same, over what came from ConfigMaps and Secrets.
    pub fn merged(
        sources: Sourced,
        spec: Option<Value>,
        generated: &[Placed],
        overrides: &Overrides,
    ) -> Result<Self, ValuesError> {
        let spec = match spec {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(ValuesError::SpecNotObject { found: set::kind(&other) }),
        };
        let Sourced { all: sources, of_secrets } = sources;
        check_map(&sources, &mut Vec::new()).map_err(|_| ValuesError::SourcedKeyTooLong)?;
        let mut map = sources.clone();
        from::put_over(&mut map, spec.clone());
        let overruled = placed::put(&mut map, generated)?;
        overrides.apply(&mut map)?;
        let json = Value::Object(map);
        check_keys(&json, &mut Vec::new())?;
        let mut sourced = from::origins(&sources, &spec, &json).ok_or(ValuesError::SourcedTooMuch)?;
        sourced.extend(placed::pointers(generated, &json));
        let exact = exact::Exact::of(&json, &Value::Object(spec), &Value::Object(of_secrets));
        Ok(Values { json, exact, sourced, overruled })
    }

    /// The paths of generated texts that win over another value of the spec or of a ConfigMap or Secret.
    pub fn overruled(&self) -> &[String] {
        &self.overruled
    }

    /// Where the texts and numbers are that came from ConfigMaps and Secrets or were generated, as JSON pointers. They are shown to nobody.
    pub fn sourced(&self) -> &[String] {
        &self.sourced
    }

    /// The merged values, for the release record and for `helm get values`.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The text of the `-f` file. Equal values give equal text (keys are sorted), so it serves a digest as well.
    ///
    /// It is JSON, but Helm reads it as YAML: characters that YAML refuses or folds into a space are escaped, and it ends with
    /// a newline because some Helm 4 releases lose an unfinished last line (helm/helm#32506).
    pub fn file_json(&self) -> String {
        let mut text = String::new();
        for c in self.json.to_string().chars() {
            if spoiled_by_yaml(c) {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                text.push(c);
            }
        }
        text.push('\n');
        text
    }

    /// Arguments for `--set`, one flag each, that give the integers of the file back their digits.
    pub fn exact_integers(&self) -> &[String] {
        &self.exact.arguments
    }

    /// Integers that only the file carries, because `--set` has no way to say them. Each entry is worth a warning.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.exact.left_out
    }
}

/// In JSON text these occur inside strings only, so an escape is always in place.
fn spoiled_by_yaml(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Helm would say "did not find expected ',' or '}'", which helps nobody find the key.
fn check_keys<'a>(value: &'a Value, path: &mut Vec<set::StepRef<'a>>) -> Result<(), ValuesError> {
    match value {
        Value::Object(map) => check_map(map, path)?,
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                path.push(set::StepRef::Index(index));
                check_keys(inner, path)?;
                path.pop();
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_map<'a>(map: &'a Map<String, Value>, path: &mut Vec<set::StepRef<'a>>) -> Result<(), ValuesError> {
    for (key, inner) in map {
        if too_long(key) {
            path.insert(0, set::StepRef::Key("spec"));
            let start = key.chars().take(40).collect();
            return Err(ValuesError::KeyTooLong { under: set::abbreviate(&set::show(path)), start });
        }
        path.push(set::StepRef::Key(key));
        check_keys(inner, path)?;
        path.pop();
    }
    Ok(())
}

fn too_long(key: &str) -> bool {
    // Six characters (\u0000) is the most that one byte becomes, so most keys need no closer look.
    let written = |c| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' || spoiled_by_yaml(c) => 6,
        _ => 1,
    };
    key.len() * 6 + 2 > KEY_CHARACTERS && key.chars().map(written).sum::<usize>() + 2 > KEY_CHARACTERS
}

#[cfg(test)]
mod tests;
