//! The category that every error of the library belongs to.
//!
//! One category feeds three outputs: the condition's reason, the event's reason and the metric's label. So a person who
//! sees one of them finds the others.

use std::time::Duration;

use crate::leader::guard;

/// What kind of thing went wrong, as a condition's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The custom resource's spec cannot become chart values.
    InvalidValues,
    /// Values come from a ConfigMap or a Secret that is not there.
    ValuesMissing,
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
    /// The API server says that an object is wrong.
    InvalidObject,
    /// An object would have to be made again for this change.
    ImmutableField,
    /// An object exists and belongs to something else.
    BelongsToAnother,
    /// The release would write outside of its namespace, and the watch does not allow that.
    NotAllowed,
    /// The chart rendered nothing where there was something.
    EmptyRender,
    /// The release record cannot be read, or is not ours.
    RecordUnusable,
    /// Nothing vouches for the release record.
    RecordUnproven,
    /// Another tool made the release, and the watch does not allow that it is adopted.
    AdoptionNotAllowed,
    /// The record of what is deployed went, and nothing tells what it held.
    RecordLost,
    /// The custom resource asks to go back to a revision that is not there.
    NoSuchRevision,
    /// A revision failed too often.
    RetriesExhausted,
    /// A revision did not become ready in time.
    NotReadyInTime,
    /// A hook of the chart failed, or did not end in time.
    HookFailed,
    /// A revision failed, and an earlier one was put in its place.
    RolledBack,
    /// The custom resource makes revisions too fast.
    TooManyRevisions,
    /// Nobody can tell what an annotation asks for, and a guess could do harm.
    InvalidAnnotation,
    /// An object needs something that is not there, a namespace for example.
    Missing,
    /// Nobody says in which namespace the release lives, or it would move to another.
    InvalidNamespace,
    /// The release would live in a namespace that the operator does not look at.
    OutOfReach,
    /// The namespace is being deleted, so nothing can be created in it any more.
    NamespaceTerminating,
    /// Something has to end first.
    Waiting,
    /// The API server refused an object for another reason.
    ApplyFailed,
    /// The API server refused because of missing permission.
    Forbidden,
    /// The API server could not be reached or failed.
    Unreachable,
    /// Another operator may be at work. It is not told on the custom resource: this operator has nothing to say about it.
    NotLeading,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Category::InvalidValues => "InvalidValues",
            Category::ValuesMissing => "ValuesMissing",
            Category::InvalidChart => "InvalidChart",
            Category::HelmFailed => "HelmFailed",
            Category::RenderFailed => "RenderFailed",
            Category::InvalidManifest => "InvalidManifest",
            Category::UnknownKind => "UnknownKind",
            Category::InvalidObject => "InvalidObject",
            Category::ImmutableField => "ImmutableField",
            Category::BelongsToAnother => "BelongsToAnother",
            Category::NotAllowed => "NotAllowed",
            Category::EmptyRender => "EmptyRender",
            Category::RecordUnusable => "RecordUnusable",
            Category::RecordUnproven => "RecordUnproven",
            Category::AdoptionNotAllowed => "AdoptionNotAllowed",
            Category::RecordLost => "RecordLost",
            Category::NoSuchRevision => "NoSuchRevision",
            Category::RetriesExhausted => "RetriesExhausted",
            Category::NotReadyInTime => "NotReadyInTime",
            Category::HookFailed => "HookFailed",
            Category::RolledBack => "RolledBack",
            Category::TooManyRevisions => "TooManyRevisions",
            Category::InvalidAnnotation => "InvalidAnnotation",
            Category::Missing => "Missing",
            Category::InvalidNamespace => "InvalidNamespace",
            Category::OutOfReach => "OutOfReach",
            Category::NamespaceTerminating => "NamespaceTerminating",
            Category::Waiting => "Waiting",
            Category::ApplyFailed => "ApplyFailed",
            Category::Forbidden => "Forbidden",
            Category::Unreachable => "Unreachable",
            Category::NotLeading => "NotLeading",
        }
    }

    /// When to try again although nothing has changed.
    pub fn retry(self) -> Retry {
        use Category::*;
        match self {
            InvalidValues | InvalidChart | RenderFailed | InvalidManifest | EmptyRender | NotAllowed => Retry::Never,
            NoSuchRevision | RetriesExhausted | NotReadyInTime | RolledBack | InvalidAnnotation | OutOfReach
            | InvalidNamespace => Retry::Never,
            // Somebody has to do something about these, or the cluster gets better; they are looked at from time to time.
            InvalidObject | ImmutableField | UnknownKind | BelongsToAnother | RecordUnusable | RecordUnproven
            | AdoptionNotAllowed | RecordLost | Forbidden | Missing | ValuesMissing | HookFailed
            | NamespaceTerminating => Retry::Seldom,
            // The error itself says when.
            TooManyRevisions => Retry::Seldom,
            HelmFailed | ApplyFailed | Unreachable | NotLeading => Retry::Often,
            Waiting => Retry::Soon,
        }
    }

    /// Whether a failed attempt to apply a revision says something about the revision. Where the API server cannot be reached,
    /// or something has to end first, it does not.
    pub fn counts_as_failure(self) -> bool {
        use Category::*;
        !matches!(self, Unreachable | Waiting | HelmFailed | NotLeading | TooManyRevisions | NamespaceTerminating)
    }

    /// Whether nothing is wrong, and no person has to look.
    pub fn is_expected(self) -> bool {
        matches!(self, Category::Waiting | Category::NamespaceTerminating)
    }

    /// Whether the cluster may be repaired so that the same revision goes in: a permission is given, a CRD installed.
    pub fn may_be_cured(self) -> bool {
        use Category::*;
        matches!(self, UnknownKind | BelongsToAnother | Forbidden | Missing)
    }

    /// Whether a person has to change the spec or the chart.
    pub fn needs_a_change(self) -> bool {
        self.retry() == Retry::Never || matches!(self, Category::InvalidObject | Category::ImmutableField)
    }
}

/// How eagerly something that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Only a change can help.
    Never,
    Seldom,
    Often,
    Soon,
}

/// How the API server says that something cannot be changed, beside the usual words.
const IMMUTABLE: [&str; 6] = [
    "Forbidden: updates to",
    "is immutable after",
    "field can not be less than",
    "cannot change roleRef",
    "pod updates may not change",
    "may not be changed in an update",
];

impl Retry {
    /// How long the next try waits at least.
    pub fn pause(self) -> Option<Duration> {
        match self {
            Retry::Never => None,
            Retry::Seldom => Some(Duration::from_secs(20)),
            Retry::Often => Some(Duration::from_secs(1)),
            // It ends by itself, and somebody waits for it.
            Retry::Soon => Some(Duration::from_millis(500)),
        }
    }
}

/// The category of an API server's answer.
pub fn of_kube(error: &kube::Error) -> Category {
    if guard::is_refusal(error) {
        return Category::NotLeading;
    }
    let kube::Error::Api(status) = error else { return Category::Unreachable };
    if is_namespace_terminating(error) {
        return Category::NamespaceTerminating;
    }
    match status.code {
        // The check of owner references learns of a new kind a few seconds after everybody else.
        403 if status.message.contains("cannot find RESTMapping") => Category::Waiting,
        401 | 403 => Category::Forbidden,
        404 if is_unknown_kind(&status.message) => Category::UnknownKind,
        404 => Category::Missing,
        // The server says `field is immutable`; a Job's template says it in a longer sentence that ends so too.
        422 if status.message.contains("field is immutable") => Category::ImmutableField,
        // Strategies of updates that Kubernetes forbids for StatefulSets and claims come as Forbidden inside a 422.
        422 if IMMUTABLE.iter().any(|words| status.message.contains(words)) => Category::ImmutableField,
        400 | 413 | 422 => Category::InvalidObject,
        // A value of the wrong type in a server-side apply comes as an internal error.
        500 if status.message.contains("failed to create typed patch object") => Category::InvalidObject,
        // So does a Secret whose data is not base64.
        500 if status.message.contains("illegal base64 data") => Category::InvalidObject,
        429 | 500.. => Category::Unreachable,
        _ => Category::ApplyFailed,
    }
}

/// Whether an object was refused because its namespace is being deleted.
pub fn is_namespace_terminating(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// What the API server says of a path that it does not serve, such as that of a kind whose CRD went.
fn is_unknown_kind(message: &str) -> bool {
    message.trim() == "404 page not found"
}

/// The sentence in an API server's answer, without the client's wrapping.
pub fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if is_unknown_kind(&status.message) => {
            "the API server does not know this kind any more; install what brings it, or check the chart".to_owned()
        }
        kube::Error::Api(status) if status.message.trim_start().starts_with('<') => {
            format!("something before the API server answered {} with a page of HTML", status.code)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn category(code: u16, message: &str) -> Category {
        of_kube(&kube::Error::Api(Box::new(kube::core::Status::failure(message, "x").with_code(code))))
    }

    #[test]
    fn a_page_of_html_is_not_quoted() {
        let page = kube::core::Status::failure("<html><body>502 Bad Gateway</body></html>", "x").with_code(502);
        let said = sentence(&kube::Error::Api(Box::new(page)));
        assert_eq!(said, "something before the API server answered 502 with a page of HTML");
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_no_missing_permission() {
        let answer = serde_json::json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "services \"web\" is forbidden: unable to create new content in namespace shop because it is being terminated",
            "details": {"name": "web", "kind": "services", "causes": [
                {"reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": "metadata.namespace"}]}});
        let answer: kube::core::Status = serde_json::from_value(answer).unwrap();
        let category = of_kube(&kube::Error::Api(Box::new(answer)));
        assert_eq!(category, Category::NamespaceTerminating);
        assert!(category.is_expected() && !category.counts_as_failure() && category.retry() == Retry::Seldom);
    }

    #[test]
    fn an_answer_is_judged_by_code_and_words() {
        assert_eq!(category(403, "pods is forbidden: User \"a\" cannot list"), Category::Forbidden);
        let new_kind =
            "forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion g/v1";
        assert_eq!(category(403, new_kind), Category::Waiting);
        assert_eq!(category(404, "namespaces \"x\" not found"), Category::Missing);
        assert_eq!(category(422, "spec.selector: Invalid value: field is immutable"), Category::ImmutableField);
        assert_eq!(category(422, "spec.ports[0]: Invalid value"), Category::InvalidObject);
        assert_eq!(category(500, "failed to create typed patch object (x)"), Category::InvalidObject);
        assert_eq!(category(500, "etcd is away"), Category::Unreachable);
        assert_eq!(category(429, "slow down"), Category::Unreachable);
    }
}
