//! Lists in pieces. The next piece begins behind the last row of this one, wherever that is by then, so rows that
//! come and go meanwhile neither repeat nor hide others, and the last piece costs what the first did.

use super::error::StoreError;

/// Most rows of a page.
pub const MAX_PAGE: usize = 1000;

/// A piece of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// Its rows.
    pub items: Vec<T>,
    /// Where the next piece begins; none at the end of the list.
    pub next: Option<Cursor>,
}

/// Where a piece begins. Callers pass it back as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// As text, for an answer.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of text, from a request.
    pub fn from_text(text: &str) -> Result<Cursor, StoreError> {
        match text.len() {
            1..=256 => Ok(Cursor(text.to_owned())),
            _ => Err(WRONG),
        }
    }

    pub(crate) fn behind(last: impl Into<String>) -> Cursor {
        Cursor(last.into())
    }

    pub(crate) fn behind_pair(at: i64, id: &str) -> Cursor {
        Cursor(format!("{at}.{id}"))
    }

    pub(crate) fn pair(&self) -> Result<(i64, &str), StoreError> {
        let (at, id) = self.0.split_once('.').ok_or(WRONG)?;
        Ok((at.parse().map_err(|_| WRONG)?, id))
    }
}

const WRONG: StoreError = StoreError::Invalid { field: "cursor", message: "was not made by this server" };

/// Nobody counts further than this: a list of a million rows shall not cost more than one of a few thousand.
pub const MOST_COUNTED: i64 = 10_000;

/// As many rows as a page of this size takes, and one to see whether there are more.
pub(crate) fn fetch(limit: usize) -> i64 {
    limit.clamp(1, MAX_PAGE) as i64 + 1
}

/// The page of these rows, which were fetched with [`fetch`].
pub(crate) fn page<T>(mut rows: Vec<T>, limit: usize, behind: impl Fn(&T) -> Cursor) -> Page<T> {
    let size = limit.clamp(1, MAX_PAGE);
    let more = rows.len() > size;
    rows.truncate(size);
    let next = if more { rows.last().map(behind) } else { None };
    Page { items: rows, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_whether_there_is_another() {
        let of = |rows: &[i64], limit| page(rows.to_vec(), limit, |row| Cursor::behind(row.to_string()));
        assert_eq!(of(&[1, 2, 3], 2), Page { items: vec![1, 2], next: Some(Cursor("2".into())) });
        assert_eq!(of(&[1, 2], 2).next, None);
        assert_eq!(of(&[], 2), Page { items: vec![], next: None });
        assert_eq!(of(&[1, 2], 0).items, [1], "at least one row, or nobody gets anywhere");
    }

    #[test]
    fn cursors_from_elsewhere_are_refused() {
        let cursor = Cursor::behind_pair(i64::MIN, "a.b");
        assert_eq!(cursor.pair(), Ok((i64::MIN, "a.b")));
        for text in ["", &"x".repeat(257)] {
            assert_eq!(Cursor::from_text(text), Err(WRONG));
        }
        assert_eq!(Cursor::from_text("x.y").unwrap().pair(), Err(WRONG));
    }
}
