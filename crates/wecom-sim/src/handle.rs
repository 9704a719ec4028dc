//! The simulator inside a process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;

use crate::admin::{
    CallFilter, CallRecord, CheckQuery, CheckReport, ClockReply, ClockRequest, Counters,
    CustomerScript, CustomerState, DeleteRequest, EditRequest, GroupChange, GroupRequest,
    GroupState, GroupsMade, InviteRequest, JoinReply, JoinRequest, LeaveReply, LeaveRequest,
    MessageRecord, ScanReply, ScanRequest, SendRequest, StateDump, TagRequest, TransferEnd,
    Verified, router,
};
use crate::config::{ClockMode, Config, CorpConfig, Fault, MemberConfig};
use crate::fault::ArmedFault;
use crate::world::World;
use crate::{Error, callback, clock, server};

/// The fake WeCom.
#[derive(Debug)]
pub struct Sim;

impl Sim {
    /// Starts on the current Tokio runtime and serves `listener` until [`SimHandle::shutdown`].
    pub async fn start(config: Config, listener: TcpListener) -> Result<SimHandle, Error> {
        let addr = listener.local_addr()?;
        let world = World::new(config)?;
        let admin = router(Arc::clone(&world));
        world
            .tasks
            .spawn(server::run(Arc::clone(&world), listener, admin));
        world.tasks.spawn(callback::run(Arc::clone(&world)));
        if world.clock.mode() == ClockMode::Real {
            world.tasks.spawn(clock::run(Arc::clone(&world)));
        }
        Ok(SimHandle { addr, world })
    }
}

/// A running simulator. Dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct SimHandle {
    /// Where it listens.
    pub addr: SocketAddr,
    world: Arc<World>,
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.world.stop.cancel();
    }
}

impl SimHandle {
    /// What takes the place of `https://qyapi.weixin.qq.com`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Stops: no new connections, calls and callbacks on their way are cut off.
    pub async fn shutdown(self) {
        self.world.stop.cancel();
        self.world.tasks.close();
        self.world.tasks.wait().await;
    }

    /// Simulated time.
    pub fn now_ms(&self) -> i64 {
        self.world.now_ms()
    }

    /// Clock and what is pending.
    pub fn clock(&self) -> ClockReply {
        self.world.clock_reply()
    }

    /// Moves the clock forward; whatever falls due happens before this returns. Callbacks may still be on
    /// their way, see [`SimHandle::idle`].
    pub async fn advance(&self, by: Duration) -> ClockReply {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        clock::advance_to(&self.world, self.world.now_ms().saturating_add(by_ms)).await;
        self.world.clock_reply()
    }

    /// Moves the clock as the admin route does.
    pub async fn move_clock(&self, request: &ClockRequest) -> Result<ClockReply, Error> {
        self.world.move_clock(request).await
    }

    /// Returns when no callback is queued or being delivered.
    pub async fn idle(&self) {
        self.world.callbacks.idle().await;
    }

    /// The configuration as it is now.
    pub fn config(&self) -> Config {
        self.world.config()
    }

    /// Replaces the configuration; what the corps hold stays.
    pub fn put_config(&self, config: Config) -> Result<(), Error> {
        self.world.put_config(config)
    }

    /// Changes parts of the configuration (JSON merge patch).
    pub fn patch_config(&self, patch: &Value) -> Result<(), Error> {
        self.world.patch_config(patch)
    }

    /// Adds or replaces a corp.
    pub fn put_corp(&self, corp: CorpConfig) -> Result<(), Error> {
        self.world.put_corp(corp)
    }

    /// Changes or adds a member (JSON merge patch), for example `{"status": 5}`: he leaves.
    pub fn patch_member(
        &self,
        corp: Option<&str>,
        userid: &str,
        patch: &Value,
    ) -> Result<MemberConfig, Error> {
        self.world.patch_member(corp, userid, patch)
    }

    /// Customers scan.
    pub fn scan(&self, request: &ScanRequest) -> Result<ScanReply, Error> {
        self.world.scan(request)
    }

    /// Somebody deletes somebody.
    pub fn delete(&self, request: &DeleteRequest) -> Result<(), Error> {
        self.world.delete(request)
    }

    /// A member edits a customer.
    pub fn edit(&self, request: &EditRequest) -> Result<(), Error> {
        self.world.edit(request)
    }

    /// A member makes customer groups.
    pub fn make_groups(&self, request: &GroupRequest) -> Result<GroupsMade, Error> {
        self.world.make_groups(request)
    }

    /// People scan a join way.
    pub fn join(&self, request: &JoinRequest) -> Result<JoinReply, Error> {
        self.world.join(request)
    }

    /// People are brought into a group past every join way.
    pub fn invite(&self, request: &InviteRequest) -> Result<JoinReply, Error> {
        self.world.invite(request)
    }

    /// People leave groups, or are removed.
    pub fn leave(&self, request: &LeaveRequest) -> Result<LeaveReply, Error> {
        self.world.leave(request)
    }

    /// A member changes the name, owner or notice of a group.
    pub fn change_group(&self, chat_id: &str, change: &GroupChange) -> Result<GroupState, Error> {
        self.world.change_group(chat_id, change)
    }

    /// The owner of a group dismisses it.
    pub fn dismiss_group(&self, corp: Option<&str>, chat_id: &str) -> Result<(), Error> {
        self.world.dismiss_group(corp, chat_id)
    }

    /// One group with its members.
    pub fn group(&self, corp: Option<&str>, chat_id: &str) -> Result<GroupState, Error> {
        self.world.group(corp, chat_id)
    }

    /// All groups, oldest first, without their members.
    pub fn groups(&self, corp: Option<&str>) -> Result<Vec<GroupState>, Error> {
        self.world.groups(corp)
    }

    /// An administrator changes corp tags; the ids that changed.
    pub fn change_tags(&self, request: &TagRequest) -> Result<Vec<String>, Error> {
        self.world.change_tags(request)
    }

    /// What a customer does with his next transfers; `None` for chance.
    pub fn script(
        &self,
        corp: Option<&str>,
        customer: &str,
        script: Option<CustomerScript>,
    ) -> Result<(), Error> {
        self.world.script(corp, customer, script)
    }

    /// Ends the running transfer of a customer now.
    pub fn end_transfer(
        &self,
        corp: Option<&str>,
        customer: &str,
        end: TransferEnd,
    ) -> Result<(), Error> {
        self.world.end_transfer(corp, customer, end)
    }

    /// One customer.
    pub fn customer(&self, corp: Option<&str>, customer: &str) -> Result<CustomerState, Error> {
        self.world.customer(corp, customer)
    }

    /// Kills valid tokens before their time; how many.
    pub fn invalidate_tokens(&self, corp: Option<&str>, agent_id: Option<u32>) -> u64 {
        self.world.kill_tokens(corp, agent_id)
    }

    /// Puts a fault in force; its id.
    pub fn add_fault(&self, fault: Fault) -> Result<String, Error> {
        self.world.faults.add(fault, self.world.now_ms())
    }

    /// Faults in force.
    pub fn faults(&self) -> Vec<ArmedFault> {
        self.world.faults.list()
    }

    /// Removes a fault; calls it held go on. False when there was none.
    pub fn remove_fault(&self, id: &str) -> bool {
        self.world.faults.remove(Some(id)) > 0
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.world.faults.remove(None);
    }

    /// Sends any plaintext as a sealed callback; to how many apps.
    pub fn send(&self, request: &SendRequest) -> Result<u64, Error> {
        self.world.send(request)
    }

    /// Verifies callback URLs by GET.
    pub async fn verify_urls(
        &self,
        corp: Option<&str>,
        agent_id: Option<u32>,
    ) -> Result<Vec<Verified>, Error> {
        self.world.verify_urls(corp, agent_id).await
    }

    /// What the corps hold.
    pub fn state(&self, corp: Option<&str>) -> Result<StateDump, Error> {
        self.world.state(corp)
    }

    /// The last calls.
    pub fn calls(&self, filter: &CallFilter) -> Vec<CallRecord> {
        self.world.log.list(filter)
    }

    /// The last messages, webhooks and welcomes.
    pub fn messages(&self) -> Vec<MessageRecord> {
        self.world.messages.list()
    }

    /// Exact counters.
    pub fn counters(&self) -> Counters {
        self.world.counters()
    }

    /// Whether the caller behaved.
    pub fn check(&self) -> CheckReport {
        self.world.check(&CheckQuery::default())
    }

    /// The same with expectations of the test.
    pub fn check_with(&self, query: &CheckQuery) -> CheckReport {
        self.world.check(query)
    }
}
