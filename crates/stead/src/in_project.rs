//! The option `--project` of commands about things that belong to a project or to the platform.

use crate::client::query;

#[derive(Debug, clap::Args)]
pub(crate) struct InProject {
    /// Project to work in; the token's own project, or the platform, if absent
    #[arg(long)]
    project: Option<String>,
}

impl InProject {
    /// Adds the project to the path of a request.
    pub(crate) fn of(&self, path: &str) -> String {
        match &self.project {
            Some(project) => format!("{path}{}", query(&[("project", project)])),
            None => path.to_owned(),
        }
    }
}
