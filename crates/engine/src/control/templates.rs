//! Templates: what sessions are made from, and what programs that name one get.

mod kept;

use super::error::ControlError;
use super::{ControlPlane, now};
use crate::limits::Wanted;
use crate::storage::{Cursor, Json, Page, StoreError, Template};
use crate::{EngineError, Network, TemplatePool};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a template says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// For people.
    pub description: String,
    /// Languages its sessions have.
    pub languages: Vec<String>,
    /// Bounds of its sessions, and defaults of their programs.
    pub limits: Wanted,
    /// Environment of its sessions.
    pub env: BTreeMap<String, String>,
    /// What its sessions may reach, where that shall differ from what is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Programs of its sessions that may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// By language, modules that its programs find loaded, as far as the host has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub preload: BTreeMap<String, Vec<String>>,
    /// By language, a program that has run already wherever one of its programs is about to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rehearsal: BTreeMap<String, String>,
    /// How many of its programs wait.
    pub pool: TemplatePool,
    /// What the founding platform called the image it is made from. Kept, and of no effect here.
    pub image: Option<String>,
    /// What the founding platform called its language, such as `python3.11`.
    pub runtime_type: Option<String>,
    /// Whether sessions can be made from it.
    pub inactive: bool,
}

/// Modules of the template for data, and what is done with them.
const DATA: [&str; 4] = ["numpy", "pandas", "matplotlib", "matplotlib.pyplot"];
const DATA_REHEARSAL: &str = include_str!("templates/data.py");

/// Templates that are there from the beginning: id, name, description, languages.
const SEEDS: [(&str, &str, &str, &[&str]); 4] = [
    ("python-basic", "Python", "Python and its standard library", &["python"]),
    (
        "python-datascience",
        "Python for data",
        "Python with NumPy, pandas and Matplotlib where the host has them",
        &["python"],
    ),
    ("nodejs-basic", "Node.js", "JavaScript and TypeScript", &["javascript", "typescript"]),
    ("multi-language", "Every language", "All languages this host has", &[]),
];

impl ControlPlane {
    /// Makes a template.
    pub async fn create_template(
        &self,
        id: &str,
        name: &str,
        spec: &TemplateSpec,
    ) -> Result<Template, ControlError> {
        let spec = &self.checked_template(spec)?;
        let at = now();
        let template = Template {
            id: id.to_owned(),
            name: name.to_owned(),
            spec: Json::of(spec)?,
            created_at: at,
            updated_at: at,
        };
        self.store.create_template(&template).await?;
        self.templates_changed.notify_one();
        Ok(template)
    }

    /// One template.
    pub async fn template(&self, id: &str) -> Result<Template, ControlError> {
        match self.store.template(id).await {
            Err(StoreError::NotFound { .. }) => Err(ControlError::NotFound { what: "template" }),
            other => Ok(other?),
        }
    }

    /// All of them, by id.
    pub async fn templates(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Template>, ControlError> {
        Ok(self.store.templates(after, limit).await?)
    }

    /// Changes a template. Sessions that were made from it stay as they are.
    pub async fn update_template(
        &self,
        id: &str,
        name: &str,
        spec: &TemplateSpec,
    ) -> Result<Template, ControlError> {
        let spec = &self.checked_template(spec)?;
        let old = self.template(id).await?;
        let template = Template { name: name.to_owned(), spec: Json::of(spec)?, updated_at: now(), ..old };
        self.store.update_template(&template).await?;
        self.templates_changed.notify_one();
        Ok(template)
    }

    /// Removes a template that no session needs.
    pub async fn delete_template(&self, id: &str) -> Result<(), ControlError> {
        self.template(id).await?;
        self.store.delete_template(id).await?;
        self.templates_changed.notify_one();
        Ok(())
    }

    /// The same with languages by their names, if everything it says can be had.
    fn checked_template(&self, spec: &TemplateSpec) -> Result<TemplateSpec, ControlError> {
        for language in &spec.languages {
            self.engine.catalogue().by_name(language)?;
        }
        self.engine.check_limits(spec.limits)?;
        self.check_concurrent(spec.max_concurrent)?;
        self.check_network(spec.network)?;
        Ok(kept::checked(&self.engine, spec)?)
    }

    /// Whether so many programs of a session may run at once.
    pub(super) fn check_concurrent(&self, wanted: Option<u32>) -> Result<(), ControlError> {
        let most = self.settings.max_concurrent;
        Ok(wanted.map_or(Ok(()), |wanted| crate::engine::check_concurrent(wanted, most))?)
    }

    /// Whether somebody may ask for this.
    pub(super) fn check_network(&self, network: Option<Network>) -> Result<(), ControlError> {
        match network {
            Some(Network::Host) if !self.settings.allow_host_network => {
                Err(EngineError::invalid("network", "the network of this host is not for programs here")
                    .with_hint("leave it out; whoever runs the server can set `isolation.allow_host_network`")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Makes the templates that are there from the beginning, where they never were.
    pub(super) async fn seed_templates(&self) -> Result<(), ControlError> {
        if !self.store.templates(None, 1).await?.items.is_empty() {
            return Ok(());
        }
        for (id, name, description, languages) in SEEDS {
            let mut spec = TemplateSpec {
                description: description.into(),
                languages: languages.iter().map(|&language| language.into()).collect(),
                ..TemplateSpec::default()
            };
            if id == "python-datascience" {
                spec.preload = [("python".into(), DATA.map(str::to_owned).to_vec())].into();
                spec.rehearsal = [("python".into(), DATA_REHEARSAL.into())].into();
            }
            match self.create_template(id, name, &spec).await {
                // Another server was faster.
                Ok(_) | Err(ControlError::Store(StoreError::Conflict { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
