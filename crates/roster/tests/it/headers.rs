//! Every script's header against its body, as it is sent to Redis.

use std::path::Path;

use test_redis::lua_header_problems;

const OPERATIONS: [&str; 20] = [
    "decide",
    "close",
    "settle",
    "reassign",
    "presence",
    "set_member",
    "set_channel",
    "set_pool",
    "remove_pool",
    "wake",
    "visit",
    "confirm",
    "expire",
    "set_slots",
    "adjust",
    "respond",
    "reclaim",
    "set_skills",
    "advance",
    "note",
];
const SEATS: [&str; 9] = [
    "reserve_seat",
    "release_seat",
    "confirm_seat",
    "set_group_pool",
    "remove_group_pool",
    "set_group",
    "remove_group",
    "wake_seats",
    "forget_seats",
];
const OTHERS: [&str; 7] = [
    "rebuild_begin",
    "rebuild_wipe",
    "rebuild_restore",
    "rebuild_open",
    "state_check",
    "state_scan",
    "group_read",
];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../lua")
        .join(format!("{name}.lua"));
    std::fs::read_to_string(&path).unwrap()
}

/// The keys that the included state derives stand in its own header; here they are declared for the reader.
const DERIVED: &str = "\
-- Derived  state any {corp}:v1:member:<m>
-- Derived  state any {corp}:v1:pool:<p>
-- Derived  state any {corp}:v1:class:<w>:<p>
-- Derived  state any {corp}:v1:least:<p>
-- Derived  state any {corp}:v1:waiting:<p>
-- Derived  state any {corp}:v1:open:<s>
-- Derived  state any {corp}:v1:past:<s>
-- Derived  state any {corp}:v1:slot:<id>
-- Derived  state any {corp}:v1:slots:<c>
-- Derived  state any {corp}:v1:untold:<c>
-- Derived  holds zset {corp}:v1:holds
-- Derived  alarms zset {corp}:v1:alarms
-- Derived  offers zset {corp}:v1:offers
-- Derived  rule text {corp}:v1:offer:<p>
-- Derived  offered zset {corp}:v1:offered:<m>
-- Derived  queues zset {corp}:v1:queues:<p>
-- Derived  drip text {corp}:v1:drip:<p>
-- Derived  skill zset {corp}:v1:skill:<s>
-- Derived  patience zset {corp}:v1:patience
-- Derived  gate packed {corp}:v1:gate:<c>
-- Derived  gated zset {corp}:v1:gated:<c>
-- Derived  gates zset {corp}:v1:gates
";

/// The same of seats.
const DERIVED_OF_SEATS: &str = "\
-- Derived  pool text {corp}:v1:gpool:<p>
-- Derived  free zset {corp}:v1:gfree:<p>
-- Derived  group text {corp}:v1:group:<c>
-- Derived  seat text {corp}:v1:seat:<s>
-- Derived  held zset {corp}:v1:gheld:<c>
-- Derived  held zset {corp}:v1:ganon:<c>
-- Derived  queue zset {corp}:v1:gwait:<p>
-- Derived  queues zset {corp}:v1:gqueues:<p>
-- Derived  ends zset {corp}:v1:gends
-- Derived  pasts zset {corp}:v1:gpast
";
/// What only some of them derive.
const SOMETIMES: [(&str, &str); 2] = [
    (
        "'groups:'",
        "-- Derived  groups zset {corp}:v1:groups:<p>\n",
    ),
    (
        "'people:'",
        "-- Derived  people hash {corp}:v1:people:<c>\n",
    ),
];

#[test]
fn headers_agree_with_bodies() {
    // The state joins all arguments for the log, however many there are.
    let operation = read("corp_operation").replace("concat(ARGV, FIELD, 3)", "args");
    let state = read("roster_state");
    let visits = read("roster_visits");
    let limits = read("roster_limits");
    let credit = read("roster_credit");
    let offers = read("roster_offers");
    let without = read("roster_pick_without");
    let move_on = read("roster_move_on");
    let route = read("roster_route");
    let gates = read("roster_gates");
    let waiting = read("roster_waiting");
    let pool = read("roster_pool");
    for name in OPERATIONS {
        let file = read(name);
        assert!(file.contains("-- include roster_state.lua\n"), "{name}");
        let mut derived = DERIVED.to_owned();
        if name == "decide" {
            derived.push_str("-- Derived  request text {corp}:v1:request:<id>\n");
        }
        if name == "set_skills" {
            derived.push_str("-- Derived  skills text {corp}:v1:skills:<m>\n");
        }
        if file.contains("-- include roster_pool.lua\n") {
            derived.push_str("-- Derived  config text {corp}:v1:config:<p>\n");
        }
        // The header ends where the first line without a comment stands.
        let text = file
            .replacen("\n-- Returns", &format!("\n{derived}--\n-- Returns"), 1)
            .replacen("-- include roster_state.lua\n", &state, 1)
            .replacen("-- include roster_visits.lua\n", &visits, 1)
            .replacen("-- include roster_limits.lua\n", &limits, 1)
            .replacen("-- include roster_credit.lua\n", &credit, 1)
            .replacen("-- include roster_offers.lua\n", &offers, 1)
            .replacen("-- include roster_pick_without.lua\n", &without, 1)
            .replacen("-- include roster_move_on.lua\n", &move_on, 1)
            .replacen("-- include roster_gates.lua\n", &gates, 1)
            .replacen("-- include roster_route.lua\n", &route, 1)
            .replacen("-- include roster_waiting.lua\n", &waiting, 1)
            .replacen("-- include roster_pool.lua\n", &pool, 1)
            .replacen("-- include corp_operation.lua\n", &operation, 1);
        assert_eq!(
            lua_header_problems(name, &text),
            Vec::<String>::new(),
            "{name}"
        );
    }
    let seats = read("seats_state");
    let waiting = read("seats_waiting");
    for name in SEATS {
        let file = read(name);
        assert!(file.contains("-- include seats_state.lua\n"), "{name}");
        let mut derived = DERIVED_OF_SEATS.to_owned();
        for (key, line) in SOMETIMES {
            if file.contains(key) {
                derived.push_str(line);
            }
        }
        let text = file
            .replacen("\n-- Returns", &format!("\n{derived}--\n-- Returns"), 1)
            .replacen("-- include seats_state.lua\n", &seats, 1)
            .replacen("-- include seats_waiting.lua\n", &waiting, 1)
            .replacen("-- include corp_operation.lua\n", &operation, 1);
        assert_eq!(
            lua_header_problems(name, &text),
            Vec::<String>::new(),
            "{name}"
        );
    }
    for name in OTHERS {
        assert_eq!(
            lua_header_problems(name, &read(name)),
            Vec::<String>::new(),
            "{name}"
        );
    }
}
