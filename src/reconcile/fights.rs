//! Repairs of the same object again and again: somebody keeps undoing them.
//!
//! The first repairs are free. Then each waits longer than the one before, and the custom resource says who fights about what.
//! After a calm while it is forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::drift::Lost;
use crate::object::{ObjectId, ObjectKey};

/// The repairs of one custom resource's objects.
#[derive(Default)]
pub struct Fights(HashMap<ObjectKey, Fight>);

struct Fight {
    id: ObjectId,
    count: u32,
    last: Instant,
    /// None if it was gone.
    lost: Option<Vec<Lost>>,
}

/// Repairs that nobody is made to wait for.
const FREE: u32 = 5;
const LONGEST: Duration = Duration::from_secs(300);
/// A fight is over when nothing happened for this long after the next repair would have been due.
const CALM: Duration = Duration::from_secs(60);
/// How many fields of an object are named.
const NAMED: usize = 3;

impl Fight {
    fn pause(&self) -> Duration {
        match self.count.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(over) => Duration::from_secs(1).saturating_mul(1 << over.min(9)).min(LONGEST),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.last + self.pause() + CALM
    }
}

impl Fights {
    /// How long the next repair of an object has to wait.
    pub fn wait(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let fight = self.0.get(key).filter(|fight| !fight.is_over(now))?;
        (fight.last + fight.pause()).checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Notes a repair, and what had to be taken back from whom.
    pub fn note(&mut self, id: &ObjectId, lost: Option<Vec<Lost>>, now: Instant) {
        self.0.retain(|_, fight| !fight.is_over(now));
        let new = || Fight { id: id.clone(), count: 0, last: now, lost: None };
        let fight = self.0.entry(id.key()).or_insert_with(new);
        fight.count = fight.count.saturating_add(1);
        fight.last = now;
        fight.lost = lost;
    }

    /// What is fought about, one sentence per object.
    pub fn told(&mut self, now: Instant) -> Vec<String> {
        self.0.retain(|_, fight| !fight.is_over(now));
        let fought = self.0.values().filter(|fight| fight.count >= FREE && !fight.is_over(now));
        let mut sentences: Vec<String> = fought.map(sentence).collect();
        sentences.sort();
        sentences
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When to look again: a repair may be due, and later there is less to tell.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let fought = self.0.values().filter(|fight| fight.count >= FREE && !fight.is_over(now));
        let due = fought.map(|fight| {
            let (repair, calm) = (fight.last + fight.pause(), fight.last + fight.pause() + CALM);
            if repair > now { repair } else { calm }
        });
        due.map(|due| due.saturating_duration_since(now)).min()
    }
}

fn sentence(fight: &Fight) -> String {
    let Some(lost) = &fight.lost else {
        return format!("{} is deleted again and again; it is made again ever more seldom", fight.id);
    };
    let mut named: Vec<String> = lost.iter().take(NAMED).map(named).collect();
    match lost.len() {
        0 => named.push("values under the field manager `helm`, perhaps by helm itself".to_owned()),
        count if count > NAMED => named.push(format!("{} more fields", count - NAMED)),
        _ => {}
    }
    format!(
        "{}: somebody keeps changing what the chart sets, and it is set back ever more seldom: {}",
        fight.id,
        named.join(", ")
    )
}

fn named(lost: &Lost) -> String {
    match &lost.manager {
        Some(manager) => format!("{} (by {manager})", lost.field),
        None => format!("{} (removed)", lost.field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ObjectId {
        ObjectId {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: None,
            name: "web".into(),
        }
    }

    fn lost() -> Option<Vec<Lost>> {
        Some(vec![Lost { field: "spec.replicas".into(), manager: Some("scaler".into()) }])
    }

    #[test]
    fn the_first_repairs_are_free_and_then_pauses_grow_until_it_is_calm() {
        let start = Instant::now();
        let (mut fights, key) = (Fights::default(), id().key());
        for _ in 1..FREE {
            fights.note(&id(), lost(), start);
            assert_eq!(fights.wait(&key, start), None);
            assert!(fights.told(start).is_empty());
        }
        fights.note(&id(), lost(), start);
        assert_eq!(fights.wait(&key, start), Some(Duration::from_secs(1)));
        fights.note(&id(), lost(), start);
        assert_eq!(fights.wait(&key, start), Some(Duration::from_secs(2)));
        assert!(fights.told(start)[0].ends_with("spec.replicas (by scaler)"));
        assert_eq!(fights.due_in(start), Some(Duration::from_secs(2)));
        assert_eq!(fights.due_in(start + Duration::from_secs(2)), Some(Duration::from_secs(60)));
        let later = start + Duration::from_secs(63);
        assert!(fights.told(later).is_empty() && fights.wait(&key, later).is_none());
        fights.note(&id(), lost(), later);
        assert_eq!(fights.wait(&key, later), None, "it begins anew");
        fights.told(later + Duration::from_secs(63));
        assert!(fights.is_empty(), "what is over is not remembered");
    }
}
