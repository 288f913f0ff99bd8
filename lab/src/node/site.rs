//! A custom resource whose page is served by pods behind a Service of its name.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, kubectl};
use super::http;

pub struct Site {
    pub group: &'static str,
    pub plural: &'static str,
    pub name: &'static str,
    pub cluster: Cluster,
}

pub struct Condition {
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Site {
    pub fn get(&self) -> Result<Value> {
        let Site { group, plural, name, cluster } = self;
        cluster.get(&format!("/apis/{group}/namespaces/default/{plural}/{name}"))
    }

    pub fn patch(&self, patch: &Value) -> Result<()> {
        let kind = format!("{}.{}", self.plural, self.group.split('/').next().unwrap_or_default());
        kubectl(&["patch", &kind, self.name, "--type=merge", "-p", &patch.to_string()]).map(|_| ())
    }

    /// Gives it a page that no other edit gave it, and returns what the page says.
    pub fn edit(&self) -> Result<String> {
        self.edit_with(json!({}))
    }

    /// The same together with other fields.
    pub fn edit_with(&self, mut spec: Value) -> Result<String> {
        static EDITS: AtomicUsize = AtomicUsize::new(1);
        let text = format!("edit {} of {}", EDITS.fetch_add(1, Ordering::Relaxed), self.name);
        spec["page"] = json!(format!("<h1>{text}</h1>"));
        self.patch(&json!({"spec": spec}))?;
        Ok(text)
    }

    /// The condition, if it speaks of the newest spec.
    pub fn condition(&self, kind: &str) -> Result<Condition> {
        let resource = self.get()?;
        let observed = resource["status"]["observedGeneration"].as_u64();
        ensure!(observed == resource["metadata"]["generation"].as_u64(), "the newest spec was not seen yet");
        let conditions = resource["status"]["conditions"].as_array().context("no conditions")?;
        let condition = conditions.iter().find(|it| it["type"] == kind).with_context(|| format!("no {kind}"))?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Ok(Condition { status: text("status"), reason: text("reason"), message: text("message") })
    }

    /// Fails unless the newest spec is deployed and healthy.
    pub fn ready(&self) -> Result<()> {
        let Condition { status, reason, message } = self.condition("Ready")?;
        ensure!(status == "True", "Ready {status}, {reason}: {message}");
        Ok(())
    }

    pub fn revision(&self) -> Result<u64> {
        self.get()?["status"]["deployedRelease"]["revision"].as_u64().context("no revision is deployed")
    }

    pub fn service(&self) -> Result<Value> {
        self.cluster.get(&format!("/api/v1/namespaces/default/services/{}", self.name))
    }

    pub fn address(&self) -> Result<SocketAddr> {
        let service = self.service()?;
        let ip = service["spec"]["clusterIP"].as_str().context("the Service has no address")?;
        let port = &service["spec"]["ports"][0]["port"];
        Ok(format!("{ip}:{port}").parse()?)
    }

    /// Fails unless the Service answers with a page that has this text.
    pub fn serves(&self, text: &str) -> Result<()> {
        let page = http::get(self.address()?, "/")?;
        ensure!(page.contains(text), "the Service answers with {page:?}");
        Ok(())
    }

    /// Fails unless the operator has written this text to the site's ConfigMap.
    pub fn applied(&self, text: &str) -> Result<()> {
        let map = self.cluster.get(&format!("/api/v1/namespaces/default/configmaps/{}", self.name))?;
        ensure!(map["data"].to_string().contains(text), "the ConfigMap has {}", map["data"]);
        Ok(())
    }

    /// Fails while a pod of an earlier revision is still being ended.
    pub fn settled(&self) -> Result<()> {
        let pods = self.cluster.list("/api/v1/namespaces/default/pods")?;
        let is_ending = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_some();
        let ending = pods.iter().filter(is_ending).count();
        ensure!(ending == 0, "{ending} pods are still being ended");
        Ok(())
    }

    /// The messages of Warning events on the custom resource.
    pub fn warnings(&self) -> Result<Vec<String>> {
        let events = self.cluster.list("/api/v1/namespaces/default/events")?;
        let is_ours = |event: &&Value| {
            event["type"] == "Warning"
                && event["involvedObject"]["name"] == self.name
                && event["involvedObject"]["apiVersion"] == self.group
        };
        let told = |event: &Value| format!("{}: {}", event["reason"], event["message"]);
        Ok(events.iter().filter(is_ours).map(told).collect())
    }

    pub fn forget_events(&self) -> Result<()> {
        kubectl(&["delete", "events", "--all", "--wait=false"]).map(|_| ())
    }
}
