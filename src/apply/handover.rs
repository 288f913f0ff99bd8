//! Objects that Helm 3 or operator-sdk made are handed over to us.
//!
//! They wrote by update, and are listed as the owners of what they wrote. Our apply would own it beside them, and a field that
//! the chart drops would stay for ever, since somebody else still has it. So their entries become our apply entry, as
//! `kubectl apply --server-side` does it with those of older kubectls. What others own stays theirs.
//!
//! Only `managedFields` is written: no field of the object changes, so no generation does, and the API server notes nobody as
//! the writer. It is done for objects that are ours, which is asked before, and for CRDs that a watch
//! allows to be replaced.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};
use kube::Error;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use super::ApplyError;
use crate::calls::{Calls, FIELD_MANAGER};
use crate::drift::fields::is_ours;
use crate::plan::Planned;

/// Somebody may write the object meanwhile, its status for example.
const TRIES: usize = 5;

/// Hands a live object over, if there is something to hand over.
pub async fn hand_over(planned: &Planned, calls: &Calls) -> Result<(), ApplyError> {
    let refused = |error| ApplyError::refused(planned, error);
    let id = planned.object.id();
    let mut tries = 0;
    loop {
        let Some(live) = calls.metadata(&planned.kind, &id).await.map_err(refused)? else { return Ok(()) };
        let Some(managers) = handed_over(&live) else { return Ok(()) };
        let patch = json!({"metadata": {"managedFields": managers, "resourceVersion": live.resource_version}});
        tries += 1;
        match calls.merge(&planned.kind, &id, &patch).await {
            Ok(()) => return Ok(()),
            Err(Error::Api(status)) if status.code == 409 && tries < TRIES => {}
            Err(Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
    }
}

/// The managers after the hand-over. None where there is nothing to do.
///
/// A manager has one apply entry, of one API version. In another version fields may have other names, so only lists of the
/// same version are united; of the others only the metadata, which is the same in all. Their entries go all the same: what the
/// chart has becomes ours by the next apply, and would otherwise stay theirs too.
pub fn handed_over(metadata: &ObjectMeta) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = metadata.managed_fields.iter().flatten().cloned();
    let (writers, others): (Vec<_>, Vec<_>) = entries.partition(is_writer);
    let (ours, mut rest): (Vec<_>, Vec<_>) = others.into_iter().partition(is_ours);
    let newest = writers.iter().max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    let version = ours.first().unwrap_or(newest).api_version.clone();
    let mut fields = json!({});
    let mut time = None;
    for entry in ours.iter().chain(&writers) {
        let list = entry.fields_v1.as_ref().map_or(&Value::Null, |fields| &fields.0);
        match entry.api_version == version {
            true => unite(&mut fields, list),
            false => unite(&mut fields, &metadata_of(list)),
        }
        time = time.max(entry.time.clone().map(|time| time.0));
    }
    rest.push(ManagedFieldsEntry {
        api_version: version,
        manager: Some(FIELD_MANAGER.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(without_status(fields))),
        time: time.map(Time),
        subresource: None,
    });
    Some(rest)
}

/// Whether an entry is of a program that wrote the release: helm under whatever name it was run, or an operator that put Helm's
/// mark on the object.
fn is_writer(entry: &ManagedFieldsEntry) -> bool {
    let is_update = entry.operation.as_deref() == Some("Update");
    let is_whole = entry.subresource.as_deref().unwrap_or_default().is_empty();
    let manager = entry.manager.as_deref().unwrap_or_default();
    is_update && is_whole && (manager.starts_with("helm") || (has_mark(entry) && !is_anybody(manager)))
}

fn has_mark(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
    fields.is_some_and(|fields| fields.pointer("/f:metadata/f:annotations/f:meta.helm.sh~1release-name").is_some())
}

/// A person who put the mark on by hand set other things by hand too. And what was there before the first apply may be of
/// anybody.
fn is_anybody(manager: &str) -> bool {
    manager.starts_with("kubectl") || manager == "before-first-apply"
}

fn metadata_of(fields: &Value) -> Value {
    fields.get("f:metadata").map_or(Value::Null, |metadata| json!({"f:metadata": metadata}))
}

/// A chart decides no status, and an apply that seems to drop one has nothing to drop.
fn without_status(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("f:status");
    }
    fields
}

/// Both lists in one.
fn unite(fields: &mut Value, more: &Value) {
    let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) else { return };
    for (step, more) in more {
        match fields.get_mut(step) {
            None => drop(fields.insert(step.clone(), more.clone())),
            Some(below) => {
                // A leaf names the place itself. Once something is below, only the dot does.
                let is_named = is_leaf(below) || is_leaf(more);
                unite(below, more);
                if let Some(below) = below.as_object_mut().filter(|below| is_named && !below.is_empty()) {
                    below.insert(".".to_owned(), json!({}));
                }
            }
        }
    }
}

fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, at: &str, fields: Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": version, "time": at, "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    }

    fn update(manager: &str, fields: Value) -> Value {
        entry(manager, "Update", "v1", "2026-01-01T00:00:00Z", fields)
    }

    fn apply(manager: &str, fields: Value) -> Value {
        entry(manager, "Apply", "v1", "2026-01-02T00:00:00Z", fields)
    }

    fn handed(entries: &[Value]) -> Option<Value> {
        let metadata: ObjectMeta = serde_json::from_value(json!({"name": "a", "managedFields": entries})).unwrap();
        handed_over(&metadata).map(|entries| serde_json::to_value(entries).unwrap())
    }

    fn data(key: &str) -> Value {
        json!({"f:data": {format!("f:{key}"): {}}})
    }

    fn marked(key: &str) -> Value {
        json!({"f:data": {format!("f:{key}"): {}}, "f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}})
    }

    #[test]
    fn what_helm_wrote_becomes_ours_under_whatever_name_it_ran() {
        for manager in ["helm", "helm3", "helm-operator", "helm-controller"] {
            let expected = json!([entry("helm", "Apply", "v1", "2026-01-01T00:00:00Z", data("a"))]);
            assert_eq!(handed(&[update(manager, data("a"))]), Some(expected), "{manager}");
        }
    }

    #[test]
    fn so_does_what_an_operator_wrote_that_put_helms_mark_on() {
        let expected = json!([entry("helm", "Apply", "v1", "2026-01-01T00:00:00Z", marked("a"))]);
        assert_eq!(handed(&[update("nginx-operator", marked("a"))]), Some(expected));
    }

    #[test]
    fn what_others_have_stays_theirs() {
        let mut status = update("helm", json!({"f:status": {}}));
        status["subresource"] = "status".into();
        let others = [
            update("kubectl-label", data("b")),
            update("kubectl-annotate", marked("c")),
            update("before-first-apply", marked("d")),
            update("manager", data("e")),
            apply("helm-controller", data("f")),
            apply("argocd", marked("g")),
            status,
        ];
        assert_eq!(handed(&others), None);
        let mut all = others.to_vec();
        all.insert(3, update("helm", data("a")));
        let managers = handed(&all).unwrap();
        assert_eq!(managers.as_array().unwrap()[..7], others);
        assert_eq!(managers[7]["fieldsV1"], data("a"));
    }

    #[test]
    fn without_managers_or_with_ours_alone_there_is_nothing_to_do() {
        assert_eq!(handed(&[]), None);
        assert_eq!(handed_over(&ObjectMeta::default()), None);
        assert_eq!(handed(&[apply("helm", data("a"))]), None);
    }

    #[test]
    fn nothing_is_left_to_do_after_it() {
        let managers =
            handed(&[update("helm3", marked("a")), apply("helm", data("b")), update("x", data("c"))]).unwrap();
        assert_eq!(handed(managers.as_array().unwrap()), None);
    }

    #[test]
    fn all_lists_are_united_with_ours() {
        let one = json!({"f:data": {".": {}, "f:a": {}}, "f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}}});
        let two = json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}}, "k:{\"port\":90}": {}}}});
        let mine = json!({"f:data": {"f:b": {}}, "f:type": {}});
        let expected = json!({
            "f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:type": {},
            "f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}, "k:{\"port\":90}": {}}},
        });
        let managers = handed(&[update("helm", one), update("helm-operator", two), apply("helm", mine)]).unwrap();
        assert_eq!(managers, json!([apply("helm", expected)]), "with the newest time");
    }

    #[test]
    fn a_place_that_one_list_names_itself_is_named_beside_what_another_has_below() {
        for lists in [
            [json!({"f:map": {}}), json!({"f:map": {"f:a": {}}})],
            [json!({"f:map": {"f:a": {}}}), json!({"f:map": {}})],
        ] {
            let managers = handed(&lists.map(|fields| update("helm", fields))).unwrap();
            assert_eq!(managers[0]["fieldsV1"], json!({"f:map": {".": {}, "f:a": {}}}));
        }
        let managers = handed(&[update("helm", data("a")), update("helm3", data("a"))]).unwrap();
        assert_eq!(managers[0]["fieldsV1"], data("a"), "a leaf in both stays a leaf");
    }

    #[test]
    fn of_a_list_of_another_version_only_the_metadata_is_taken() {
        let old = entry("helm", "Update", "v1beta1", "2026-01-01T00:00:00Z", data("old"));
        let labelled = |mut fields: Value| {
            fields["f:metadata"] = json!({"f:labels": {"f:a": {}}});
            fields
        };
        let lists = [entry("helm", "Update", "v1beta1", "2026-01-01T00:00:00Z", labelled(data("old")))];
        let lists = [&lists[..], &[entry("helm", "Update", "v1", "2026-02-01T00:00:00Z", data("new"))]].concat();
        let expected = json!([entry("helm", "Apply", "v1", "2026-02-01T00:00:00Z", labelled(data("new")))]);
        assert_eq!(handed(&lists), Some(expected));
        let new = entry("helm", "Update", "v1", "2026-02-01T00:00:00Z", data("new"));
        let expected = json!([entry("helm", "Apply", "v1", "2026-02-01T00:00:00Z", data("new"))]);
        assert_eq!(handed(&[new.clone(), old.clone()]), Some(expected), "the newest update decides");
        let mine = entry("helm", "Apply", "v1beta1", "2026-01-05T00:00:00Z", data("mine"));
        let both = json!({"f:data": {"f:mine": {}, "f:old": {}}});
        let expected = json!([entry("helm", "Apply", "v1beta1", "2026-02-01T00:00:00Z", both)]);
        assert_eq!(handed(&[new, mine, old]), Some(expected), "the version of our entry decides");
    }

    #[test]
    fn no_status_is_taken_over() {
        let managers = handed(&[update("helm", json!({"f:data": {"f:a": {}}, "f:status": {"f:b": {}}}))]).unwrap();
        assert_eq!(managers[0]["fieldsV1"], data("a"));
    }
}
