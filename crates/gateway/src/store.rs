//! The way to Redis. It is made when it is first needed: the gateway starts, and verifies URLs, with Redis down.

use std::sync::Arc;

use inbox::{
    Appended, Error, Inbox, NewDelivery,
    connect::{self, Connection, Mode},
};
use tokio::sync::OnceCell;

use crate::config::Config;

/// Redis judges a script that does not promise to write nothing before it runs: read-only, out of memory or with a
/// full disk it is refused as an append would be.
const WOULD_WRITE: &str = "#!lua\nreturn 1";

/// One connection, shared by the lanes of a worker.
pub(crate) struct Store {
    redis: connect::Config,
    inbox: inbox::Config,
    connection: OnceCell<Connection>,
}

impl Store {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            redis: config.redis.clone(),
            inbox: config.inbox.clone(),
            connection: OnceCell::new(),
        }
    }

    async fn connection(&self) -> Result<&Connection, Error> {
        let connect = || async {
            match self.redis.mode {
                Mode::Cluster => connect::connect(&self.redis).await,
                Mode::Single | Mode::Sentinel => connect::connect_lazy(&self.redis),
            }
        };
        self.connection.get_or_try_init(connect).await
    }
}

/// One corp's inbox behind a [`Store`].
pub(crate) struct CorpInbox {
    store: Arc<Store>,
    corp: Arc<str>,
    inbox: OnceCell<Inbox<Connection>>,
}

impl CorpInbox {
    pub(crate) fn new(store: Arc<Store>, corp: &Arc<str>) -> Self {
        Self {
            store,
            corp: Arc::clone(corp),
            inbox: OnceCell::new(),
        }
    }

    pub(crate) async fn append(&self, deliveries: &[NewDelivery]) -> Result<Vec<Appended>, Error> {
        self.inbox().await?.append(deliveries).await
    }

    /// Whether a callback would be stored now; if not, why.
    pub(crate) async fn probe(&self) -> Result<(), String> {
        let inbox = self.inbox().await.map_err(|error| error.to_string())?;
        // Nothing of this key is touched; it leads to the right node of a cluster.
        let key = format!("{{{}}}:v1:inbox", self.corp);
        let mut connection = self
            .store
            .connection()
            .await
            .map_err(|error| error.to_string())?
            .clone();
        let answer = redis::cmd("EVAL")
            .arg(WOULD_WRITE)
            .arg(1)
            .arg(key)
            .query_async::<i64>(&mut connection)
            .await;
        answer.map_err(|error| Error::from(error).to_string())?;
        match inbox.stats(None).await {
            Ok(stats) if stats.length >= inbox.config().max_length => {
                Err("the inbox is full".to_owned())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn inbox(&self) -> Result<&Inbox<Connection>, Error> {
        let open = || async {
            let connection = self.store.connection().await?.clone();
            Ok(Inbox::new(connection, &self.corp, self.store.inbox.clone()))
        };
        self.inbox.get_or_try_init(open).await
    }
}
