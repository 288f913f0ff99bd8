//! Whether the releases of a kind may adopt what exists already. Pure.
//!
//! The author of a custom resource asks for an adoption with an annotation. That is not enough: an adoption changes, and may
//! later delete, something that the author did not create. So the administrator consents for the whole kind.

/// What the releases of a kind may adopt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    #[default]
    None,
    /// Objects in the namespace of the release that belong to nobody, where the custom resource asks for it.
    Objects,
    /// The same, and whole Helm releases.
    Releases,
}

impl Adopt {
    /// Reads the value of the field in watches.yaml.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Adopt::None),
            "objects" => Some(Adopt::Objects),
            "releases" => Some(Adopt::Releases),
            _ => None,
        }
    }

    /// The value in watches.yaml.
    pub fn as_str(self) -> &'static str {
        match self {
            Adopt::None => "none",
            Adopt::Objects => "objects",
            Adopt::Releases => "releases",
        }
    }

    pub fn allows_objects(self) -> bool {
        matches!(self, Adopt::Objects | Adopt::Releases)
    }

    pub fn allows_releases(self) -> bool {
        self == Adopt::Releases
    }
}
