//! The rules of the fake. Numbers without a source in WeCom's documentation say so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

/// Where time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// Stands still until `POST /sim/clock` moves it.
    Virtual,
    /// Runs by itself, `speed` times as fast as the wall clock. Can be moved too.
    Real,
}

rules! {
    /// The clock. Read at the start only.
    ClockConfig {
        /// Virtual or real.
        mode: ClockMode = ClockMode::Virtual,
        /// First instant, milliseconds since the epoch. Default: 1792000000000, or now in real mode.
        start_ms: Option<i64> = None,
        /// Simulated seconds per real second, in real mode.
        speed: f64 = 1.0,
    }
}

rules! {
    /// Calls per minute and hour; 0 lifts one.
    Rate {
        /// Per minute.
        minute: u64 = 0,
        /// Per hour.
        hour: u64 = 0,
    }
}

impl Rate {
    /// Both at once.
    pub const fn new(minute: u64, hour: u64) -> Self {
        Self { minute, hour }
    }
}

/// Whether WeCom counts in fixed or sliding windows is unknown, so both can be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// The minute and the hour of the clock.
    Fixed,
    /// The last 60 s and 60 min, in steps of a sixtieth.
    Sliding,
}

/// Limits of one API, instead of the general ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiLimit {
    /// Per corp, instead of [`Limits::corp_api`].
    pub rate: Option<Rate>,
    /// Instead of [`Limits::in_flight`].
    pub in_flight: Option<u32>,
}

rules! {
    /// The counter of wrong secrets per address. 2000 an hour is what WeCom's staff named.
    WrongSecret {
        /// So many failures …
        attempts: u64 = 2_000,
        /// … within this time …
        window_ms: i64 = 3_600_000,
        /// … answer 45009 to every gettoken of that address for this long.
        block_ms: i64 = 3_600_000,
    }
}

rules! {
    /// Quotas and concurrency. 0 lifts a single limit, `enabled = false` all of them.
    Limits {
        /// Master switch; off for benchmarks.
        enabled: bool = true,
        /// How windows move.
        window: WindowKind = WindowKind::Fixed,
        /// Per corp and API → 45009.
        corp_api: Rate = Rate::new(10_000, 150_000),
        /// Per caller address and API → 45009.
        ip_api: Rate = Rate::new(20_000, 600_000),
        /// Calls of one API in flight per corp; one more → 45033.
        in_flight: u32 = 5,
        /// Exceptions by API name.
        per_api: BTreeMap<String, ApiLimit> = BTreeMap::new(),
        /// How long 45009 lasts once the minute rule is broken.
        block_minute_ms: i64 = 60_000,
        /// How long 45009 lasts once the hour rule is broken.
        block_hour_ms: i64 = 3_600_000,
        /// Two writers on one record → 45035 (mark_tag per member and customer, resigned transfers per taker).
        same_record: bool = true,
        /// App messages per member; the surplus is dropped without a word.
        member_messages: Rate = Rate::new(30, 1_000),
        /// App messages per account of the corp, app and day → 45009.
        messages_per_account: u64 = 200,
        /// Messages a minute per webhook → 45009.
        webhook_minute: u64 = 20,
        /// Wrong secrets per address.
        wrong_secret: WrongSecret = WrongSecret::default(),
        /// Contact and join ways per corp, together → 41045.
        contact_ways: usize = 500_000,
        /// Members per contact way → 41041.
        members_per_way: usize = 100,
        /// Groups per join way → 41091.
        chats_per_way: usize = 5,
        /// Visible members beyond which `groupchat/list` must name owners → 81017.
        visible_owners: usize = 1_000,
        /// Corp tags per corp → 40126.
        corp_tags: usize = 10_000,
        /// Corp tags per customer and member → 40144. WeCom's number is not published.
        tags_per_customer: usize = 0,
    }
}

/// What a second gettoken inside the life of a token does. WeCom's page no longer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatToken {
    /// The same token again, with what is left of its life.
    Same,
    /// A new one; the old one stays valid.
    NewKeepsOld,
    /// A new one; the old one is dead at once (40014).
    NewKillsOld,
}

rules! {
    /// Access tokens.
    TokenRules {
        /// Life in seconds.
        life_s: i64 = 7_200,
        /// Repeated gettoken.
        repeat: RepeatToken = RepeatToken::Same,
    }
}

rules! {
    /// What customers do with a transfer, as probabilities; the rest lets it complete. Default: all complete.
    Outcomes {
        /// Refuses at a random moment.
        refuse: f64 = 0.0,
        /// The taker is said to be full in the end (status 4).
        cap: f64 = 0.0,
        /// Accepts at a random moment. Not documented by WeCom, but its fields allow it.
        early: f64 = 0.0,
    }
}

/// Which tags go to the taker. WeCom's pages are silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagsCopied {
    /// None.
    None,
    /// Corp tags.
    Corp,
    /// Corp and personal tags.
    All,
}

rules! {
    /// Transfers.
    TransferRules {
        /// From start to completion when the customer does nothing.
        complete_after_ms: i64 = 86_400_000,
        /// The window of the move limit in natural days.
        window_days: i64 = 90,
        /// Moves of one customer in the window; one more → 40128. 0 lifts it.
        max_moves: usize = 2,
        /// Refused moves count too. WeCom does not say.
        count_refused: bool = true,
        /// A second start while one is running → 40129. Off only to prove that a check can fail.
        refuse_running: bool = true,
        /// Customers' behaviour unless scripted.
        outcomes: Outcomes = Outcomes::default(),
        /// A row of `transfer_result` appears after a random part of this.
        visible_after_ms: i64 = 0,
        /// Tags of the new relation.
        tags_copied: TagsCopied = TagsCopied::None,
        /// Remark and description of the new relation.
        remark_copied: bool = false,
        /// The add event of a completed transfer carries a WelcomeCode.
        welcome_code: bool = false,
        /// After a refusal the old relation stays, in service.
        refused_keeps_old: bool = true,
        /// After a refusal the old relation stays, resigned.
        refused_resigned_keeps_old: bool = false,
        /// Zone of "natural day", minutes east of UTC.
        zone_minutes: i64 = 480,
    }
}

rules! {
    /// People who scan, and what welcomes them.
    PeopleRules {
        /// Life of a WelcomeCode.
        welcome_life_ms: i64 = 20_000,
        /// After one app sent a welcome, the others get 41096 for this long, then 41051.
        distributing_ms: i64 = 1_000,
        /// Share of scans of skip-verify ways that begin as a half-add.
        half_add_rate: f64 = 0.0,
        /// From half-add to add.
        half_confirm_ms: i64 = 1_000,
        /// `externalcontact/get` shows a removed follower for this long.
        read_lag_ms: i64 = 0,
    }
}

rules! {
    /// Customer groups. WeCom publishes none of the numbers about size, rooms and lag.
    GroupRules {
        /// Members of the corp included; from here on a join way lets nobody in.
        scan_cap: usize = 200,
        /// From here on nobody can be invited either.
        hard_cap: usize = 500,
        /// From the scan that found all groups full until the automatic room exists. Who scans meanwhile waits
        /// for it.
        room_delay_ms: i64 = 0,
        /// An automatic room enters `chat_id_list` while that has room; otherwise only WeCom knows of it.
        room_listed: bool = true,
        /// `groupchat/get` is behind the events by a random part of this.
        read_lag_ms: i64 = 3_000,
        /// Groups of one person that change owner in a natural day. 0 lifts it.
        moves_per_day: u64 = 300,
        /// What the next one gets. WeCom names no code.
        moves_per_day_code: i32 = 45_009,
        /// Moves of one group of an owner in service in the window. 0 lifts it.
        max_moves: usize = 2,
        /// The window in natural days.
        window_days: i64 = 90,
        /// What one more gets. WeCom names no code.
        max_moves_code: i32 = 40_128,
        /// How long a group of an owner who left is being inherited (status 2).
        inherit_ms: i64 = 60_000,
        /// Share of accepted moves after which the owner is who he was.
        move_ignored_rate: f64 = 0.0,
        /// A change of owner by API raises `change_owner`. WeCom does not say.
        move_events: bool = false,
    }
}

rules! {
    /// Lists.
    Paging {
        /// An older cursor → 50100. 0 = never.
        cursor_life_ms: i64 = 3_600_000,
        /// No page is longer than this, whatever the limit asked. 0 = off.
        cap: usize = 0,
    }
}

rules! {
    /// "Too many failures → events are dropped for a while".
    GiveUp {
        /// So many failed events in a row; 0 = never.
        after: u64 = 0,
        /// How long events are dropped then.
        for_ms: i64 = 60_000,
    }
}

rules! {
    /// Delivery of events. Times of the network are real, delays of WeCom are simulated.
    CallbackRules {
        /// Off: events are counted, not sent.
        enabled: bool = true,
        /// Real time until an unanswered delivery is given up and sent again.
        timeout_ms: u64 = 5_000,
        /// Deliveries after the first.
        retries: u32 = 3,
        /// Also after an answer other than 200. WeCom's pages contradict each other.
        retry_on_status: bool = true,
        /// Real pause between deliveries.
        retry_pause_ms: u64 = 0,
        /// Real time a URL verification may take.
        verify_timeout_ms: u64 = 1_000,
        /// Share of events that are sent more than once.
        duplicate_rate: f64 = 0.0,
        /// How often such an event is sent in all.
        duplicate_copies: u32 = 2,
        /// Share of events that are held back so that later ones overtake them.
        reorder_rate: f64 = 0.0,
        /// For how long (simulated, random up to this).
        reorder_within_ms: i64 = 5_000,
        /// Share of events that are never sent.
        loss_rate: f64 = 0.0,
        /// Every event leaves after a random time up to this (simulated).
        delay_ms: i64 = 0,
        /// Deliveries in flight, and keep-alive connections per URL. Read at the start only.
        connections: usize = 64,
        /// Dropping after failures.
        give_up: GiveUp = GiveUp::default(),
    }
}

rules! {
    /// Time a call takes (real), log-normal.
    Latency {
        /// Off by default.
        enabled: bool = false,
        /// Median.
        p50_ms: f64 = 60.0,
        /// 99th percentile.
        p99_ms: f64 = 800.0,
        /// Share of calls that stall.
        stall_rate: f64 = 0.0,
        /// For how long.
        stall_ms: u64 = 3_000,
    }
}

rules! {
    /// What is kept. Counters are exact whatever is kept.
    LogRules {
        /// Last calls kept; 0 = off.
        calls: usize = 100_000,
        /// Last messages kept (app messages, webhooks, welcomes); 0 = off.
        messages: usize = 10_000,
    }
}

rules! {
    /// What `GET /sim/check` forgives.
    CheckRules {
        /// Calls per block that may have been on their way when it began.
        excused_per_block: u64 = 4,
        /// gettoken calls of one app in one minute.
        gettoken_per_minute: u64 = 10,
        /// gettoken failures of one app in a row.
        gettoken_failures: u64 = 3,
    }
}
