//! Templates: what sessions are made from. Shared by all owners; ids and names are unique.

use super::change::Change;
use super::error::StoreError;
use super::events::{EVERYBODY, NewEvent, TEMPLATE_CHANGED, TEMPLATE_CREATED, TEMPLATE_DELETED};
use super::json::Json;
use super::page::{Cursor, Page, fetch, page};
use super::statement::{Columns, Statement, values};
use super::{Store, bounds};
use serde_json::json;
use sqlx::any::AnyRow;

/// What sessions are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Chosen by whoever made it.
    pub id: String,
    /// For people; unique as well.
    pub name: String,
    /// What it says.
    pub spec: Json,
    /// When it was made, in milliseconds since 1970.
    pub created_at: i64,
    /// When it was changed.
    pub updated_at: i64,
}

const WHAT: &str = "template";
const MISSING: StoreError = StoreError::NotFound { what: WHAT };

static INSERT: Statement =
    Statement::new("INSERT INTO templates (id, name, spec, created_at, updated_at) VALUES (?, ?, ?, ?, ?)");
static UPDATE: Statement =
    Statement::new("UPDATE templates SET name = ?, spec = ?, updated_at = ? WHERE id = ?");
/// Sessions that have ended do not need theirs any more.
static DELETE: Statement = Statement::new(
    "DELETE FROM templates WHERE id = ? AND NOT EXISTS (SELECT 1 FROM sessions WHERE template = ? \
     AND status IN ('creating', 'ready', 'running', 'paused', 'stopping', 'stopped'))",
);
pub(crate) static SELECT: Statement =
    Statement::new("SELECT id, name, spec, created_at, updated_at FROM templates WHERE id = ?");
pub(crate) static LIST: Statement = Statement::new(
    "SELECT id, name, spec, created_at, updated_at FROM templates WHERE id > ? ORDER BY id LIMIT ?",
);

impl Store {
    /// Makes a template; a conflict if its id or name is taken.
    pub async fn create_template(&self, template: &Template) -> Result<(), StoreError> {
        check(template)?;
        let Template { id, name, spec, created_at, updated_at } = template;
        let row = values![id.as_str(), name.as_str(), spec, *created_at, *updated_at];
        let event = told(TEMPLATE_CREATED, template)?;
        self.write_told(Change::new(WHAT, &INSERT, row), event).await.map(drop)
    }

    /// Replaces name and content.
    pub async fn update_template(&self, template: &Template) -> Result<(), StoreError> {
        check(template)?;
        let Template { id, name, spec, updated_at, .. } = template;
        let row = values![name.as_str(), spec, *updated_at, id.as_str()];
        let event = told(TEMPLATE_CHANGED, template)?;
        self.write_told(Change::new(WHAT, &UPDATE, row).or(MISSING), event).await.map(drop)
    }

    /// One template.
    pub async fn template(&self, id: &str) -> Result<Template, StoreError> {
        self.one(&SELECT, values![id], read).await?.ok_or(MISSING)
    }

    /// All of them, by id.
    pub async fn templates(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Template>, StoreError> {
        let after = after.map_or("", Cursor::as_str);
        let rows = self.all(&LIST, values![after, fetch(limit)], read).await?;
        Ok(page(rows, limit, |row| Cursor::behind(&row.id)))
    }

    /// Removes a template that no session needs.
    pub async fn delete_template(&self, id: &str) -> Result<(), StoreError> {
        let used = StoreError::Conflict { what: WHAT, why: "is used by sessions" };
        let at = jiff::Timestamp::now().as_millisecond();
        let event = NewEvent::of(TEMPLATE_DELETED, EVERYBODY, id, at, &json!({}))?;
        match self.write_told(Change::new(WHAT, &DELETE, values![id, id]).or(used), event).await {
            Err(used @ StoreError::Conflict { .. }) => self.template(id).await.and(Err(used)),
            other => other.map(drop),
        }
    }
}

fn told(kind: &str, template: &Template) -> Result<NewEvent, StoreError> {
    let body = json!({"name": template.name});
    NewEvent::of(kind, EVERYBODY, &template.id, template.updated_at, &body)
}

fn check(template: &Template) -> Result<(), StoreError> {
    bounds::id("id", &template.id)?;
    bounds::name("name", &template.name)?;
    template.spec.check("spec")
}

fn read(row: &AnyRow) -> Result<Template, StoreError> {
    let mut row = Columns::of(row);
    Ok(Template {
        id: row.next()?,
        name: row.next()?,
        spec: Json::stored(row.next()?),
        created_at: row.next()?,
        updated_at: row.next()?,
    })
}
