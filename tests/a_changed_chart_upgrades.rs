//! Charts that change on disk while the operator runs.
