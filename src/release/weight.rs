//! How much memory a record takes. Pure.

use serde_json::Value;

use super::own::{Applied, Own};
use super::{HookRecord, Release, Text};
use crate::object::ObjectId;

/// Lists of values take many times the memory of their text.
const MOST_WORKING: usize = 48 * 1024 * 1024;
/// What an allocation takes beside its content.
const ALLOCATION: usize = 16;

/// How much memory a record takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub held: usize,
    /// How much more while somebody works with its objects.
    pub working: usize,
}

impl Weight {
    pub fn of(release: &Release) -> Self {
        let Release {
            name, namespace, description, chart, defaults, config, manifest, notes, hooks, own, claimed, ..
        } = release;
        let texts = [manifest, notes].into_iter().chain(hooks.iter().map(|hook| &hook.manifest));
        let working = texts.clone().map(Text::read_len).sum::<usize>();
        let held = size_of::<Release>()
            + [name, namespace, description].into_iter().map(of_string).sum::<usize>()
            + texts.map(Text::held_len).sum::<usize>()
            + hooks.capacity() * size_of::<HookRecord>()
            + hooks.iter().map(of_hook).sum::<usize>()
            + of_json(chart)
            + defaults.held_len()
            + config.held_len()
            + release.stored.held_len()
            // The summary of the revision has a copy of it.
            + 2 * own.as_ref().map_or(0, of_own)
            + claimed.as_deref().map_or(0, of_own);
        Weight { held, working: working.min(MOST_WORKING) }
    }
}

fn of_hook(hook: &HookRecord) -> usize {
    let lists = [&hook.events, &hook.delete_policies, &hook.output_log_policies];
    [&hook.name, &hook.kind, &hook.path].into_iter().map(of_string).sum::<usize>()
        + lists.into_iter().map(of_strings).sum::<usize>()
}

fn of_own(own: &Own) -> usize {
    let Own { digest, owner, objects, kept, sourced, hooks, shipped, .. } = own;
    let ids = kept.iter().chain(shipped);
    size_of::<Own>()
        + [digest, &owner.group, &owner.kind, &owner.name, &owner.uid].into_iter().map(of_string).sum::<usize>()
        + objects.capacity() * size_of::<Applied>()
        + objects.iter().map(of_applied).sum::<usize>()
        + (kept.capacity() + shipped.capacity()) * size_of::<ObjectId>()
        + ids.map(of_id).sum::<usize>()
        + of_strings(sourced)
        + hooks.capacity() * size_of::<crate::hooks::Mark>()
        + own.hold.as_ref().map_or(0, |hold| of_string(&hold.digest) + hold.failed.as_ref().map_or(0, of_string))
        + own.trouble.as_ref().map_or(0, |trouble| of_string(&trouble.reason) + of_string(&trouble.message))
}

fn of_applied(applied: &Applied) -> usize {
    of_id(&applied.id) + applied.uid.as_ref().map_or(0, of_string) + of_strings(&applied.overruled)
}

fn of_id(id: &ObjectId) -> usize {
    let ObjectId { group, version, kind, namespace, name } = id;
    [group, version, kind, name].into_iter().chain(namespace).map(of_string).sum()
}

fn of_strings(list: &Vec<String>) -> usize {
    list.capacity() * size_of::<String>() + list.iter().map(of_string).sum::<usize>()
}

/// What is beside the string itself.
fn of_string(text: &String) -> usize {
    match text.capacity() {
        0 => 0,
        bytes => bytes + ALLOCATION,
    }
}

/// With the value itself, and some free room in each list and map.
fn of_json(value: &Value) -> usize {
    let beside = match value {
        Value::String(text) => of_string(text),
        Value::Array(items) => ALLOCATION + 2 * items.iter().map(of_json).sum::<usize>(),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| size_of::<String>() + of_string(key) + of_json(value);
            ALLOCATION + 2 * map.iter().map(entry).sum::<usize>()
        }
        _ => 0,
    };
    size_of::<Value>() + beside
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::codec::tests::release;
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn held(change: impl FnOnce(&mut Release)) -> usize {
        let mut release = release();
        change(&mut release);
        Weight::of(&release).held
    }

    #[test]
    fn every_part_that_can_be_large_has_a_weight() {
        let many = || vec![String::new(); 200_000];
        let own = || Own { sourced: many(), ..Own::default() };
        let hook = |change: fn(&mut HookRecord, Vec<String>)| {
            held(|it| {
                let mut hook = HookRecord::default();
                change(&mut hook, vec![String::new(); 200_000]);
                it.hooks.push(hook);
            })
        };
        let objects = |count: usize| {
            let (empty, name) = (String::new(), "a".repeat(40));
            let id = ObjectId { group: empty.clone(), version: empty.clone(), kind: empty, namespace: None, name };
            Own { objects: vec![Applied::new(id, None); count], ..Own::default() }
        };
        let cases = [
            ("description", held(|it| it.description = "x".repeat(4 * MIB))),
            ("name", held(|it| it.name = "x".repeat(4 * MIB))),
            ("events", hook(|hook, list| hook.events = list)),
            ("delete policies", hook(|hook, list| hook.delete_policies = list)),
            ("log policies", hook(|hook, list| hook.output_log_policies = list)),
            ("hooks", held(|it| it.hooks = vec![HookRecord::default(); 30_000])),
            ("chart", held(|it| it.chart = json!({"keywords": vec![json!(1); 100_000]}))),
            ("own", held(|it| it.own = Some(own()))),
            ("claimed", held(|it| it.claimed = Some(Box::new(own())))),
            ("objects", held(|it| it.claimed = Some(Box::new(objects(20_000))))),
        ];
        for (part, held) in cases {
            assert!(held > 3 * MIB, "{part}: {held}");
        }
        assert!(held(|_| {}) < 16 * 1024, "{}", held(|_| {}));
    }
}
