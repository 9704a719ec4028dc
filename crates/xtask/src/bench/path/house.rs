//! One gateway and one allocator with stores of their own, a pool of members who are all there, and a bystander who
//! looks at the stores.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use allocation::{ChannelId, CorpId, MemberId, PoolId, PresenceChange, Strategy, Weight};
use anyhow::Context;
use inbox::connect::{self, Connection};
use inbox::{Inbox, NewDelivery};
use ledger::{Ledger, NewChannel, NewMember, NewPool, Precondition, Trail};
use redis::streams::{StreamInfoGroupsReply, StreamInfoStreamReply};
use roster::{CorpRoster, Roster};

use crate::bench::callbacks::{CORP, ENDPOINT, STATE, new_customers, plaintext};
use crate::bench::now_ms;
use crate::bench::servers::{Place, Ready, Server, secret};
use crate::bench::store::{Fsync, Store};
use crate::services::{Keep, Package, Postgres, ensure};

pub(super) const MEMBERS: u32 = 50;
pub(super) const AGENT: u32 = 1_000_002;
pub(super) const SECRET: &str = "bench-app-secret";
const POOL: &str = "sales";
const LEASE_MS: u64 = 12 * 3_600_000;
/// Nothing here takes longer.
const LIMIT: Duration = Duration::from_secs(180);

/// What differs between houses.
#[derive(Debug, Clone)]
pub(super) struct Wishes {
    /// Where WeCom is.
    pub(super) wecom: String,
    /// TOML over the allocator's defaults.
    pub(super) allocator: &'static str,
    /// Whether the chosen member gets a card.
    pub(super) card: bool,
}

pub(super) struct House {
    pub(super) _store: Store,
    pub(super) gateway: Server,
    pub(super) allocator: Server,
    pub(super) ledger: Ledger,
    pub(super) roster: CorpRoster<Connection>,
    pub(super) corp: CorpId,
    pub(super) postgres_url: String,
    postgres: Option<Postgres>,
    connection: Connection,
    inbox: Inbox<Connection>,
    folder: PathBuf,
}

impl House {
    pub(super) async fn start(place: &Place, name: &str, wishes: &Wishes) -> anyhow::Result<Self> {
        ensure(&[Package::Redis, Package::Postgres])?;
        let place = Place {
            folder: place.folder.join(name),
            programs: place.programs.clone(),
        };
        std::fs::create_dir_all(&place.folder)?;
        let mut store = Store::start(&place.folder, Keep::Everything)?;
        store.fsync(Fsync::Always)?;
        let postgres = Postgres::start(&place.folder, Keep::Everything, None)?;
        let postgres_url = postgres.url("postgres");
        let corp = CorpId::new(CORP)?;
        let ledger = Ledger::connect(ledger::Config::new(postgres_url.clone())).await?;
        ledger.prepare(std::slice::from_ref(&corp)).await?;
        configure(&ledger, &corp, wishes.card).await?;
        let gateway = Server::gateway(&place, &store.url())?;
        let allocator = allocator(&place, &store, &postgres_url, wishes)?;
        let config = connect::Config::single(&store.url());
        let connection = connect::connect(&config).await?;
        let house = Self {
            roster: Roster::new(connection.clone()).corp(&corp),
            inbox: Inbox::new(connection.clone(), CORP, inbox::Config::default()),
            postgres: Some(postgres),
            folder: place.folder,
            _store: store,
            gateway,
            allocator,
            ledger,
            corp,
            postgres_url,
            connection,
        };
        house.everybody_comes().await?;
        Ok(house)
    }

    async fn everybody_comes(&self) -> anyhow::Result<()> {
        let pool = PoolId::new(POOL)?;
        until(
            "the corp is open and knows its pool",
            Duration::from_millis(20),
            async || {
                let versions = self.roster.pool_versions(std::slice::from_ref(&pool)).await;
                let known = versions.is_ok_and(|versions| versions.iter().any(Option::is_some));
                let status = self.roster.status().await;
                Ok(known && status.is_ok_and(|status| status.generation.is_some()))
            },
        )
        .await?;
        let there = members()?.into_iter().map(|member| PresenceChange {
            member,
            lease_until_ms: now_ms() + LEASE_MS,
        });
        self.roster.presence(there.collect(), "", None).await?;
        Ok(())
    }

    /// Waits until everything that is in the inbox now has been decided.
    pub(super) async fn decided(&self, look_every: Duration) -> anyhow::Result<Instant> {
        self.done_by("decide", look_every).await
    }

    /// Waits until everything that is in the inbox now has been recorded: what comes next is not to pay for it.
    pub(super) async fn recorded(&self) -> anyhow::Result<()> {
        self.done_by("record", Duration::from_millis(5)).await?;
        Ok(())
    }

    async fn done_by(&self, group: &str, look_every: Duration) -> anyhow::Result<Instant> {
        let key = format!("{{{CORP}}}:v1:inbox");
        let connection = self.connection.clone();
        let what = format!("group {group} has done everything");
        until(&what, look_every, async || {
            let mut connection = connection.clone();
            let info = |what: &str| {
                let mut command = redis::cmd("XINFO");
                command.arg(what).arg(&key);
                command
            };
            let stream: StreamInfoStreamReply = info("STREAM").query_async(&mut connection).await?;
            let groups: StreamInfoGroupsReply = info("GROUPS").query_async(&mut connection).await?;
            let done = groups
                .groups
                .iter()
                .find(|found| found.name == group)
                .is_some_and(|group| {
                    group.pending == 0 && group.last_delivered_id == stream.last_generated_id
                });
            Ok(done)
        })
        .await?;
        Ok(Instant::now())
    }

    /// Waits until everything that is in the inbox now is decided and committed in Postgres.
    pub(super) async fn committed(&self, look_every: Duration) -> anyhow::Result<Instant> {
        self.decided(look_every).await?;
        let seq = self.roster.status().await?.seq;
        until("everything is committed", look_every, async || {
            let row = self.ledger.corps().get(&self.corp).await?;
            Ok(row.is_some_and(|row| row.log_seq >= seq))
        })
        .await?;
        Ok(Instant::now())
    }

    pub(super) async fn allocations(&self) -> anyhow::Result<i64> {
        let query = sqlx::query_scalar("SELECT count(*) FROM allocations");
        Ok(query.fetch_one(self.ledger.pool()).await?)
    }

    /// Puts deliveries into the inbox without a gateway.
    pub(super) async fn fill(&self, count: usize) -> anyhow::Result<()> {
        let timestamp = (now_ms() / 1000).to_string();
        let deliveries: Vec<NewDelivery> = new_customers(count)
            .iter()
            .map(|added| NewDelivery::new(ENDPOINT, now_ms(), plaintext(added, &timestamp)))
            .collect();
        for batch in deliveries.chunks(256) {
            self.inbox.append(batch).await?;
        }
        Ok(())
    }

    pub(super) fn stop_postgres(&mut self) {
        self.postgres = None;
    }

    /// At the same address again.
    pub(super) fn start_postgres(&mut self, port: u16) -> anyhow::Result<()> {
        self.postgres = Some(Postgres::start(&self.folder, Keep::Everything, Some(port))?);
        Ok(())
    }

    pub(super) fn postgres_port(&self) -> anyhow::Result<u16> {
        let postgres = self.postgres.as_ref().context("Postgres is stopped")?;
        Ok(postgres.port())
    }
}

pub(super) fn members() -> anyhow::Result<Vec<MemberId>> {
    (1..=MEMBERS)
        .map(|number| Ok(MemberId::new(format!("staff-{number}"))?))
        .collect()
}

async fn configure(ledger: &Ledger, corp: &CorpId, card: bool) -> anyhow::Result<()> {
    let trail = Trail::system(now_ms(), "bench");
    let mut weights = Vec::new();
    for (number, member) in members()?.into_iter().enumerate() {
        let new = NewMember {
            userid: member.to_string(),
            cap: None,
            blocked: None,
            ..NewMember::default()
        };
        let table = ledger.members();
        table
            .put(corp, &member, &new, Precondition::None, &trail)
            .await?;
        weights.push((
            member,
            Weight::from_thousandths((number as u32 % 6 + 1) * 1_000)?,
        ));
    }
    let pool = PoolId::new(POOL)?;
    let new = NewPool {
        name: POOL.to_owned(),
        strategy: Strategy::WeightedRoundRobin,
        load_window_seconds: None,
        offers: None,
        routing: Default::default(),
        members: weights,
        limits: Default::default(),
    };
    ledger
        .pools()
        .put(corp, &pool, &new, Precondition::None, &trail)
        .await?;
    let new = NewChannel {
        name: STATE.to_owned(),
        pool,
        states: vec![STATE.to_owned()],
        welcome: None,
        card,
        needs: Vec::new(),
        limits: ledger::ChannelLimits::default(),
        visits: None,
    };
    let channel = ChannelId::new(STATE)?;
    ledger
        .channels()
        .put(corp, &channel, &new, Precondition::None, &trail)
        .await?;
    Ok(())
}

fn allocator(
    place: &Place,
    store: &Store,
    postgres_url: &str,
    wishes: &Wishes,
) -> anyhow::Result<Server> {
    let database = secret(&place.folder, "postgres_url", postgres_url)?;
    let app = secret(&place.folder, "app_secret", SECRET)?;
    Server::start(place, "allocator", Ready::SaysSo, |address, admin| {
        let text = format!(
            "{}\n[http]\nlisten = \"{address}\"\nadmin_listen = \"{admin}\"\n[redis]\nurl = \"{}\"\n\
             [postgres]\nurl = \"{database}\"\n[wecom]\nbase_url = \"{}\"\n[audit]\nperiod_ms = 0\n\
             [corps.{CORP}]\nagent_id = {AGENT}\nsecret = \"{app}\"\ndefault_pool = \"{POOL}\"\n",
            wishes.allocator,
            store.url(),
            wishes.wecom,
        );
        let file = place.folder.join("allocator.toml");
        std::fs::write(&file, text)?;
        let args = vec![
            "--config".to_owned(),
            file.display().to_string(),
            "serve".to_owned(),
        ];
        Ok((place.programs.path("allocator"), args))
    })
}

/// Looks until it is so.
pub(super) async fn until(
    what: &str,
    look_every: Duration,
    mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_so().await? {
        anyhow::ensure!(start.elapsed() < LIMIT, "waited {LIMIT:?} in vain: {what}");
        tokio::time::sleep(look_every).await;
    }
    Ok(())
}
