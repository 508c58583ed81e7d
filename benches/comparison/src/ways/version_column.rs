//! MariaDB, optimistically: nobody locks; a write names the version that it was made from, and is refused if that is
//! not the present one.
//!
//! What object mappers call a version column, as `@Version` of
//! <https://jakarta.ee/specifications/persistence/3.1/jakarta-persistence-spec-3.1.html#a2059>. "Acquire" reads value and
//! version, "release" writes.

use mysql_async::Pool;
use mysql_async::prelude::Queryable;

use super::mariadb::pool;
use super::{Hold, Place, Way};
use crate::Failure;
use crate::event::{Look, Released};

const SELECT: &str = "SELECT version, value FROM documents WHERE name = ?";
const UPDATE: &str =
    "UPDATE documents SET value = ?, version = version + 1 WHERE name = ? AND version = ?";

pub(crate) struct VersionColumn {
    pool: Pool,
    name: String,
}

pub(crate) struct VersionColumnHold {
    pool: Pool,
    name: String,
    version: i64,
    value: i64,
}

impl Way for VersionColumn {
    type Hold = VersionColumnHold;

    async fn connect(place: &Place) -> Result<Self, Failure> {
        let pool = pool(place.servers.first().ok_or("no server")?)?;
        let insert = "INSERT IGNORE INTO documents (name, version, value) VALUES (?, 0, 0)";
        pool.get_conn().await?.exec_drop(insert, (&place.name,)).await?;
        Ok(Self { pool, name: place.name.clone() })
    }

    async fn acquire(&self) -> Result<VersionColumnHold, Failure> {
        let row = self.pool.get_conn().await?.exec_first(SELECT, (&self.name,)).await?;
        let (version, value) = row.ok_or("the row is gone")?;
        Ok(VersionColumnHold { pool: self.pool.clone(), name: self.name.clone(), version, value })
    }
}

impl Hold for VersionColumnHold {
    fn token(&self) -> Option<i64> {
        Some(self.version)
    }

    fn look(&self) -> Look {
        Look::CannotTell
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        let row: Option<(i64, i64)> =
            self.pool.get_conn().await?.exec_first(SELECT, (&self.name,)).await?;
        Ok(row.is_some_and(|(version, _)| version == self.version))
    }

    async fn release(self) -> Result<Released, Failure> {
        let mut connection = self.pool.get_conn().await?;
        connection.exec_drop(UPDATE, (self.value + 1, &self.name, self.version)).await?;
        Ok(if connection.affected_rows() == 1 { Released::Ours } else { Released::NotOurs })
    }
}
