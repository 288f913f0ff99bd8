//! Chartwright turns Helm charts into Kubernetes APIs.
//!
//! A tour. One reconcile is a pipeline; each arrow is a function whose input and output are plain data:
//!
//! ```text
//! custom resource ──▶ values ──▶ render ──▶ manifest ──▶ plan ──▶ apply ──▶ status
//!   + watch           (pure)     (helm)      (pure)     (pure)    (API)     (pure)
//! ```
//!
//! Read [`reconcile`] first: it tells this story from top to bottom. Then the rooms:
//!
//! | module | what is in it |
//! |---|---|
//! | [`watches`] | watches.yaml: which kind is made by which chart |
//! | [`wishes`] | what a custom resource's annotations ask for |
//! | [`chart`] | a chart on disk |
//! | [`values`] | a spec and overrides become chart values |
//! | [`unknown`] | fields of a spec that the chart does not know |
//! | [`render`] | the helm process |
//! | [`yaml`] | YAML as Kubernetes reads it |
//! | [`manifest`] | helm's output becomes objects and hooks, in Helm's order |
//! | [`object`] | one Kubernetes object, as data |
//! | [`course`] | which way a release goes next |
//! | [`plan`] | what to do, as data |
//! | [`reach`] | what a release may write outside of its namespace |
//! | [`sensitive`] | release records, tokens and the operator's Secrets, which no chart may write or read |
//! | [`protected`] | the operator's own objects, which no release may touch |
//! | [`applyset`] | marks that say which objects belong together |
//! | [`ownership`] | whose is an object that exists already |
//! | [`adoption`] | the fact that an object was there before its release |
//! | [`preflight`] | asking the API server about everything before the first write |
//! | [`apply`] | doing it |
//! | [`drift`] | has somebody changed an object since, and what others may decide |
//! | [`hooks`] | what a chart runs at events of a release's life |
//! | [`prune`] | removing what is provably ours and no longer wanted |
//! | [`trust`] | what the operator believes although tenants can write where it is stored |
//! | [`uninstall`] | removing all of a release |
//! | [`release`] | Helm's record of it |
//! | [`health`] | is an object ready, and if not, why |
//! | [`status`] | what the custom resource says about itself |
//! | [`custom_resource`] | a custom resource as it is watched |
//! | [`identity`] | who it is, and what its release is called |
//! | [`reconcile`] | the story |
//! | [`preview`] | what the next reconcile would do, without doing it |
//! | [`printable`] | text that cannot steer a terminal |
//! | [`redaction`] | what must not be shown, taken out of whatever leaves |
//! | [`queue`] | which resource comes next |
//! | [`controller`] | which resource is reconciled when |
//! | [`children`] | watches on what was applied |
//! | [`listeners`] | who is told when an object changes |
//! | [`scalers`] | which workloads an autoscaler governs |
//! | [`sources`] | ConfigMaps and Secrets that values come from |
//! | [`packed`] | text that is held for long and read seldom |
//! | [`names`] | names that occur many times, kept once |
//! | [`namespaces`] | which namespaces are looked at |
//! | [`watching`] | watches that heal by themselves |
//! | [`definitions`] | the CustomResourceDefinitions that are there |
//! | [`discovery`] | the kinds that the API server knows |
//! | [`slots`] | limits on what is done at once, the urgent first |
//! | [`calls`] | the calls that are made on objects |
//! | [`account`] | calls in the name of a ServiceAccount |
//! | [`claims`] | who works on which object right now |
//! | [`leader`] | which of several operators works |
//! | [`cluster`] | the connection to the API server |
//! | [`error`] | the categories that every error belongs to |
//! | [`telemetry`] | logs, events, metrics, traces and probes |
//! | [`workplace`] | files that only this process may read |
//! | [`scaffold`] | from a chart to an operator project |
//! | [`cli`] | one file per command |

// Output goes through `cli::output`, which writes control characters out.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod account;
pub mod adoption;
pub mod apply;
pub mod applyset;
mod aside;
pub mod calls;
pub mod chart;
pub mod children;
pub mod claims;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod course;
pub mod custom_resource;
pub mod definitions;
pub mod discovery;
pub mod drift;
pub mod error;
pub mod health;
pub mod hooks;
pub mod identity;
pub mod leader;
pub mod listeners;
pub mod manifest;
pub mod names;
pub mod namespaces;
pub mod object;
pub mod ownership;
pub mod packed;
pub mod plan;
pub mod preflight;
pub mod preview;
pub mod printable;
pub mod protected;
pub mod prune;
pub mod queue;
pub mod reach;
pub mod reconcile;
pub mod redaction;
pub mod release;
pub mod render;
pub mod scaffold;
pub mod scalers;
pub mod sensitive;
pub mod slots;
pub mod sources;
pub mod status;
#[cfg(test)]
mod steps;
pub mod telemetry;
pub mod trust;
pub mod uninstall;
pub mod unknown;
pub mod values;
pub mod watches;
pub mod watching;
pub mod wishes;
pub mod workplace;
pub mod yaml;
