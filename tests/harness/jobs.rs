//! Every Job that ever was in a namespace, in the order in which they were made.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ResourceExt};
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use super::Project;

/// Looks until it is dropped.
pub struct Jobs {
    seen: Arc<Mutex<Vec<(String, String, String)>>>,
    task: JoinHandle<()>,
}

impl Jobs {
    /// Begins to look. Jobs that come after this are all seen, however short they live.
    pub async fn watch(project: &Project) -> Self {
        let api: Api<Job> = Api::namespaced(project.client.clone(), &project.namespace);
        let seen: Arc<Mutex<Vec<(String, String, String)>>> = Arc::default();
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                let mut ready = Some(ready);
                let events = watcher(api, watcher::Config::default());
                pin_mut!(events);
                while let Some(event) = events.next().await {
                    match event {
                        Ok(watcher::Event::Apply(job) | watcher::Event::InitApply(job)) => note(&seen, &job),
                        Ok(watcher::Event::InitDone) => drop(ready.take().map(|ready| ready.send(()))),
                        _ => {}
                    }
                }
            }
        });
        is_ready.await.expect("the watch begins");
        Jobs { seen, task }
    }

    /// Their names, each as often as one was made.
    pub fn names(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(_, name, _)| name.clone()).collect()
    }

    /// What each was made for: revision, event, hook and attempt, and its name.
    pub fn runs(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(_, name, run)| format!("{run} {name}")).collect()
    }
}

fn note(seen: &Mutex<Vec<(String, String, String)>>, job: &Job) {
    let mut seen = seen.lock().unwrap();
    let uid = job.uid().unwrap_or_default();
    if !seen.iter().any(|(known, _, _)| *known == uid) {
        let run = job.annotations().get("chartwright.dev/hook-run").map(String::as_str).unwrap_or_default();
        // The last part is the UID of the custom resource.
        let run = run.rsplit_once('.').map_or("", |(run, _)| run).to_owned();
        seen.push((uid, job.name_any(), run));
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.task.abort();
    }
}
