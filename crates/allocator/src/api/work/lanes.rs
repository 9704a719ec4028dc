//! Who works on what: long work holds up no other.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{LEASE_MS, take};
use crate::{
    app::{App, CorpApp},
    backoff::{Backoff, sleep},
};

/// How often an idle worker looks.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Lane {
    /// Everything but the others.
    Ordinary,
    Simulations,
    /// They wait for WeCom's quota.
    Imports,
}

/// Works until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    work(&app, &corp, &stop, Lane::Ordinary).await;
}

/// The same for simulations.
pub async fn run_simulations(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    work(&app, &corp, &stop, Lane::Simulations).await;
}

/// The same for imports of groups.
pub async fn run_imports(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    work(&app, &corp, &stop, Lane::Imports).await;
}

async fn work(app: &App, corp: &CorpApp, stop: &CancellationToken, lane: Lane) {
    let mut backoff = Backoff::store();
    while !stop.is_cancelled() {
        let turn = async {
            match lane {
                Lane::Ordinary => turn(app, corp, stop).await,
                Lane::Simulations => simulation_turn(app, corp, stop).await,
                Lane::Imports => import_turn(app, corp, stop).await,
            }
        };
        match turn.await {
            Ok(true) => backoff.reset(),
            Ok(false) => {
                backoff.reset();
                sleep(IDLE, stop).await;
            }
            Err(error) => {
                tracing::warn!(corp = %corp.id, error = %error, "operations wait");
                backoff.wait(stop).await;
            }
        }
    }
}

/// Takes one operation to its end, if there is one; false: there is none.
pub async fn turn(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
) -> Result<bool, ledger::Error> {
    let operations = app.ledger.operations();
    let claimed = operations.claim(&corp.id, LEASE_MS, app.now_ms()).await?;
    take(app, corp, stop, claimed).await
}

/// The same for a simulation.
pub async fn simulation_turn(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
) -> Result<bool, ledger::Error> {
    let operations = app.ledger.operations();
    let claimed = operations.claim_simulation(&corp.id, LEASE_MS, app.now_ms());
    take(app, corp, stop, claimed.await?).await
}

/// The same for an import of groups.
pub async fn import_turn(
    app: &App,
    corp: &CorpApp,
    stop: &CancellationToken,
) -> Result<bool, ledger::Error> {
    let operations = app.ledger.operations();
    let claimed = operations.claim_import(&corp.id, LEASE_MS, app.now_ms());
    take(app, corp, stop, claimed.await?).await
}
