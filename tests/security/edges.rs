//! The command line, logs, hooks and packaging leak and permit nothing.

mod bundle;
mod command_line;
mod output;
mod packaging;
mod values;
mod waking;
