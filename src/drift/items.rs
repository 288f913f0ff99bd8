//! Items of a list, and the steps by which managers name them: `k:{"containerPort":80,"protocol":"TCP"}`.
//!
//! Pure. Each step is parsed once, and each item is looked up, so that the work grows with both and not with their product.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The schema says which keys name the items of a list, so there is one set of them, or two where it changed. Anything else is made up.
const MOST_SETS: usize = 4;
const MOST_KEYS: usize = 6;

/// The steps that managers use for the items of one list.
#[derive(Default)]
pub struct Steps<'a> {
    steps: Vec<&'a str>,
    /// The sets of keys that occur.
    sets: Vec<Vec<String>>,
    /// The first step with these values of some keys of a set. A key that an item does not have has its default, which only the API
    /// server knows: `protocol: TCP`.
    by_values: HashMap<(usize, String), usize>,
}

impl<'a> Steps<'a> {
    pub fn of(steps: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Steps::default();
        steps.for_each(|step| all.add(step));
        all
    }

    fn add(&mut self, step: &'a str) {
        #[cfg(test)]
        crate::steps::count();
        let Some(keys) = keys_of(step).filter(|keys| (1..=MOST_KEYS).contains(&keys.len())) else { return };
        let Some(set) = self.set(&keys) else { return };
        let number = self.steps.len();
        self.steps.push(step);
        for chosen in 1_usize..1 << keys.len() {
            let some = keys.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, pair)| pair);
            self.by_values.entry((set, values(some))).or_insert(number);
        }
    }

    fn set(&mut self, keys: &Map<String, Value>) -> Option<usize> {
        let known = self.sets.iter().position(|set| set.iter().eq(keys.keys()));
        if known.is_none() && self.sets.len() < MOST_SETS {
            self.sets.push(keys.keys().cloned().collect());
            return Some(self.sets.len() - 1);
        }
        known
    }

    /// The step that names an item. None in a list that is one field as a whole.
    pub fn find(&self, item: &Value) -> Option<&'a str> {
        #[cfg(test)]
        crate::steps::count();
        let item = item.as_object()?;
        let numbers = self.sets.iter().enumerate().filter_map(|(number, set)| {
            let present: Vec<_> = set.iter().filter_map(|key| item.get_key_value(key)).collect();
            self.by_values.get(&(number, values(present.into_iter()))).copied()
        });
        self.steps.get(numbers.min()?).copied()
    }
}

/// The keys of a step of this form.
pub fn keys_of(step: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(step.strip_prefix("k:")?).ok()
}

fn values<'a>(pairs: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    serde_json::to_string(&pairs.collect::<Vec<_>>()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_is_named_by_the_keys_that_it_has() {
        let all = [
            r#"k:{"port":53,"protocol":"TCP"}"#,
            r#"k:{"port":53,"protocol":"UDP"}"#,
            r#"k:{"name":"x"}"#,
            r#"v:"y""#,
            "k:no",
        ];
        let steps = Steps::of(all.into_iter());
        for (item, expected) in [
            (json!({"port": 53, "protocol": "UDP", "name": "x"}), Some(1)),
            (json!({"port": 53, "more": 1}), Some(0)),
            (json!({"port": 54, "protocol": "UDP"}), None),
            (json!({"port": 54, "name": "x"}), Some(2)),
            (json!({"protocol": "UDP"}), Some(1)),
            (json!({"more": 1}), None),
            (json!(1), None),
        ] {
            assert_eq!(steps.find(&item), expected.map(|at: usize| all[at]), "{item}");
        }
    }

    #[test]
    fn keys_that_are_made_up_are_not_followed() {
        let many: Vec<String> = (0..1000).map(|it| format!("k:{{\"key{it}\":1}}")).collect();
        let steps = Steps::of(many.iter().map(String::as_str));
        assert_eq!(steps.sets.len(), MOST_SETS);
        let long: String = (0..40).map(|it| format!("\"k{it}\":1,")).collect();
        let long = format!("k:{{{}}}", long.trim_end_matches(','));
        assert!(Steps::of([long.as_str()].into_iter()).by_values.is_empty());
    }
}
