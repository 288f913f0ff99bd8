//! From a chart to an operator project: the files that a person would otherwise write by hand.
//!
//! ```text
//! flags ──▶ source ──▶ chart ──▶ draft of the project ──▶ plan ──▶ files
//! (pure)    (helm)    (render)         (pure)            (pure)   (all or none)
//! ```
//!
//! Nothing here needs a cluster. At run time the operator uses only [`values`].
//!
//! | module | what is in it |
//! |---|---|
//! | [`api`] | the kind that a chart becomes: its group, version and names |
//! | [`naming`] | what things are called when nobody says so |
//! | [`init`] | a new project |
//! | [`create`] | one more API, or one more version of it |
//! | [`delete`] | one less |
//! | [`migrate`] | a project of operator-sdk becomes one of ours |
//! | [`source`] | where a chart comes from, and how it gets here |
//! | [`layout`] | the files of a project, and what they are called |
//! | [`template`] | templates of files |
//! | [`generated`] | the files that follow from a chart |
//! | [`values`] | what a chart says about its values |
//! | [`crd`] | the kind's definition, typed by those values |
//! | [`definitions`] | the definitions of a project, made anew from its charts |
//! | [`sample`] | a custom resource to begin with |
//! | [`yaml_text`] | YAML that Kubernetes reads as it was meant |
//! | [`rbac`] | the rights that the operator needs for its charts |
//! | [`project`] | the PROJECT file |
//! | [`entries`] | the entries of watches.yaml, as text |
//! | [`markers`] | lines that are put in at a marker |
//! | [`draft`] | a project as it shall be |
//! | [`plan`] | what a command writes, decided before anything is written |
//! | [`write`] | doing it, all or nothing |
//! | [`error`] | what can go wrong |

pub mod api;
pub mod crd;
pub mod create;
pub mod definitions;
pub mod delete;
pub mod draft;
pub mod entries;
pub mod error;
pub mod generated;
pub mod init;
pub mod layout;
pub mod markers;
pub mod migrate;
pub mod naming;
pub mod plan;
pub mod project;
pub mod rbac;
pub mod sample;
pub mod source;
pub mod template;
pub mod values;
pub mod write;
pub mod yaml_text;
