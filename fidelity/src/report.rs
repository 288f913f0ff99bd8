//! What a proof found, as data.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::object::{Id, Unequal, pointer};
use crate::{HelmVersion, Phase};

/// One phase compared.
#[derive(Debug, Default, Serialize)]
pub struct Compared {
    /// Those that were looked at.
    pub objects: usize,
    /// Fields that chance makes and that have one shape.
    pub random: usize,
    /// How many fields each row of the list allows, by its reason.
    pub allowed: BTreeMap<String, usize>,
    pub differences: Vec<Difference>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Difference {
    pub object: String,
    /// Empty where one side lacks the whole object.
    pub field: String,
    pub helm: Option<String>,
    pub chartwright: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct PhaseReport {
    pub phase: Phase,
    /// Why helm did not do it.
    pub helm_refuses: Option<String>,
    pub chartwright_refuses: Option<String>,
    /// Whether the case says that both sides do what they did, where they did the same.
    pub is_expected: bool,
    pub compared: Compared,
    pub seconds: f64,
}

/// One chart with one version of helm.
#[derive(Debug, Serialize)]
pub struct Report {
    pub case: String,
    pub helm: HelmVersion,
    pub chart: String,
    /// What a reader should know: what could not be done or was not waited for.
    pub notes: Vec<String>,
    pub phases: Vec<PhaseReport>,
    pub seconds: f64,
    /// Why the proof could not be brought to its end.
    pub error: Option<String>,
}

impl Difference {
    pub fn new(id: &Id, found: &Unequal<'_>) -> Self {
        let is_whole = found.path.is_empty();
        let said = |value: Option<&Value>| match value {
            Some(_) if is_whole => Some("there".to_owned()),
            value => value.map(ToString::to_string),
        };
        Difference {
            object: id.to_string(),
            field: pointer(&found.path),
            helm: said(found.left),
            chartwright: said(found.right),
        }
    }
}

impl PhaseReport {
    /// What both sides did alike, and as the case says: do it, or refuse it.
    pub fn agrees(&self) -> bool {
        self.helm_refuses.is_some() == self.chartwright_refuses.is_some() && self.is_expected
    }

    pub fn both_refuse(&self) -> bool {
        self.helm_refuses.is_some() && self.chartwright_refuses.is_some()
    }

    pub fn is_equal(&self) -> bool {
        self.agrees() && self.compared.differences.is_empty()
    }
}

impl Report {
    pub fn is_equal(&self) -> bool {
        self.error.is_none() && self.phases.iter().all(PhaseReport::is_equal)
    }

    /// The phase that neither side did.
    pub fn refused(&self) -> Option<Phase> {
        self.phases.iter().find(|phase| phase.both_refuse()).map(|phase| phase.phase)
    }

    pub fn differences(&self) -> usize {
        let of_phase = |phase: &PhaseReport| phase.compared.differences.len() + usize::from(!phase.agrees());
        self.phases.iter().map(of_phase).sum()
    }
}
