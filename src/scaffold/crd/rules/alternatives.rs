//! Alternatives: which of several schemas holds.

use serde_json::{Map, Value};

use super::super::schema::Rules;
use super::super::types::Types;
use super::words::required;
use super::{Conditions, Mode, Subject, Told};

/// Words that say something about values of every type.
const GENERIC: [&str; 9] =
    ["enum", "const", "not", "anyOf", "oneOf", "if", "dependencies", "dependentSchemas", "dependentRequired"];

impl<'a> Conditions<'_, 'a> {
    fn branches(&mut self, branches: &'a [Value], subject: &Subject<'_, '_>, mode: Mode) -> Vec<Told> {
        let (shape, types, place) = (subject.shape, subject.types, subject.place);
        branches.iter().map(|branch| self.narrowed(branch, shape, types, place, mode)).collect()
    }

    pub(super) fn any_of(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let branches = value.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(told) = self.by_type(branches, subject) {
            return told;
        }
        let told = self.branches(branches, subject, subject.mode);
        self.any(told, subject)
    }

    fn any(&mut self, branches: Vec<Told>, subject: &Subject<'_, '_>) -> Told {
        if branches.iter().any(Told::is_always) {
            return Told::nothing();
        }
        let is_exact = branches.iter().all(|branch| branch.is_exact);
        let mut possible: Vec<Rules> =
            branches.into_iter().filter(|branch| !branch.is_never).map(|branch| branch.rules).collect();
        possible.dedup();
        match possible.len() {
            0 => Told { is_exact, ..Told::never() },
            _ if possible.iter().any(Rules::is_empty) => {
                self.note(subject, "which of several alternatives holds is not checked");
                Told::inexact()
            }
            1 => Told { is_exact, ..Told::rules(possible.remove(0)) },
            _ => Told { is_exact, ..Told::rules(Rules::any_of(possible)) },
        }
    }

    /// Where each alternative is of another type, its conditions say nothing about values of the other types. So all may hold at once.
    fn by_type(&mut self, branches: &'a [Value], subject: &Subject<'_, '_>) -> Option<Told> {
        let mut seen = Types::NONE;
        for branch in branches {
            let types = self.document.types(branch, 0).without_null();
            let parts = self.document.parts(branch, &[]);
            let is_plain = parts.missing.is_empty()
                && parts.maps.iter().all(|map| !GENERIC.iter().any(|word| map.contains_key(*word)));
            if !is_plain || !(types & seen).is_none() {
                return None;
            }
            seen = seen | types;
        }
        let mut told = Told { is_exact: seen.has(subject.types.without_null()), ..Told::nothing() };
        for branch in branches {
            let types = self.document.types(branch, 0) & subject.types;
            if types.without_null().is_none() {
                continue;
            }
            told.and(self.narrowed(branch, subject.shape, types, subject.place, subject.mode));
        }
        Some(told)
    }

    pub(super) fn one_of(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let branches = value.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(told) = self.by_type(branches, subject) {
            return told;
        }
        let mut exact = self.branches(branches, subject, Mode::Exact);
        if exact.iter().all(|branch| branch.is_exact) {
            let possible: Vec<usize> = (0..exact.len()).filter(|at| !exact[*at].is_never).collect();
            return match possible.as_slice() {
                [] => Told::never(),
                // It stands alone, where an exact one would refuse null.
                [one] => {
                    let (shape, types, place) = (subject.shape, subject.types, subject.place);
                    self.narrowed(&branches[*one], shape, types, place, subject.mode)
                }
                _ => {
                    exact.retain(|branch| !branch.is_never);
                    let one_of = exact.into_iter().map(|branch| branch.rules).collect();
                    Told::rules(Rules { one_of, ..Rules::default() })
                }
            };
        }
        self.note(subject, "that no more than one of several alternatives holds is not checked");
        let told = self.branches(branches, subject, subject.mode);
        Told { is_exact: false, ..self.any(told, subject) }
    }

    pub(super) fn not(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        let (shape, types, place) = (subject.shape, subject.types, subject.place);
        let told = self.narrowed(value, shape, types, place, Mode::Exact);
        match () {
            () if !told.is_exact => {
                self.note(subject, "`not` is not checked: the CRD cannot say all of it, or defaults decide");
                Told::inexact()
            }
            () if told.is_never => Told::nothing(),
            () if told.is_always() => Told::never(),
            () => Told::rules(Rules::not(told.rules)),
        }
    }

    /// `if a then b else c` is: not a, or b; and: a, or c.
    pub(super) fn conditional(
        &mut self,
        condition: &'a Value,
        map: &'a Map<String, Value>,
        subject: &Subject<'_, '_>,
    ) -> Told {
        let (then, other) = (map.get("then"), map.get("else"));
        if then.is_none() && other.is_none() {
            return Told::nothing();
        }
        let (shape, types, place, mode) = (subject.shape, subject.types, subject.place, subject.mode);
        let exact = self.narrowed(condition, shape, types, place, Mode::Exact);
        if !exact.is_exact {
            self.note(subject, "`if` is not checked: the CRD cannot say all of it, or defaults decide");
            return Told::inexact();
        }
        let mut told = Told::nothing();
        if let Some(then) = then {
            let otherwise = match () {
                () if exact.is_never => Told::nothing(),
                () if exact.is_always() => Told::never(),
                () => Told::rules(Rules::not(exact.rules.clone())),
            };
            let then = self.narrowed(then, shape, types, place, mode);
            told.and(self.any(vec![otherwise, then], subject));
        }
        if let Some(other) = other {
            let condition = self.narrowed(condition, shape, types, place, mode);
            let other = self.narrowed(other, shape, types, place, mode);
            told.and(self.any(vec![condition, other], subject));
        }
        told
    }

    /// `a` asks for other fields, or for a whole schema.
    pub(super) fn dependent(&mut self, value: &'a Value, subject: &Subject<'_, '_>) -> Told {
        // It holds for maps only, but that a field is not there can be said of anything.
        match subject.types.without_null() {
            types if !types.has(Types::OBJECT) => return Told::nothing(),
            Types::OBJECT => {}
            _ => {
                self.note(subject, "what one field asks of others is not checked, since it need not be a map");
                return Told::inexact();
            }
        }
        let mut told = Told::nothing();
        for (name, wanted) in value.as_object().into_iter().flatten() {
            if subject.place.given.may_have(name) {
                self.note(subject, &format!("what `{name}` asks for is not checked, since it may be there by default"));
                told.and(Told::inexact());
                continue;
            }
            let absent = Told::rules(Rules::not(Rules::simple("required", vec![Value::from(name.as_str())])));
            let wanted = match wanted.is_array() {
                true => required(wanted, subject),
                false => self.narrowed(wanted, subject.shape, subject.types, subject.place, subject.mode),
            };
            told.and(self.any(vec![absent, wanted], subject));
        }
        told
    }
}
