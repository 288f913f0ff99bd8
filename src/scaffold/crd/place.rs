//! Where in the values a schema stands, and what the chart's defaults already give there.
//!
//! Helm checks a schema against defaults and values merged. The API server sees only what a person wrote. So whatever a default may supply
//! must not be asked of the person.

use serde_json::Value;

use crate::scaffold::values::Subchart;

#[derive(Clone, Copy, Debug)]
pub(super) enum Given<'v> {
    /// What a person writes is all that there is.
    Nothing,
    /// It is merged with this.
    Default(&'v Value),
    /// It is merged with something that nobody knows here.
    Unknown,
}

impl<'v> Given<'v> {
    /// What is given for a field.
    pub fn field(self, name: &str) -> Given<'v> {
        match self {
            Given::Default(Value::Object(map)) => map.get(name).map_or(Given::Nothing, Given::Default),
            Given::Default(_) | Given::Nothing => Given::Nothing,
            Given::Unknown => Given::Unknown,
        }
    }

    /// What is given for fields of any name.
    pub fn any_field(self) -> Given<'v> {
        match self {
            Given::Default(Value::Object(map)) if !map.is_empty() => Given::Unknown,
            Given::Unknown => Given::Unknown,
            Given::Default(_) | Given::Nothing => Given::Nothing,
        }
    }

    /// Whether a field may be there although nobody wrote it.
    pub fn may_have(self, name: &str) -> bool {
        match self {
            Given::Default(Value::Object(map)) => map.contains_key(name),
            Given::Default(_) | Given::Nothing => false,
            Given::Unknown => true,
        }
    }

    /// How many fields may be there although nobody wrote them. None where nobody knows.
    pub fn size(self) -> Option<usize> {
        match self {
            Given::Default(Value::Object(map)) => Some(map.len()),
            Given::Default(_) | Given::Nothing => Some(0),
            Given::Unknown => None,
        }
    }

    pub fn value(self) -> Option<&'v Value> {
        match self {
            Given::Default(value) => Some(value),
            Given::Nothing | Given::Unknown => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Place<'v> {
    /// As in `spec.service.port`.
    pub at: String,
    pub given: Given<'v>,
    /// Lists are not merged: here null is null, and does not take a default away.
    pub is_in_list: bool,
    /// The values of a chart, which are always a map.
    pub is_chart: bool,
    /// The `global` of a subchart: helm puts the parent's over it, so what a person writes there decides nothing.
    pub is_global: bool,
    /// Those that have their values here.
    pub subcharts: &'v [Subchart],
    pub depth: usize,
}

impl<'v> Place<'v> {
    pub fn root(given: Given<'v>, subcharts: &'v [Subchart]) -> Self {
        let at = "spec".into();
        Place { at, given, is_in_list: false, is_chart: true, is_global: false, subcharts, depth: 0 }
    }

    pub fn field(&self, name: &str) -> Place<'v> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let at = match !name.is_empty() && name.chars().all(plain) {
            true => format!("{}.{name}", self.at),
            false => format!("{}[{name:?}]", self.at),
        };
        let subchart = self.subcharts.iter().find(|subchart| subchart.key == name);
        Place {
            is_chart: subchart.is_some(),
            is_global: self.is_chart && self.depth > 0 && name == "global",
            subcharts: subchart.map_or(&[], |subchart| &subchart.chart.subcharts),
            ..self.below(at, self.given.field(name))
        }
    }

    pub fn any_field(&self) -> Place<'v> {
        self.below(format!("{}.*", self.at), self.given.any_field())
    }

    pub fn item(&self) -> Place<'v> {
        Place { is_in_list: true, ..self.below(format!("{}[]", self.at), Given::Nothing) }
    }

    fn below(&self, at: String, given: Given<'v>) -> Place<'v> {
        let depth = self.depth + 1;
        Place { at, given, is_in_list: self.is_in_list, is_chart: false, is_global: false, subcharts: &[], depth }
    }
}
