//! Keeping a definition below the API server's limits.
//!
//! Schemas that refer to Kubernetes' own types become large when every reference is written out. First long descriptions go, then what
//! is far below the top; it stays open.

use super::schema::Schema;
use super::wording::cut_at;

/// Of a whole definition, as JSON. etcd takes 1.5 MiB, and managedFields need their part.
pub(super) const MOST: usize = 1_400_000;
/// Of one spec.
const MOST_OF_A_SPEC: usize = 650_000;

/// What is tried, one after the other: the longest description, and the deepest level that is shown.
const STEPS: [(usize, usize); 10] =
    [(300, 40), (120, 40), (60, 40), (0, 40), (60, 10), (60, 6), (60, 4), (60, 3), (60, 2), (60, 1)];

pub(super) fn fit(spec: &mut Schema, notes: &mut Vec<String>) {
    let size = |spec: &Schema| serde_json::to_vec(&spec.yaml()).map_or(0, |text| text.len());
    if size(spec) <= MOST_OF_A_SPEC {
        return;
    }
    let whole = spec.clone();
    for (longest, deepest) in STEPS {
        // Each step begins with all that there is.
        *spec = whole.clone();
        shrink(spec, longest, deepest, deepest < STEPS[0].1);
        if size(spec) <= MOST_OF_A_SPEC {
            notes.push(match deepest < STEPS[0].1 {
                false => format!("spec: the chart's values are many, so descriptions are cut at {longest} letters"),
                true => format!(
                    "spec: the chart's values are many, so what is more than {deepest} levels deep is neither shown nor checked"
                ),
            });
            return;
        }
    }
}

fn shrink(schema: &mut Schema, longest: usize, deepest: usize, is_cut: bool) {
    schema.description = cut_at(&schema.description, longest);
    if deepest == 0 {
        let description = std::mem::take(&mut schema.description);
        let is_nullable = schema.is_nullable;
        let is_plain = schema.properties.is_empty() && schema.items.is_none() && schema.additional.is_none();
        match is_plain {
            true => schema.description = description,
            false => *schema = Schema { description, is_nullable, ..Schema::open() },
        }
        return;
    }
    // A condition may name what is cut below.
    if is_cut {
        schema.rules.forget_fields();
    }
    schema.properties.iter_mut().for_each(|(_, schema)| shrink(schema, longest, deepest - 1, is_cut));
    for inner in [&mut schema.items, &mut schema.additional].into_iter().flatten() {
        shrink(inner, longest, deepest - 1, is_cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::crd::schema::Rules;
    use crate::scaffold::crd::types::Types;

    fn tree(width: usize, depth: usize) -> Schema {
        let leaf = Schema { types: Some(Types::STRING), description: "word ".repeat(100), ..Schema::default() };
        if depth == 0 {
            return leaf;
        }
        let properties = (0..width).map(|at| (format!("field{at}"), tree(width, depth - 1))).collect();
        let mut rules = Rules::default();
        rules.properties.insert("field0".into(), Rules::simple("minLength", 1));
        let rules = Rules::any_of(vec![rules]);
        Schema { types: Some(Types::OBJECT), properties, rules, ..Schema::default() }
    }

    #[test]
    fn what_is_large_is_cut_and_told() {
        let (mut small, mut notes) = (tree(3, 2), vec![]);
        let before = small.clone();
        fit(&mut small, &mut notes);
        assert_eq!((small, notes.len()), (before, 0));
        let mut large = tree(7, 5);
        fit(&mut large, &mut notes);
        let size = serde_json::to_vec(&large.yaml()).unwrap().len();
        assert!(size <= MOST_OF_A_SPEC, "{size}");
        assert!(notes[0].contains("are many"), "{notes:?}");
        shrink(&mut large, 60, 2, true);
        assert!(large.rules.is_empty(), "what a condition names may be gone");
    }
}
