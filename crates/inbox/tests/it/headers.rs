//! Each script's contract against its body.

use rstest::rstest;

#[rstest]
#[case("ack")]
#[case("append")]
#[case("claim")]
#[case("dead_replay")]
#[case("dirty_done")]
#[case("dirty_take")]
#[case("fail")]
#[case("forget_consumers")]
#[case("inbox_stats")]
#[case("trim")]
fn header_agrees_with_body(#[case] script: &str) {
    let lua = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua");
    test_redis::check_lua_header(format!("{lua}/{script}.lua"));
}
