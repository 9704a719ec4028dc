use test_redis::check_lua_header;

#[test]
fn the_headers_of_all_scripts_agree_with_their_bodies() {
    let scripts = [
        "budget_take",
        "budget_renew",
        "budget_give",
        "budget_block",
        "budget_read",
        "fence_seed",
        "lock_acquire",
        "lock_renew",
        "lock_release",
        "token_load",
        "token_store",
        "token_lease",
        "token_release",
    ];
    for script in scripts {
        check_lua_header(format!(
            "{}/../../lua/{script}.lua",
            env!("CARGO_MANIFEST_DIR")
        ));
    }
}
