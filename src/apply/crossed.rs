//! Lists that cannot be merged any more, because somebody changed the key of an item.
//!
//! A Service's port that somebody moved from 80 to 8080 is another item for the API server. Our apply adds port 80 beside it,
//! and is refused because both have the same name. Then the whole list is set to ours first. That write has a name of its own,
//! and is taken out of the object's managers again: what it owns would outlive the chart's wish.

use kube::Error;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::{Answered, ApplyError, Progress};
use crate::calls::Calls;
use crate::plan::Planned;

const MANAGER: &str = "chartwright-repair";

/// Pointers to the lists that an apply was refused for. Lists inside of lists are not mended: others may have items beside.
pub fn lists(error: &ApplyError, planned: &Planned) -> Vec<String> {
    match error {
        ApplyError::Refused { error, .. } => lists_of(error, planned),
        _ => vec![],
    }
}

/// The same by the API server's answer.
pub fn lists_of(error: &Error, planned: &Planned) -> Vec<String> {
    let Error::Api(status) = error else { return vec![] };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut lists: Vec<String> = causes
        .filter(|cause| cause.reason == "FieldValueDuplicate" && cause.field.matches('[').count() == 1)
        .filter_map(|cause| Some(format!("/{}", cause.field.split_once('[')?.0.replace('.', "/"))))
        .filter(|list| planned.object.value().pointer(list).is_some_and(Value::is_array))
        .collect();
    lists.sort();
    lists.dedup();
    lists
}

/// Sets the lists, applies, and leaves no trace of the first.
pub async fn apply(
    planned: &Planned,
    lists: &[String],
    calls: &Calls,
    answered: &Answered<'_>,
) -> Result<Progress, ApplyError> {
    let refused = |error| ApplyError::refused(planned, error);
    let id = planned.object.id();
    calls.merge_as(MANAGER, &planned.kind, &id, &patch(planned, lists)).await.map_err(refused)?;
    let object = calls.apply(planned).await.map_err(refused)?;
    let mut progress = Progress::default();
    progress.note(planned, object, answered);
    clean(planned, &mut progress, calls, answered).await?;
    Ok(progress)
}

/// What setting the lists would make of the object. Nothing is written.
pub async fn dry_run(planned: &Planned, lists: &[String], calls: &Calls) -> Result<DynamicObject, Error> {
    calls.dry_merge(MANAGER, &planned.kind, &planned.object.id(), &patch(planned, lists)).await
}

fn patch(planned: &Planned, lists: &[String]) -> Value {
    let mut patch = json!({});
    for pointer in lists {
        set(&mut patch, pointer, planned.object.value().pointer(pointer).cloned().unwrap_or(Value::Null));
    }
    patch
}

/// Whether an earlier repair got no further than its first write.
pub fn has_trace(metadata: &ObjectMeta) -> bool {
    without_trace(metadata).is_some()
}

/// Takes the trace out of what was just applied. Somebody may write the object meanwhile, its status for example.
pub async fn clean(
    planned: &Planned,
    progress: &mut Progress,
    calls: &Calls,
    answered: &Answered<'_>,
) -> Result<(), ApplyError> {
    const TRIES: usize = 5;
    let refused = |error| ApplyError::refused(planned, error);
    let id = planned.object.id();
    for _ in 0..TRIES {
        let Some(live) = calls.get(&planned.kind, &id).await.map_err(refused)? else { return Ok(()) };
        let Some(patch) = without_trace(&live.metadata) else { return Ok(()) };
        match calls.merge_as(MANAGER, &planned.kind, &id, &patch).await {
            Ok(object) => {
                *progress = Progress { stopped_by: progress.stopped_by.take(), ..Progress::default() };
                progress.note(planned, object, answered);
                return Ok(());
            }
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(())
}

fn set(patch: &mut Value, pointer: &str, value: Value) {
    let place = pointer.split('/').skip(1).fold(patch, |place, key| &mut place[key]);
    *place = value;
}

/// The managers but for ours of a moment ago.
fn without_trace(metadata: &ObjectMeta) -> Option<Value> {
    let managers = metadata.managed_fields.as_ref()?;
    let rest: Vec<_> = managers.iter().filter(|entry| entry.manager.as_deref() != Some(MANAGER)).collect();
    let version = &metadata.resource_version;
    (rest.len() < managers.len()).then(|| json!({"metadata": {"managedFields": rest, "resourceVersion": version}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_from_the_refusal() {
        let details = json!({"causes": [
            {"reason": "FieldValueDuplicate", "field": "spec.ports[1].name", "message": "Duplicate value"},
            {"reason": "FieldValueDuplicate", "field": "spec.ports[0].more[1]", "message": "Duplicate value"},
            {"reason": "FieldValueInvalid", "field": "spec.type", "message": "no"},
        ]});
        let status: kube::core::Status =
            serde_json::from_value(json!({"code": 422, "status": "Failure", "details": details})).unwrap();
        let id = crate::object::ObjectId {
            group: String::new(),
            version: "v1".into(),
            kind: "Service".into(),
            namespace: None,
            name: "a".into(),
        };
        let error = ApplyError::Refused { id: Box::new(id), error: Error::Api(Box::new(status)) };
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": []}});
        let resource = kube::discovery::ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
        let kind = crate::discovery::Kind { resource, namespaced: true, has_status: true, is_manageable: true };
        let planned = |object: Value| {
            Planned::new(crate::object::Object::new(object).unwrap(), kind.clone(), crate::plan::Judged::Wholly)
        };
        assert_eq!(lists(&error, &planned(object.clone())), ["/spec/ports"]);
        let without = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}});
        assert!(lists(&error, &planned(without)).is_empty(), "a list that is not ours is left alone");
    }
}
