//! Calls in the name of a ServiceAccount, so that the API server itself says what a release may do.
//!
//! The account is in the namespace of the release. Objects are read and written as it; what the operator keeps for itself (records,
//! the custom resource's status, events, watches, the contents of crds/) stays the operator's. Groups are not sent: the API
//! server adds those that every account has, and nobody need be allowed to impersonate groups.
//!
//! All accounts share the operator's connections. Only a header differs.

use http::{HeaderName, HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The accounts of one name, one in each namespace.
pub struct Accounts {
    name: String,
    operator: Client,
}

impl Accounts {
    pub fn new(name: &str, operator: Client) -> Self {
        Accounts { name: name.to_owned(), operator }
    }

    /// A client of the account in this namespace, for one turn. It is a header and a queue: to keep one for each namespace that
    /// ever was would cost more.
    pub fn of(&self, namespace: &str) -> Client {
        acting_as(&self.operator, &user(namespace, &self.name))
    }
}

/// The account as the API server calls it.
pub fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// A client whose calls count as those of this user. The operator must not be impersonating somebody itself: its own headers would
/// win.
fn acting_as(operator: &Client, user: &str) -> Client {
    let namespace = operator.default_namespace().to_owned();
    let (operator, user) = (operator.clone(), user.to_owned());
    let act = move |mut request: Request<Body>| {
        let (operator, user) = (operator.clone(), user.clone());
        async move {
            // Names of namespaces and accounts always are one. If not, the call must not be made as the operator.
            let user = HeaderValue::from_str(&user).map_err(|error| kube::Error::Service(error.into()))?;
            request.headers_mut().insert(IMPERSONATE_USER, user);
            operator.send(request).await
        }
    };
    Client::new(service_fn(act), namespace)
}
