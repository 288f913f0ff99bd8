//! Many projects that share a kind. A CRD of its own for each would take a second, and everybody would look at it.

use super::{Project, create_namespace, unique};

/// On a custom resource: the namespace of the project whose operator serves it.
const SERVED_IN: &str = "served-in";

impl Project {
    /// A project of the same kind and with the same chart, in a namespace of its own. Its operator serves only custom
    /// resources that are its own, see [`Project::serve`].
    pub async fn sibling(&self) -> Project {
        let namespace = format!("test-{}", unique());
        create_namespace(&self.client, &namespace).await;
        let project = Project {
            allow: self.allow,
            client: self.client.clone(),
            resource: self.resource.clone(),
            scope: self.scope,
            dir: tempfile::tempdir().expect("a directory"),
            plane: self.plane.clone(),
            namespace,
        };
        super::copy_dir(&self.dir().join("charts"), &project.dir().join("charts"));
        let watches = std::fs::read_to_string(self.dir().join("watches.yaml")).expect("a file");
        let adopt = watches.lines().find(|line| line.trim().starts_with("adopt:")).unwrap_or_default().trim();
        project.watch_with(&format!("selector:\n  matchLabels: {{{SERVED_IN}: {}}}\n{adopt}", project.namespace));
        project
    }

    /// Makes a custom resource known to the project's operator.
    pub async fn serve(&self, name: &str) {
        self.label(name, SERVED_IN, &self.namespace).await;
    }
}
