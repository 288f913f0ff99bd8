//! What a person reads to know what happened, and what machines ask: logs, events, metrics, traces and probes.

pub mod events;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod serve;
pub mod subject;
pub mod traces;
