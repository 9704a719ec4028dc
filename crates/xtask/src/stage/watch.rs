//! Whoever of the stage ends by himself is missed at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Stage;
use crate::process::Process;
use crate::progress::say;
use crate::services::{Postgres, Redis};

const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Stage {
    /// Says of each process that it ended and how, once. For scenarios in which nobody is meant to end: it would miss
    /// those that are killed on purpose too.
    pub(crate) async fn watch(&self) -> std::convert::Infallible {
        let mut missed = BTreeSet::new();
        loop {
            for process in self.processes() {
                if let Some(status) = process.ended()
                    && missed.insert(process.id())
                {
                    let log = process.log().display();
                    say(
                        "Warning",
                        &format!(
                            "{} ended ({status}) and is not started again; {}its log is {log}",
                            process.name(),
                            self.rest_is_at(process)
                        ),
                    );
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        let nodes = self.nodes.iter().filter_map(|node| node.process.as_ref());
        nodes
            .chain([&self.sim_process])
            .chain(self.redis_server.as_ref().map(Redis::process))
            .chain(self.postgres_server.as_ref().map(Postgres::process))
    }

    /// Where the REST API is now, if it was at the one that ended.
    fn rest_is_at(&self, gone: &Process) -> String {
        let mut others = Vec::new();
        let mut was_there = false;
        for node in self.allocators() {
            match &node.process {
                Some(process) if process.id() == gone.id() => was_there = true,
                Some(process) if process.is_running() => others.push(node.url.as_str()),
                _ => {}
            }
        }
        match others.first() {
            Some(url) if was_there => format!("the REST API is still at {url}; "),
            _ => String::new(),
        }
    }
}
