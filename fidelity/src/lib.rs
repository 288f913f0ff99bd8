//! The proof that Chartwright deploys a chart as Helm does.
//!
//! ```text
//!            ┌─ helm ────────▶ API server ─▶ settle ─▶ snapshot ─▶ normal form ─┐
//! a case ────┤                                                                 ├─▶ compare ─▶ report
//!            └─ Chartwright ─▶ API server ─▶ settle ─▶ snapshot ─▶ normal form ─┘
//!                        install ▶ upgrade ▶ uninstall
//! ```
//! Both sides have a control plane of their own, and the same names. After each phase every object that came, changed or
//! went is compared, field by field, and the order in which hooks ran. What may differ is a table in docs/fidelity.md, which the
//! program reads. What is of the cluster and never of a chart is left aside in [`snapshot`] and [`normal`]. The proof never repairs or retries a side: what it sees once settled is what it compares.
//!
//! | module | what is in it |
//! |---|---|
//! | [`case`] | a chart with its values, and what happens to it |
//! | [`chart`] | copies of charts: another version, packed, unpacked |
//! | [`plane`] | a control plane for one side, and clean ground on it |
//! | [`helm`] | helm's side |
//! | [`chartwright`] | our side |
//! | [`snapshot`] | everything in an API server, once it has settled |
//! | [`normal`] | objects without what a cluster draws by itself |
//! | [`record`] | release records, decoded |
//! | [`runs`] | the hooks that ran, in their order |
//! | [`rendered`] | what the chart had in each revision |
//! | [`random`] | what a chart draws anew in each render |
//! | [`object`] | names, paths, and where two values differ |
//! | [`allowed`] | the tables of docs/fidelity.md |
//! | [`compare`] | two API servers, object by object |
//! | [`prove`] | the story, from the ground to the end |
//! | [`report`] | what was found |
//! | [`table`] | the same for a person |

pub mod allowed;
pub mod case;
pub mod chart;
pub mod chartwright;
pub mod compare;
pub mod helm;
pub mod normal;
pub mod object;
pub mod plane;
pub mod prove;
pub mod random;
pub mod record;
pub mod rendered;
pub mod report;
pub mod runs;
pub mod snapshot;
pub mod table;

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;

/// What is done to a release, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Install,
    Upgrade,
    Uninstall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum HelmVersion {
    #[serde(rename = "3")]
    Three,
    #[serde(rename = "4")]
    Four,
}

/// What a side made of a wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Done,
    Refused(String),
}

/// What all proofs of a run share.
pub struct Options {
    /// The operator's program.
    pub operator: PathBuf,
    pub allowed: allowed::Allowed,
    /// Say on standard error what is being done.
    pub progress: bool,
    /// Where the snapshots are written to, for a person who looks for a reason.
    pub dump: Option<PathBuf>,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Install, Phase::Upgrade, Phase::Uninstall];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Install => "install",
            Phase::Upgrade => "upgrade",
            Phase::Uninstall => "uninstall",
        }
    }

    /// # Errors
    /// There is no such phase.
    pub fn parse(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|phase| phase.name() == name) {
            Some(phase) => Ok(phase),
            None => bail!("there is no phase {name:?}"),
        }
    }
}

impl HelmVersion {
    pub const ALL: [HelmVersion; 2] = [HelmVersion::Three, HelmVersion::Four];

    pub fn name(self) -> &'static str {
        match self {
            HelmVersion::Three => "3",
            HelmVersion::Four => "4",
        }
    }

    /// # Errors
    /// It is neither 3 nor 4.
    pub fn parse(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|version| version.name() == name) {
            Some(version) => Ok(version),
            None => bail!("there is no helm {name:?}; it is 3 or 4"),
        }
    }

    /// The lab's program.
    pub fn program(self) -> PathBuf {
        lab::tools_dir().join(format!("helm{}", self.name()))
    }
}

impl Options {
    /// The operator, and the list of docs/fidelity.md.
    ///
    /// # Errors
    /// The document cannot be read.
    pub fn new(operator: PathBuf) -> Result<Self> {
        let document = std::fs::read_to_string(document())?;
        Ok(Options { operator, allowed: allowed::Allowed::parse(&document)?, progress: false, dump: None })
    }

    pub(crate) fn say(&self, what: &str) {
        if self.progress {
            eprintln!("{what}");
        }
    }
}

/// Where the tables are.
pub fn document() -> PathBuf {
    lab::checkout().join("docs/fidelity.md")
}
