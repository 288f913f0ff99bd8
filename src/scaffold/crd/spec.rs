//! The schema of a spec: a chart's values, with those of its subcharts.

use super::Options;
use super::document::Document;
use super::inferred::inferred;
use super::place::{Given, Place};
use super::rules::note;
use super::schema::{Rules, Schema};
use super::shape::Shapes;
use super::types::Types;
use crate::scaffold::values::{ChartValues, Subchart};

/// What a spec may be, and what could not be said about it.
pub(super) fn spec(chart: &ChartValues, options: &Options, notes: &mut Vec<String>) -> Schema {
    let given = if options.values_from { Given::Unknown } else { Given::Default(&chart.defaults) };
    let mut schema = values(chart, &Place::root(given, &chart.subcharts), options, notes);
    schema.description = format!("The values of the chart {}. What is left out has the chart's default.", chart.name);
    schema.types = Some(Types::OBJECT);
    schema.is_nullable = false;
    schema
}

fn values(chart: &ChartValues, place: &Place<'_>, options: &Options, notes: &mut Vec<String>) -> Schema {
    let mut schema = match &chart.schema {
        Some(schema) => {
            let document = Document::new(schema);
            Shapes::new(&document, options, notes).root(place.given, place, &chart.fields)
        }
        None => Schema { is_open: true, ..inferred(Some(&chart.defaults), Some(&chart.fields), options) },
    };
    for subchart in &chart.subcharts {
        take_in(&mut schema, subchart, place, options, notes);
    }
    schema
}

fn take_in(schema: &mut Schema, subchart: &Subchart, above: &Place<'_>, options: &Options, notes: &mut Vec<String>) {
    let place = &above.field(&subchart.key);
    let mut unheard = vec![];
    let heard = if subchart.is_conditional { &mut unheard } else { &mut *notes };
    let mut values = values(&subchart.chart, place, options, heard);
    if subchart.is_conditional {
        if subchart.chart.schema.is_some() {
            note(
                notes,
                place,
                "the subchart's schema is shown but not enforced, since helm does not look at it while the subchart is off",
            );
        }
        values = values.relaxed();
    }
    let is_listed = values.property("global").is_some();
    if !is_listed && !values.is_open {
        list_fields(&mut values, place, notes);
        values.properties.push(("global".into(), Schema::open()));
    }
    list_fields(schema, above, notes);
    let own = schema.properties.iter_mut().find(|(name, _)| *name == subchart.key);
    let joined = match own {
        Some((_, own)) => {
            *own = std::mem::take(own).and(values);
            own
        }
        None => {
            schema.properties.push((subchart.key.clone(), values));
            // One was pushed just now.
            let Some((_, own)) = schema.properties.last_mut() else { return };
            own
        }
    };
    // helm takes nothing but a map, whether the subchart is on or off. A null takes away what the parent's own values have, and no more.
    joined.types = Some(Types::OBJECT);
    joined.is_nullable = subchart.is_in_values;
    // helm puts the parent's over it, so what is missing or wrong here may be there and right.
    if let Some((_, global)) = joined.properties.iter_mut().find(|(name, _)| name == "global") {
        let before = std::mem::take(global);
        *global = before.clone().relaxed();
        if *global != before {
            note(
                notes,
                &place.field("global"),
                "is shown but not checked, since helm puts the parent's values over it",
            );
        }
    }
    let about = &subchart.chart;
    let is_silent = joined.description.is_empty() || joined.description.starts_with("Type: ");
    if is_silent {
        joined.description = format!("The values of the subchart {}.", about.name);
    }
}

/// Fields of any name and listed ones exclude each other.
fn list_fields(schema: &mut Schema, place: &Place<'_>, notes: &mut Vec<String>) {
    if schema.additional.take().is_some() && !schema.is_open {
        schema.is_open = true;
        note(notes, place, "what fields of other names have to be is not checked");
    }
}

impl Schema {
    /// Names and descriptions without any check.
    pub fn relaxed(self) -> Schema {
        let inside = |schema: Box<Schema>| Box::new(schema.relaxed());
        Schema {
            description: self.description,
            properties: self.properties.into_iter().map(|(name, schema)| (name, schema.relaxed())).collect(),
            items: self.items.map(inside),
            additional: self.additional.map(inside),
            ..Schema::open()
        }
    }

    /// What both accept, or a little more.
    pub fn and(mut self, other: Schema) -> Schema {
        if self.description.is_empty() || self.description.starts_with("Type: ") {
            self.description = other.description;
        }
        self.types = match (self.types, other.types) {
            (Some(own), Some(other)) => Some(own & other).filter(|both| !both.without_null().is_none()).or(Some(own)),
            (own, other) => own.or(other),
        };
        self.is_nullable &= other.is_nullable;
        for (name, schema) in other.properties {
            match self.properties.iter_mut().find(|(own, _)| *own == name) {
                Some((_, own)) => *own = std::mem::take(own).and(schema),
                None => self.properties.push((name, schema)),
            }
        }
        self.additional = match (self.additional, other.additional) {
            (Some(own), Some(other)) => Some(Box::new(own.and(*other))),
            (own, other) => own.or(other),
        };
        self.items = match (self.items, other.items) {
            (Some(own), Some(other)) => Some(Box::new(own.and(*other))),
            (own, other) => own.or(other),
        };
        self.is_open = match self.additional.is_some() && !self.properties.is_empty() {
            true => {
                self.additional = None;
                true
            }
            false => self.is_open && other.is_open,
        };
        let mut rules: Rules = self.rules;
        rules.and(other.rules);
        self.rules = rules;
        self
    }
}
