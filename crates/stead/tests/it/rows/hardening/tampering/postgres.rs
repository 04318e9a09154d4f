//! The same tests on PostgreSQL, with fewer mutations, because each needs a copy of the database.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use stead_testkit::{ServerOptions, postgres};

use super::mutation::{Dialect, Mutation, Random};
use super::{copy_files, verify_with, write_records};
use crate::rows::server_with;

/// Returns true if the statements changed anything.
async fn tamper(url: &str, sql: &str) -> Result<bool, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    // This disables foreign keys, which PostgreSQL implements as triggers.
    sqlx::raw_sql("SET session_replication_role = replica").execute(&mut connection).await?;
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
    connection.close().await?;
    Ok(done.rows_affected() > 0)
}

fn url_of(database: stead_store::Database) -> String {
    let stead_store::Database::Postgres(url) = database else { panic!("not PostgreSQL") };
    url
}

#[test]
fn random_mutations_on_postgresql_are_found() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (database, template) = runtime.block_on(postgres::create_database());
    let mut server = server_with(ServerOptions::default().env("STEAD_DATABASE_URL", &url_of(database)));
    write_records(&mut server);
    let copied = copy_files(server.home());
    let verify = |url: &str| verify_with(copied.path(), &[("STEAD_DATABASE_URL", url)], &[]);
    let trigger = "CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
                   CREATE TRIGGER quiet BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION quiet(); \
                   UPDATE owner SET epoch = epoch";
    let mut random = Random::new(7);
    let mut tried = 0;
    while tried < 20 {
        let sql = match tried {
            // Control: an untouched copy is intact, so an exit code of 1 is caused by the mutation.
            0 => "UPDATE owner SET epoch = epoch".to_owned(),
            1 => trigger.to_owned(),
            _ => Mutation::draw_row(Dialect::Postgres, &mut random),
        };
        let (copied, name) = runtime.block_on(postgres::copy_database(&template));
        let url = url_of(copied);
        // A constraint may refuse a mutation; then another one is drawn.
        if runtime.block_on(tamper(&url, &sql)).unwrap_or(false) {
            let (code, output, error) = verify(&url);
            assert_eq!(code, Some(i32::from(tried > 0)), "{sql}: {output} {error}");
            tried += 1;
        }
        runtime.block_on(postgres::drop_database(&name));
    }
    drop(server);
    runtime.block_on(postgres::drop_database(&template));
}
