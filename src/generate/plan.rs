//! Which generated values stay, are restored from a record, or are generated. Pure.
//!
//! A value stays as long as the Secret holds all of its parts, whatever the watch says of it by then: another length, or other DNS names, count
//! from the next rotation on. A value that the Secret lacks comes from the newest record, if that has it whole: what runs with it keeps it. A
//! certificate whose issuer is generated is generated too.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rotation::Rotation;
use super::{Generator, Part, Texts};

/// What the Secret holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// Without those that are empty.
    pub texts: Texts,
    /// The rotations that were done. None where the operator never wrote to the Secret: what is in it is as good as new.
    pub done: Option<Rotation>,
}

/// What becomes of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Keep,
    Restore(Texts),
    Generate,
    /// The same for a value that is there.
    Rotate,
}

#[derive(Debug, PartialEq)]
pub struct Plan<'a> {
    pub fates: Vec<(&'a Generator, Fate)>,
    /// The rotations that are done afterwards.
    pub done: Rotation,
}

impl<'a> Plan<'a> {
    pub fn of(generators: &'a [Generator], held: &Held, asked: &Rotation, record: Option<&Value>) -> Self {
        let fate = |it: &'a Generator| {
            let is_asked = held.done.as_ref().is_some_and(|done| asked.asks_for(&it.name, done));
            match (is_asked, is_whole(it, held), record.and_then(|record| recorded(it, record))) {
                (true, ..) => Fate::Rotate,
                (false, true, _) => Fate::Keep,
                (false, false, Some(texts)) => Fate::Restore(texts),
                (false, false, None) => Fate::Generate,
            }
        };
        let mut fates: Vec<_> = generators.iter().map(|it| (it, fate(it))).collect();
        let is_new = |fate: &Fate| matches!(fate, Fate::Generate | Fate::Rotate);
        let new: BTreeSet<&str> =
            fates.iter().filter(|(_, fate)| is_new(fate)).map(|(it, _)| it.name.as_str()).collect();
        for (it, fate) in &mut fates {
            if it.issuer().is_some_and(|issuer| new.contains(issuer)) && !is_new(fate) {
                *fate = if *fate == Fate::Keep { Fate::Rotate } else { Fate::Generate };
            }
        }
        // Issuers first: they sign what follows.
        fates.sort_by_key(|(it, _)| it.issuer().is_some());
        Plan { fates, done: asked.after(held.done.clone().unwrap_or_default()) }
    }

    /// The names of the values with a fate.
    pub fn names(&self, is_meant: impl Fn(&Fate) -> bool) -> Vec<&'a str> {
        self.fates.iter().filter(|(_, fate)| is_meant(fate)).map(|(it, _)| it.name.as_str()).collect()
    }

    /// Whether the Secret holds all that is wanted.
    pub fn keeps_all(&self, held: &Held) -> bool {
        held.done.as_ref() == Some(&self.done) && self.fates.iter().all(|(_, fate)| *fate == Fate::Keep)
    }

    /// Whether a value is missing that a record may have.
    pub fn lacks(&self) -> bool {
        self.fates.iter().any(|(_, fate)| *fate == Fate::Generate)
    }
}

fn is_whole(generator: &Generator, held: &Held) -> bool {
    generator.keys().iter().all(|key| held.texts.contains_key(key))
}

/// The texts of a value as the values of a record have them, if all its parts are there.
fn recorded(generator: &Generator, record: &Value) -> Option<Texts> {
    let own = generator.parts().iter().filter(|part| **part != Part::Authority);
    let text = |part: Part| {
        let paths = generator.paths.iter().filter(|(it, _)| *it == part);
        let mut texts = paths.filter_map(|(_, path)| record.pointer(&path.pointer())?.as_str());
        texts.find(|text| !text.is_empty())
    };
    own.map(|part| Some((generator.key(*part), text(*part)?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{certificate, text};
    use super::super::{Authority, Part};
    use super::*;

    fn held(texts: &[(&str, &str)], done: Option<Rotation>) -> Held {
        let texts = texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Held { texts, done }
    }

    fn fates(generators: &[Generator], held: &Held, asked: &Rotation, record: Option<&Value>) -> Vec<(String, Fate)> {
        let plan = Plan::of(generators, held, asked, record);
        plan.fates.into_iter().map(|(it, fate)| (it.name.clone(), fate)).collect()
    }

    fn one(held: &Held, asked: &Rotation, record: Option<&Value>) -> Fate {
        fates(&[text("a", "auth.a")], held, asked, record).remove(0).1
    }

    fn asked(text: &str) -> Rotation {
        Rotation { all: Some(text.to_owned()), ..Rotation::default() }
    }

    #[test]
    fn what_is_there_stays_and_what_is_missing_is_generated() {
        let (nothing, ours) = (Rotation::default(), Some(Rotation::default()));
        assert_eq!(one(&held(&[("a", "x")], ours.clone()), &nothing, None), Fate::Keep);
        assert_eq!(one(&held(&[], ours), &nothing, None), Fate::Generate);
        assert_eq!(one(&Held::default(), &nothing, None), Fate::Generate);
    }

    #[test]
    fn a_missing_value_is_restored_from_the_record_unless_that_has_none() {
        let restored = Fate::Restore([("a".to_owned(), "old".to_owned())].into());
        for (record, expected) in [
            (json!({"auth": {"a": "old"}}), restored),
            (json!({"auth": {"a": ""}}), Fate::Generate),
            (json!({"auth": {"a": 7}}), Fate::Generate),
            (json!({"auth": null}), Fate::Generate),
        ] {
            assert_eq!(one(&Held::default(), &Rotation::default(), Some(&record)), expected, "{record}");
        }
        let there = held(&[("a", "new")], Some(Rotation::default()));
        assert_eq!(one(&there, &Rotation::default(), Some(&json!({"auth": {"a": "old"}}))), Fate::Keep);
    }

    #[test]
    fn a_rotation_is_done_once_and_never_with_a_secret_that_is_new_to_the_operator() {
        let asked = asked("1");
        let there = |done| held(&[("a", "x")], done);
        assert_eq!(one(&there(Some(Rotation::default())), &asked, None), Fate::Rotate);
        assert_eq!(one(&there(Some(asked.clone())), &asked, None), Fate::Keep);
        assert_eq!(one(&there(None), &asked, None), Fate::Keep, "an adopted Secret");
        assert_eq!(one(&Held::default(), &asked, None), Fate::Generate);
        let record = json!({"auth": {"a": "old"}});
        assert!(matches!(one(&Held::default(), &asked, Some(&record)), Fate::Restore(_)), "it may be an old wish");
        let generators = [text("a", "auth.a")];
        assert_eq!(Plan::of(&generators, &Held::default(), &asked, None).done, asked);
        assert!(!Plan::of(&generators, &there(None), &asked, None).keeps_all(&there(None)), "it is to be noted");
    }

    #[test]
    fn a_certificate_follows_its_issuer_which_comes_first() {
        let paths = [(Part::Certificate, "tls.crt"), (Part::PrivateKey, "tls.key")];
        let generators =
            [certificate("tls", Authority::Generated("ca".into()), &paths), certificate("ca", Authority::Itself, &[])];
        let all = [("ca.crt", "c"), ("ca.key", "k"), ("tls.crt", "c"), ("tls.key", "k")];
        let ours = Some(Rotation::default());
        let of = |held: &Held, asked: &Rotation, record: Option<&Value>| {
            let fates = fates(&generators, held, asked, record);
            assert_eq!((fates[0].0.as_str(), fates[1].0.as_str()), ("ca", "tls"));
            (fates[0].1.clone(), fates[1].1.clone())
        };
        let nothing = Rotation::default();
        assert_eq!(of(&held(&all, ours.clone()), &nothing, None), (Fate::Keep, Fate::Keep));
        assert_eq!(of(&held(&all[..3], ours.clone()), &nothing, None), (Fate::Keep, Fate::Generate));
        let one = Rotation { each: [("ca".to_owned(), "1".to_owned())].into(), ..Rotation::default() };
        assert_eq!(of(&held(&all, ours.clone()), &one, None), (Fate::Rotate, Fate::Rotate));
        assert_eq!(of(&held(&all[2..], ours.clone()), &nothing, None), (Fate::Generate, Fate::Rotate));
        let record = json!({"tls": {"crt": "c", "key": "k"}});
        assert_eq!(of(&held(&[], ours.clone()), &nothing, Some(&record)), (Fate::Generate, Fate::Generate));
        let (ca, tls) = of(&held(&all[..2], ours), &nothing, Some(&record));
        assert!(ca == Fate::Keep && matches!(tls, Fate::Restore(_)));
    }
}
