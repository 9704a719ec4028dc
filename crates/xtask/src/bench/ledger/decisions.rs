//! Log entries as the allocator's writer reads them, with the changes that follow from each: every customer came to
//! the desk and is handed over to a member of the pool.

use allocation::model::Corp;
use allocation::{
    AllocationId, Answer, CorpId, Decision, LogEntry, MemberId, Op, PoolConfig, PoolId,
    PresenceChange, Request, Strategy, SubjectKey, Weight,
};
use ledger::{
    Change, Customer, DeliveryOutcome, Entry, NewAllocation, NewEffect, NewTransfer, TransferKind,
};
use serde_json::json;
use uuid::Uuid;

use crate::bench::now_ms;

/// Decisions in one log entry: what one read of the inbox brings.
pub(super) const PER_ENTRY: usize = 200;
const MEMBERS: u32 = 50;

pub(super) fn entries(corp: &CorpId, pool: &PoolId, count: usize) -> anyhow::Result<Vec<Entry>> {
    let mut state = Corp::new();
    let now_ms = now_ms();
    let mut entries = Vec::new();
    let mut apply = |op: Op, changes: &dyn Fn(&LogEntry) -> Vec<Change>| {
        let outcome = state.apply(&op, now_ms);
        let entry = LogEntry {
            seq: state.seq(),
            at_ms: now_ms,
            op,
            outcome,
            payload: None,
        };
        let changes = changes(&entry);
        entries.push(Entry::new(&entry, changes));
    };
    let members: Vec<MemberId> = (0..MEMBERS)
        .map(|number| MemberId::new(format!("staff-{number}")))
        .collect::<Result<_, _>>()?;
    let weights = members.iter().map(|member| (member.clone(), Weight::ONE));
    let strategy = Strategy::WeightedRoundRobin;
    let config = PoolConfig::new(pool.clone(), 1, strategy, weights)?;
    apply(Op::SetPool(config), &|_| Vec::new());
    let there = members.iter().map(|member| PresenceChange {
        member: member.clone(),
        lease_until_ms: now_ms + 3_600_000,
    });
    apply(Op::Presence(there.collect()), &|_| Vec::new());

    let desk = MemberId::new("desk")?;
    let customers: Vec<String> = (0..count).map(|n| format!("wmLedger{n:024}")).collect();
    for customers in customers.chunks(PER_ENTRY) {
        let requests = customers.iter().map(|customer| Request {
            allocation: AllocationId(Uuid::now_v7()),
            pool: pool.clone(),
            subject: SubjectKey::new(corp, "wecom", customer),
            holder: Some(desk.clone()),
            request: None,
            echo: true,
            plan: None,
        });
        let changes = |entry: &LogEntry| changes(entry, customers);
        apply(Op::Decide(requests.collect()), &changes);
    }
    Ok(entries)
}

fn changes(entry: &LogEntry, customers: &[String]) -> Vec<Change> {
    let (Op::Decide(requests), Answer::Decided(decisions)) = (&entry.op, &entry.outcome.answer)
    else {
        return Vec::new();
    };
    let each = requests.iter().zip(decisions).zip(customers);
    each.flat_map(|((request, decision), customer)| match decision {
        Decision::Assigned { member, .. } => decided(entry.at_ms, request, member, customer),
        _ => Vec::new(),
    })
    .collect()
}

fn decided(at_ms: u64, request: &Request, member: &MemberId, customer: &str) -> Vec<Change> {
    let transfer = Uuid::now_v7();
    let delivery = format!("{0}{0}", request.subject);
    let giver = request.holder.clone().unwrap_or_else(|| member.clone());
    let effect = |kind: &str, key: String, payload, transfer| NewEffect {
        kind: kind.to_owned(),
        key,
        payload,
        erase_payload: false,
        allocation: Some(request.allocation),
        epoch: Some(0),
        transfer,
        priority: 50,
        due_ms: at_ms,
        deadline_ms: None,
    };
    let handed = json!({"kind": "transfer", "giver": giver.as_str(), "taker": member.as_str()});
    let card = json!({"kind": "member_card", "member": member.as_str(), "channel": "poster"});
    vec![
        Change::Decided(NewAllocation {
            allocation: request.allocation,
            pool: request.pool.clone(),
            subject: request.subject,
            customer: Customer {
                kind: "wecom".to_owned(),
                external_id: Some(customer.to_owned()),
            },
            member: Some(member.clone()),
            giver: Some(giver.clone()),
            channel: None,
            source: "callback".to_owned(),
            delivery: Some(delivery.clone()),
            request: None,
            echo: true,
            plan: None,
            preferred: Vec::new(),
        }),
        Change::Transfer(NewTransfer {
            id: transfer,
            allocation: Some(request.allocation),
            subject: request.subject,
            giver,
            taker: member.clone(),
            kind: TransferKind::InService,
        }),
        Change::Effect(effect(
            "transfer",
            transfer.to_string(),
            handed,
            Some(transfer),
        )),
        Change::Effect(effect(
            "member_card",
            format!("{}:0", request.allocation),
            card,
            None,
        )),
        Change::Delivery(DeliveryOutcome {
            delivery,
            received_ms: at_ms,
            outcome: "decided".to_owned(),
            reason: None,
            allocation: Some(request.allocation),
        }),
    ]
}
