//! Traces by OpenTelemetry, for programs that were built with the feature `otel`: a span for each reconcile, and one for each stage
//! of it.
//!
//! They are sent by OTLP over HTTP where the environment names an endpoint, with the variables of OpenTelemetry's own standard, and
//! nowhere otherwise. Spans hold who the custom resource is and how it went; never values, manifests or messages.

#[cfg(feature = "otel")]
mod export;

#[cfg(feature = "otel")]
pub use export::{flush, layer, problem};

/// Nothing is traced.
#[cfg(not(feature = "otel"))]
pub fn layer() -> tracing_subscriber::layer::Identity {
    tracing_subscriber::layer::Identity::new()
}

/// Nothing is to be sent.
#[cfg(not(feature = "otel"))]
pub fn problem() -> Option<&'static str> {
    None
}

/// Nothing is left to be sent.
#[cfg(not(feature = "otel"))]
pub async fn flush() {}
