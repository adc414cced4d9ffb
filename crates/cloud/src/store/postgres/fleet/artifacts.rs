//! Artifacts in the database that servers share: their content as pieces, under the name of the upload that brought it. Owns
//! these tables; whose an artifact is and how long it is kept is the server's.

use std::future::Future;
use std::io;
use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::PostgresFleet;
use super::connection::{Connection, Param, Session};
use super::read::get;
use crate::artifact::{ArtifactBackend, ArtifactContent, hex, is_digest, unknown_upload, wrong_checksum, wrong_offset};
use crate::store::fleet::column::{integer, natural};

/// Bytes of a piece as it is stored.
const PIECE: usize = 256 << 10;
/// Pieces that are read at once.
const PIECES: i64 = 4;

/// Artifacts in the database of a [`PostgresFleet`]. Its calls block, and are made outside of asynchronous code.
#[derive(Debug)]
pub struct PostgresArtifacts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    writer: Connection,
    reader: Connection,
}

impl Inner {
    /// Pieces of an upload from the one that holds an offset on.
    async fn pieces(session: &Session, upload: &str, offset: u64) -> Result<Vec<(u64, Vec<u8>)>, Problem> {
        const READ: &str = "
            SELECT at, data FROM artifact_pieces
            WHERE upload = $1 AND at >= coalesce(
                (SELECT max(at) FROM artifact_pieces WHERE upload = $1 AND at <= $2), 0)
            ORDER BY at LIMIT $3";
        let params: Vec<Param> = vec![Box::new(upload.to_owned()), Box::new(integer(offset)), Box::new(PIECES)];
        let rows = session.query(READ, &params).await?;
        rows.iter().map(|row| Ok((natural(get(row, 0)?), get(row, 1)?))).collect()
    }

    fn write(&self, text: &str, params: &[Param]) -> Result<u64, Problem> {
        self.run(async { self.writer.session().await?.execute(text, params).await })
    }

    fn numbers(&self, connection: &Connection, text: &str, params: &[Param]) -> Result<Option<u64>, Problem> {
        let rows = self.run(async { connection.session().await?.query(text, params).await })?;
        rows.first().map(|row| Ok(natural(get(row, 0)?))).transpose()
    }

    fn names(&self, text: &str, params: &[Param]) -> Result<Vec<String>, Problem> {
        let rows = self.run(async { self.reader.session().await?.query(text, params).await })?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

fn name(text: &str) -> Param {
    Box::new(text.to_owned())
}

impl PostgresFleet {
    /// Artifacts in this database.
    #[must_use]
    pub fn artifacts(&self) -> PostgresArtifacts {
        let (writer, reader) = (self.target.writer(), self.target.reader());
        PostgresArtifacts(Arc::new(Inner { runtime: Handle::current(), writer, reader }))
    }
}

impl ArtifactBackend for PostgresArtifacts {
    fn begin(&self, upload: &str) -> Result<(), Problem> {
        let insert = "INSERT INTO artifact_contents (upload, bytes) VALUES ($1, 0)";
        self.0.write(insert, &[name(upload)]).map(drop)
    }

    fn received(&self, upload: &str) -> Result<u64, Problem> {
        let select = "SELECT bytes FROM artifact_contents WHERE upload = $1 AND sha256 IS NULL";
        self.0.numbers(&self.0.writer, select, &[name(upload)])?.ok_or_else(unknown_upload)
    }

    fn append(&self, upload: &str, offset: u64, bytes: &[u8]) -> Result<u64, Problem> {
        const APPEND: &str = "
            WITH grown AS (
                UPDATE artifact_contents SET bytes = bytes + $3
                WHERE upload = $1 AND bytes = $2 AND sha256 IS NULL RETURNING bytes
            ),
            pieces AS (
                INSERT INTO artifact_pieces SELECT $1, at, data FROM unnest($4::bigint[], $5::bytea[]) AS new (at, data)
                WHERE EXISTS (SELECT 1 FROM grown)
            )
            SELECT bytes FROM grown";
        let pieces: Vec<Vec<u8>> = bytes.chunks(PIECE).map(<[u8]>::to_vec).collect();
        let mut at = offset;
        let begin = |piece: &Vec<u8>| {
            let begins = at;
            at += piece.len() as u64;
            integer(begins)
        };
        let begins: Vec<i64> = pieces.iter().map(begin).collect();
        let params: Vec<Param> = vec![
            name(upload),
            Box::new(integer(offset)),
            Box::new(integer(bytes.len() as u64)),
            Box::new(begins),
            Box::new(pieces),
        ];
        match self.0.numbers(&self.0.writer, APPEND, &params)? {
            Some(stored) => Ok(stored),
            None => Err(wrong_offset(self.received(upload)?)),
        }
    }

    fn check(&self, upload: &str, sha256: &str) -> Result<(), Problem> {
        let total = self.received(upload)?;
        let (found, bytes) = self.0.run(async {
            let session = self.0.reader.session().await?;
            let (mut hash, mut at) = (Sha256::new(), 0);
            while at < total {
                let (before, pieces) = (at, Inner::pieces(&session, upload, at).await?);
                for (begins, data) in &pieces {
                    if *begins != at {
                        break;
                    }
                    hash.update(data);
                    at += data.len() as u64;
                }
                if at == before {
                    break;
                }
            }
            Ok::<_, Problem>((hex(&hash.finalize()), at))
        })?;
        if found == sha256 && bytes == total {
            return Ok(());
        }
        self.discard(upload)?;
        Err(wrong_checksum(&found, sha256))
    }

    fn finish(&self, upload: &str, sha256: &str) -> Result<u64, Problem> {
        let bytes = self.received(upload)?;
        let keep = "UPDATE artifact_contents SET sha256 = $2 WHERE upload = $1
                    AND NOT EXISTS (SELECT 1 FROM artifact_contents WHERE sha256 = $2)";
        if self.0.write(keep, &[name(upload), name(sha256)])? == 0 {
            // The same content is here already.
            self.discard(upload)?;
        }
        Ok(bytes)
    }

    fn discard(&self, upload: &str) -> Result<(), Problem> {
        let delete = "WITH pieces AS (DELETE FROM artifact_pieces WHERE upload = $1)
                      DELETE FROM artifact_contents WHERE upload = $1";
        self.0.write(delete, &[name(upload)]).map(drop)
    }

    fn content(&self, sha256: &str) -> Result<Option<Box<dyn ArtifactContent>>, Problem> {
        let select = "SELECT upload, bytes FROM artifact_contents WHERE sha256 = $1";
        let rows = self.0.run(async { self.0.reader.session().await?.query(select, &[name(sha256)]).await })?;
        let Some(row) = rows.first() else { return Ok(None) };
        let content = Content { place: Arc::clone(&self.0), upload: get(row, 0)?, bytes: natural(get(row, 1)?) };
        Ok(Some(Box::new(content)))
    }

    fn uploads(&self) -> Result<Vec<String>, Problem> {
        self.0.names("SELECT upload FROM artifact_contents WHERE sha256 IS NULL", &[])
    }

    fn shard(&self, first: u8) -> Result<Vec<String>, Problem> {
        // What follows the last digit of a digest ends the last shard.
        let end = first.checked_add(1).map_or_else(|| "g".to_owned(), |next| format!("{next:02x}"));
        let select = "SELECT sha256 FROM artifact_contents WHERE sha256 >= $1 AND sha256 < $2";
        let digests = self.0.names(select, &[name(&format!("{first:02x}")), name(&end)])?;
        Ok(digests.into_iter().filter(|digest| is_digest(digest)).collect())
    }

    fn remove(&self, sha256: &str) -> Result<(), Problem> {
        let delete = "WITH gone AS (DELETE FROM artifact_contents WHERE sha256 = $1 RETURNING upload)
                      DELETE FROM artifact_pieces USING gone WHERE artifact_pieces.upload = gone.upload";
        self.0.write(delete, &[name(sha256)]).map(drop)
    }
}

/// The content of an artifact.
#[derive(Debug)]
struct Content {
    place: Arc<Inner>,
    upload: String,
    bytes: u64,
}

impl ArtifactContent for Content {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let read = async {
            let session = self.place.reader.session().await?;
            let mut data = Vec::new();
            while data.len() < most && offset + (data.len() as u64) < self.bytes {
                let at = offset + data.len() as u64;
                let pieces = Inner::pieces(&session, &self.upload, at).await?;
                let before = data.len();
                for (begins, piece) in pieces {
                    let skipped =
                        usize::try_from((offset + data.len() as u64).saturating_sub(begins)).unwrap_or(usize::MAX);
                    data.extend_from_slice(piece.get(skipped..).unwrap_or_default());
                }
                if data.len() == before {
                    let message = "the artifact was removed while it was read";
                    return Err(Problem::new(Class::NotFound, message));
                }
            }
            data.truncate(most);
            Ok(data)
        };
        self.place.run(read).map_err(io::Error::other)
    }
}
