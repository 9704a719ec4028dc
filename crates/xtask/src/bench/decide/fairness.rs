//! P18: the promise that no member is ever a whole customer away from his share.

use allocation::{Answer, Decision};
use inbox::connect;

use super::corp::{Shape, member};
use super::{CALLERS, Stand, through_our_client};
use crate::bench::Samples;
use crate::bench::row::Sample;

pub(super) async fn round(stand: &mut Stand<'_>, samples: &mut Samples) -> anyhow::Result<()> {
    let shape = Shape::FAIR;
    let corp = stand.open(shape).await?;
    let before = corp.status().await?.seq;
    let config = connect::Config::single(&stand.store.url());
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let connection = connect::connect(&config).await?;
        callers.push(roster::Roster::new(connection).corp(&stand.corp));
    }
    let decisions = stand.bench.size(10_000, 640);
    through_our_client(&callers, decisions).await?;

    let mut counts = Counts::new(shape)?;
    let mut after = before;
    loop {
        let entries = corp.log_read(after, 1_000).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            if let Answer::Decided(decisions) = &entry.outcome.answer {
                for decision in decisions {
                    counts.add(decision)?;
                }
            }
        }
    }
    let expected = (decisions / CALLERS * CALLERS) as u32;
    anyhow::ensure!(
        counts.made == expected,
        "{} decisions in the log",
        counts.made
    );
    samples.add("P18", Sample::figure(counts.farthest, None));
    Ok(())
}

/// How many customers each member has, beside what is his due.
struct Counts {
    names: Vec<String>,
    weights: Vec<f64>,
    sum: f64,
    has: Vec<u32>,
    made: u32,
    farthest: f64,
}

impl Counts {
    fn new(shape: Shape) -> anyhow::Result<Self> {
        let names: anyhow::Result<Vec<String>> = (0..shape.members)
            .map(|number| Ok(member(number)?.to_string()))
            .collect();
        let weights = (0..shape.members).map(|number| f64::from(shape.weight(number)));
        Ok(Self {
            names: names?,
            sum: weights.clone().sum(),
            weights: weights.collect(),
            has: vec![0; shape.members as usize],
            made: 0,
            farthest: 0.0,
        })
    }

    fn add(&mut self, decision: &Decision) -> anyhow::Result<()> {
        let Decision::Assigned { member, .. } = decision else {
            anyhow::bail!("not assigned: {decision:?}");
        };
        let has = self.names.iter().zip(&mut self.has);
        for (_, has) in has.filter(|(name, _)| *name == member.as_str()) {
            *has += 1;
        }
        self.made += 1;
        for (has, weight) in self.has.iter().zip(&self.weights) {
            let due = f64::from(self.made) * weight / self.sum;
            self.farthest = self.farthest.max((f64::from(*has) - due).abs());
        }
        Ok(())
    }
}
