//! Logs and events: what a person reads to know what happened.

pub mod events;
pub mod logs;
