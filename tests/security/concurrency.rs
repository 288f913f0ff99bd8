//! What one custom resource makes the operator wait for, repeat or delete costs nobody else anything, and never data.

mod away;
mod clocks;
mod cycles;
mod pace;
mod replacement;
mod waits;

const FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
