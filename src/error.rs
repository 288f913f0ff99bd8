//! The category that every error of the library belongs to.
//!
//! One category feeds three outputs: the condition's reason, the event's reason and the metric's label. So a person who
//! sees one of them finds the others.

/// What kind of thing went wrong, as a condition's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The custom resource's spec cannot become chart values.
    InvalidValues,
    /// The chart on disk cannot be read.
    InvalidChart,
    /// helm could not be run or did not end in time.
    HelmFailed,
    /// The chart does not render with these values.
    RenderFailed,
    /// What the chart rendered is not a list of Kubernetes objects.
    InvalidManifest,
    /// The API server does not know a kind that the chart renders.
    UnknownKind,
    /// The API server refused an object.
    ApplyFailed,
    /// The API server refused because of missing permission.
    Forbidden,
    /// The API server could not be reached or failed.
    Unreachable,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Category::InvalidValues => "InvalidValues",
            Category::InvalidChart => "InvalidChart",
            Category::HelmFailed => "HelmFailed",
            Category::RenderFailed => "RenderFailed",
            Category::InvalidManifest => "InvalidManifest",
            Category::UnknownKind => "UnknownKind",
            Category::ApplyFailed => "ApplyFailed",
            Category::Forbidden => "Forbidden",
            Category::Unreachable => "Unreachable",
        }
    }

    /// Whether trying again without any change could help.
    pub fn is_permanent(self) -> bool {
        use Category::*;
        matches!(self, InvalidValues | InvalidChart | RenderFailed | InvalidManifest)
    }
}

/// The category of an API server's answer.
pub fn of_kube(error: &kube::Error) -> Category {
    match error {
        kube::Error::Api(status) if status.code == 401 || status.code == 403 => Category::Forbidden,
        kube::Error::Api(status) if status.code < 500 && status.code != 429 => Category::ApplyFailed,
        _ => Category::Unreachable,
    }
}

/// The sentence in an API server's answer, without the client's wrapping.
pub fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Service(source) => innermost(source.as_ref()),
        other => other.to_string(),
    }
}

/// The first line of the last cause in a chain, which is the one that says what happened.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string().lines().next().unwrap_or_default().to_owned()
}
