//! Doing as customers and members do, and looking at what came of it.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc, time::Duration};

use allocation::{AllocationId, MemberId, PoolId, PresenceChange, SubjectKey};
use ledger::{Allocation, Transfer};
use wecom_sim::{ScanRequest, SendRequest};

use crate::{World, eventually};

impl World {
    /// The corp, as the bystander sees it.
    pub fn corp_app(&self) -> &Arc<allocator::app::CorpApp> {
        &self.app.corps[&self.corp]
    }

    /// Waits until decisions are possible.
    pub async fn wait_open(&self) {
        let corp = self.corp_app();
        let pool = PoolId::new("sales").expect("a pool");
        eventually("the corp is open and knows the pool", || async {
            corp.roster.wake(pool.clone(), 1, "", None).await.ok()?;
            let dump = corp.roster.dump().await.ok()?;
            dump.keys
                .keys()
                .any(|key| key.contains("pool:sales"))
                .then_some(())
        })
        .await;
    }

    /// A heartbeat of everybody. A corp that was opened may close and open once more, when two processes begin at once.
    pub async fn all_online(&self) {
        let until = self.app.now_ms() + 3_600_000;
        let members = self.options.members.iter();
        let members: Vec<MemberId> = members
            .map(|(name, _)| MemberId::new(*name).expect("a member"))
            .collect();
        let changes: Vec<PresenceChange> = members
            .iter()
            .map(|member| PresenceChange {
                member: member.clone(),
                lease_until_ms: until,
            })
            .collect();
        let roster = &self.corp_app().roster;
        eventually("everybody is online", || async {
            roster.presence(changes.clone(), "", None).await.ok()?;
            let leases = roster.leases_of(&members).await.ok()?;
            leases.iter().all(|end| *end == Some(until)).then_some(())
        })
        .await;
    }

    /// A customer scans the code of member `desk` with the State of the channel.
    pub fn scan(&self, customer: &str) {
        self.scan_state(customer, "poster");
    }

    pub fn scan_state(&self, customer: &str, state: &str) {
        self.scan_member("desk", state, customer);
    }

    pub fn scan_member(&self, member: &str, state: &str, customer: &str) {
        let scan = ScanRequest::member(member, state)
            .customer(customer)
            .corp(self.corp.as_str());
        self.sim.scan(&scan).expect("a scan");
    }

    /// So many customers scan.
    pub async fn scans(&self, prefix: &str, count: usize) -> Vec<String> {
        let customers: Vec<String> = (0..count).map(|n| format!("{prefix}{n:04}")).collect();
        for customer in &customers {
            self.scan(customer);
        }
        self.sim.advance(Duration::from_millis(1)).await;
        customers
    }

    /// What WeCom says about a pair of member and customer; `more` are further elements.
    pub fn plaintext(&self, change: &str, member: &str, customer: &str, more: &str) -> String {
        format!(
            "<xml><ToUserName><![CDATA[{}]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
             <CreateTime>1792000000</CreateTime><MsgType><![CDATA[event]]></MsgType>\
             <Event><![CDATA[change_external_contact]]></Event><ChangeType><![CDATA[{change}]]></ChangeType>\
             <UserID><![CDATA[{member}]]></UserID><ExternalUserID><![CDATA[{customer}]]></ExternalUserID>{more}</xml>",
            self.corp
        )
    }

    /// Any text, sealed and sent as an event.
    pub fn send(&self, plaintext: String) {
        self.sim
            .send(&SendRequest {
                corp: Some(self.corp.to_string()),
                agent_id: None,
                plaintext,
            })
            .expect("an event");
    }

    pub fn subject(&self, customer: &str) -> SubjectKey {
        SubjectKey::new(&self.corp, "wecom", customer)
    }

    /// All allocations that the customer ever had.
    pub async fn rows(&self, customer: &str) -> Vec<Allocation> {
        let rows = self.app.ledger.allocations();
        rows.of_subject(&self.corp, &self.subject(customer))
            .await
            .expect("the ledger answers")
    }

    /// The open or waiting allocation of a customer, as soon as the ledger has it.
    pub async fn allocated(&self, customer: &str) -> Allocation {
        let subject = self.subject(customer);
        eventually(&format!("{customer} is in the ledger"), || async {
            self.app
                .ledger
                .allocations()
                .open_of(&self.corp, &subject)
                .await
                .ok()?
                .pop()
        })
        .await
    }

    /// The last allocation of a customer, as soon as it is settled.
    pub async fn settled(&self, customer: &str) -> Allocation {
        let subject = self.subject(customer);
        eventually(&format!("{customer} is settled"), || async {
            let rows = self.app.ledger.allocations();
            let row = rows.of_subject(&self.corp, &subject).await.ok()?.pop()?;
            row.settled_ms.is_some().then_some(row)
        })
        .await
    }

    /// The only transfer of an allocation.
    pub async fn transfer_of(&self, allocation: AllocationId) -> Transfer {
        let transfers = self.app.ledger.transfers();
        let mut transfers = transfers
            .of_allocations(&self.corp, &[allocation])
            .await
            .expect("the ledger answers");
        assert_eq!(transfers.len(), 1, "{transfers:?}");
        transfers.remove(0)
    }

    /// The only transfer of a customer with one allocation.
    pub async fn transfer(&self, customer: &str) -> Transfer {
        self.transfer_of(self.allocated(customer).await.id).await
    }

    /// Waits until every delivery is through, the ledger has all of the log, and no effect is under way.
    pub async fn quiet(&self) {
        let corp = self.corp_app();
        let seen = RefCell::new(String::new());
        let look = || async {
            let stats = corp.inbox.stats(None).await.ok()?;
            let row = self.app.ledger.corps().get(&self.corp).await.ok()??;
            let seq = corp.roster.status().await.ok()?.seq;
            let unfinished = self
                .app
                .ledger
                .outbox()
                .unfinished(Some(&self.corp))
                .await
                .ok()?;
            let waiting: u64 = unfinished.iter().map(|one| one.count).sum();
            *seen.borrow_mut() =
                format!("{stats:?}, log {seq}, ledger {row:?}, effects {unfinished:?}");
            (stats.length == 0 && row.log_seq == seq && waiting == 0).then_some(())
        };
        let limit = tokio::time::Instant::now() + Duration::from_secs(60);
        while look().await.is_none() {
            assert!(
                tokio::time::Instant::now() < limit,
                "it never gets quiet: {}",
                seen.borrow()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every customer has exactly one open allocation; answers how many each member has.
    pub async fn each_has_one(&self, customers: &[String]) -> BTreeMap<String, u64> {
        for customer in customers {
            self.allocated(customer).await;
            let rows = self.rows(customer).await;
            let open = rows.iter().filter(|row| row.closed_ms.is_none()).count();
            assert_eq!(
                (rows.len(), open),
                (1, 1),
                "allocations of {customer}: {rows:?}"
            );
        }
        let counts = self
            .app
            .ledger
            .allocations()
            .open_by_member(&self.corp)
            .await
            .expect("the ledger answers");
        counts
            .into_iter()
            .map(|(member, count)| (member.to_string(), count))
            .collect()
    }

    /// Folding the ledger's log gives what Redis has, at a moment when the log stands still: a late duplicate may add
    /// an entry at any time.
    pub(crate) async fn fold_is_state(&self) {
        let corp = self.corp_app();
        let (dump, seq) = eventually("the log stands still", || async {
            let before = corp.roster.status().await.ok()?.seq;
            let dump = corp.roster.dump().await.ok()?;
            let after = corp.roster.status().await.ok()?.seq;
            let written = self.app.ledger.corps().get(&self.corp).await.ok()??.log_seq;
            (before == after && after == written).then_some((dump, after))
        })
        .await;
        let mut state = allocation::model::Corp::new();
        let mut after = 0;
        while after < seq {
            let rows = self
                .app
                .ledger
                .corps()
                .read_log(&self.corp, after, 5_000)
                .await
                .expect("the log");
            for row in rows.iter().filter(|row| row.seq <= seq) {
                state
                    .fold(&row.parse().expect("an entry"))
                    .expect("an entry folds to what it says");
            }
            after = rows.last().map_or(seq, |row| row.seq);
        }
        assert!(
            state.dump() == dump,
            "fold(log) is not what Redis has at entry {seq}"
        );
    }
}
