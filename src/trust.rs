//! What the operator believes although tenants can write where it is stored.
//!
//! Release records are Secrets in the tenants' namespaces. The operator signs them with a key in its own namespace, and keeps a ledger there
//! of the newest revision of each release, so that neither a forged nor a replayed record leads to a write.
//!
//! | module | what is in it |
//! |---|---|
//! | [`key`] | the signing key and its public half |
//! | [`keeper`] | the key's Secret stays as it is while the operator works |
//! | [`ledger`] | the newest revision of each release |
//! | [`window`] | the time during which an administrator has unsigned records signed |
//! | [`followed`] | one Secret, followed |

mod followed;
pub mod keeper;
pub mod key;
pub mod ledger;
pub mod window;

use std::sync::Arc;

use crate::calls::Calls;
use crate::error::{Category, is_away, of_kube, sentence};
use crate::leader::Leading;
use crate::release::Signer;
use crate::release::proof::KeyError;

pub use keeper::Keeper;
pub use ledger::{Entry, Ledger};
pub use window::Window;

/// The name under which the operator writes its own Secrets.
const MANAGER: &str = "chartwright";

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "cannot {verb} the Secret {secret}: {}; the operator needs the verbs get, list, watch, create, patch and delete on secrets in its own namespace",
        sentence(.error)
    )]
    Api { verb: &'static str, secret: String, error: Box<kube::Error> },
    #[error(
        "the Secret {secret} cannot be used: {error}; restore it from a backup, or delete it, restart the operator, and run `chartwright trust open`"
    )]
    Key { secret: String, error: KeyError },
    #[error("revision {noted} is noted in the ledger, so revision {revision} is not made; this is tried again")]
    Older { noted: u32, revision: u32 },
    #[error(
        "the release has {objects} objects outside of its namespace, and their names take {size} bytes; the ledger notes at most {limit} bytes of them for a release; split the release, or have it make fewer"
    )]
    TooMuchOutside { objects: usize, size: usize, limit: usize },
    #[error("the Secret {secret} changes while it is written; this is tried again")]
    Contended { secret: String },
    #[error(
        "the Secret {secret} holds another key than the one that this operator signs with, so it ends; the next start uses the key of the Secret"
    )]
    OtherKey { secret: String },
    #[error("cannot make a signing key: the system has no source of random numbers")]
    NoRandomNumbers,
    #[error(
        "the Secret {secret} cannot be read: {reason}; restore it from a backup, or delete it and run `chartwright trust open`"
    )]
    Ledger { secret: String, reason: String },
}

impl TrustError {
    /// Whether trying again may help, without anybody's doing.
    pub fn is_away(&self) -> bool {
        matches!(self, TrustError::Api { error, .. } if is_away(error))
    }

    pub fn category(&self) -> Category {
        match self {
            TrustError::Api { error, .. } => of_kube(error),
            TrustError::Older { .. } | TrustError::Contended { .. } | TrustError::OtherKey { .. } => Category::Waiting,
            TrustError::TooMuchOutside { .. } => Category::InvalidManifest,
            TrustError::Key { .. } | TrustError::NoRandomNumbers | TrustError::Ledger { .. } => {
                Category::RecordUnusable
            }
        }
    }
}

/// Everything that decides what is believed.
#[derive(Clone)]
pub struct Trust {
    pub signer: Signer,
    pub keeper: Keeper,
    pub ledger: Ledger,
    pub window: Window,
}

impl Trust {
    /// Reads the key, or makes one where there is none. Of several operators, the one that works makes it.
    pub async fn load(calls: &Calls, namespace: &str, leading: Leading) -> Result<Self, TrustError> {
        let loaded = key::load(calls, namespace, leading.clone()).await?;
        let public = loaded.key.public();
        Ok(Trust {
            signer: Signer::Sign(Arc::new(loaded.key)),
            keeper: Keeper::new(calls.clone(), namespace, leading.clone(), loaded.pkcs8, public),
            ledger: Ledger::new(calls.clone(), namespace),
            window: Window::new(calls.clone(), namespace, leading),
        })
    }
}

fn failed(verb: &'static str, namespace: &str, name: &str) -> impl FnOnce(kube::Error) -> TrustError {
    let secret = format!("{namespace}/{name}");
    move |error| TrustError::Api { verb, secret, error: Box::new(error) }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
