//! What is under way, put into each line: a span's fields are those of every line that is written inside of it.

use std::fmt::Debug;
use std::io::Write;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Format, Line};

/// What `tracing` calls the sentence of an event.
const MESSAGE: &str = "message";
/// Fields for others than the log.
const NOT_TOLD: &str = "otel.";

/// Writes lines to standard error.
pub struct Lines {
    format: Format,
}

impl Lines {
    pub fn new(format: Format) -> Self {
        Lines { format }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let mut all = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                fields.0.iter().for_each(|(name, value)| all.set(name, value.clone()));
            }
        }
        let message = own.take(MESSAGE);
        own.0.into_iter().for_each(|(name, value)| all.set(name, value));
        let line = Line {
            at: Timestamp::now(),
            level: name(event.metadata().level()),
            logger: &logger(event.metadata().target()),
            message: message.as_ref().and_then(Value::as_str).unwrap_or_default(),
            fields: &all.0,
        };
        // In one piece, so that lines do not mix. Nobody is left to be told of an error.
        let _ = std::io::stderr().lock().write_all(self.format.write(&line).as_bytes());
    }
}

fn name(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// `chartwright::reconcile::heal` is `reconcile.heal`.
fn logger(target: &str) -> String {
    target.strip_prefix("chartwright::").unwrap_or(target).replace("::", ".")
}

/// In the order in which they came.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }

    fn hear(&mut self, field: &Field, value: Value) {
        if !field.name().starts_with(NOT_TOLD) {
            self.set(field.name(), value);
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.hear(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.hear(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.hear(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.hear(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.hear(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.hear(field, format!("{value:?}").into());
    }
}
