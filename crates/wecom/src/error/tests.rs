//! The table against the page it was written from.

use std::net::IpAddr;

use super::*;

#[test]
fn the_table_is_sorted_and_has_no_overlap() {
    assert!(codes::table_is_sorted());
}

/// Codes, class and, where the page names one, what is at fault: copied from the reference page row by row.
const PAGE: &str = "
    -1                                          retry_with_backoff
    6000                                        retry_with_backoff
    40001                                       refresh_token       app
    40014,42001                                 refresh_token       token
    41001,41002,41004                           permanent_config    request
    40013,40091                                 permanent_config    app
    40003                                       permanent_config    employee
    40031,40032                                 permanent_config    request
    40035,40058,40063                           permanent_config    request
    40033                                       permanent_config    request
    40056,301002                                permanent_config    app
    40206                                       permanent_config    request
    45009                                       rate_limited
    45033                                       rate_limited
    45035                                       retry_with_backoff
    45036                                       rate_limited        corp
    45029,81017                                 permanent_config    request
    48001,48002                                 permanent_config    app
    48004,48005,48006,48011                     permanent_config    app
    48010                                       permanent_config
    50002,60011,60021,60030,92000               permanent_config    employee
    50003,60031                                 permanent_config    app
    50100                                       retry_with_backoff  request
    60020,301042                                permanent_config    app
    60111                                       permanent_config    employee
    60003,60123                                 permanent_config    request
    301007                                      permanent_config    corp
    610023,610024                               permanent_config    corp
    701008                                      permanent_config    employee
    701170                                      permanent_config    corp

    40096                                       permanent_customer  customer
    40097                                       permanent_config    employee
    40098                                       permanent_config    takeover
    40099                                       permanent_config    takeover
    40100                                       already_done        customer
    40128                                       permanent_customer  customer
    40129                                       already_done        customer
    40130                                       permanent_config    request
    40131                                       permanent_customer  customer
    40132                                       permanent_config    employee
    40143                                       permanent_config    employee
    40144                                       permanent_customer  customer
    40205                                       permanent_config    employee
    41035,41056                                 permanent_config    request
    84061                                       permanent_customer  customer
    84074                                       permanent_config    employee
    84083                                       permanent_config    employee
    84084                                       permanent_customer  customer
    40068,41110                                 permanent_config    tag
    40071,40072                                 permanent_config    tag
    40126                                       permanent_config    corp
    41111                                       permanent_config    request
    41041,41044,41045,41054,41091,41095         permanent_config
    41050                                       permanent_customer
    41051                                       already_done
    41053                                       permanent_customer
    41096                                       retry_with_backoff
    41048                                       permanent_config
    41063,41079                                 retry_with_backoff
    41094                                       rate_limited
    41049                                       permanent_config
    41037,41038,41039,41040,41042,41043         permanent_config

    40050,86001,86003                           permanent_config
    86004..86008,86101,86201..86220             permanent_config
    49008                                       permanent_config
    90500,90502                                 permanent_config
    90501,90509                                 permanent_config    group
    90503                                       permanent_config
    90504                                       already_done
    90507                                       already_done
    90508                                       already_done
    90510,90511,90514                           permanent_config
    81013                                       permanent_config
    82001                                       permanent_config
    42027..42051                                permanent_config
    93000,93001,93004,93006,93008               permanent_config
    95001                                       rate_limited
    95002,95018,95031                           permanent_customer
    95007                                       retry_with_backoff
    95013                                       already_done
    95014,95019,60253                           permanent_config
    95016                                       permanent_customer
    95033                                       already_done
    95000,95004,60252                           permanent_config
";

fn page() -> Vec<(i64, &'static str, Option<&'static str>)> {
    let mut rows = Vec::new();
    for line in PAGE.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (codes, class, scope) = (words.next().unwrap(), words.next().unwrap(), words.next());
        for part in codes.split(',') {
            let (first, last) = part.split_once("..").unwrap_or((part, part));
            let codes = first.parse().unwrap()..=last.parse().unwrap();
            rows.extend(codes.map(|code| (code, class, scope)));
        }
    }
    rows
}

#[test]
fn every_code_of_the_page_is_classified_as_the_page_says() {
    let rows = page();
    assert_eq!(rows.len(), 184);
    for (code, class, scope) in rows {
        let known = classify(code);
        assert_eq!(known.class.as_str(), class, "{code}");
        if let Some(scope) = scope {
            assert_eq!(known.scope.as_str(), scope, "{code}");
        }
        assert_ne!(known.scope, Scope::Unknown, "{code}");
        assert!(!known.meaning.is_empty(), "{code}");
    }
}

#[test]
fn the_table_has_nothing_that_the_page_lacks() {
    let known: std::collections::HashSet<i64> = page().into_iter().map(|(code, ..)| code).collect();
    for code in (-10..100_000)
        .chain(300_000..302_000)
        .chain(600_000..720_000)
    {
        let classified = classify(code).class != Class::Unknown;
        assert_eq!(classified, known.contains(&code), "{code}");
    }
}

#[test]
fn unknown_codes_are_not_retried() {
    for code in [
        i64::MIN,
        -2,
        0,
        1,
        40002,
        42026,
        42052,
        86009,
        999_999,
        i64::MAX,
    ] {
        assert_eq!(classify(code).class, Class::Unknown, "{code}");
    }
}

fn refusal(errcode: i64) -> Error {
    let known = classify(errcode);
    Error::Api {
        api: "externalcontact/transfer_customer",
        errcode,
        class: known.class,
        scope: known.scope,
        errmsg_hint: Some("1792_ab".to_owned()),
        from_ip: "198.51.100.7".parse::<IpAddr>().ok(),
        wrong_json: false,
    }
}

#[test]
fn errors_say_what_happened_in_a_line() {
    assert_eq!(
        refusal(45009).to_string(),
        "externalcontact/transfer_customer: refused with errcode 45009 (rate_limited), hint 1792_ab"
    );
    let transport = |sent| Error::Transport {
        api: "user/get",
        sent,
        problem: TransportProblem::TimedOut,
        source: None,
    };
    assert_eq!(
        transport(true).to_string(),
        "user/get: no usable answer: timed out (it may have had its effect)"
    );
    assert_eq!(
        transport(false).to_string(),
        "user/get: no usable answer: timed out (it had no effect)"
    );
    let invalid = Error::Invalid {
        api: "externalcontact/remark",
        field: "remark",
        problem: FieldProblem::TooLong {
            limit: 20,
            given: 21,
            unit: Unit::Characters,
        },
    };
    assert_eq!(
        invalid.to_string(),
        "externalcontact/remark: remark: has 21 characters, at most 20 are allowed"
    );
    let blocked = Error::Blocked {
        api: "gettoken",
        until_ms: 5,
        errcode: Some(40001),
    };
    assert_eq!(
        blocked.to_string(),
        "gettoken: not sent before 5, because of errcode 40001"
    );
}

#[test]
fn only_what_concerns_the_whole_app_stops_it() {
    for errcode in [60020, 301042, 50003, 60031, 301007] {
        assert!(refusal(errcode).stops_the_app(), "{errcode}");
    }
    for errcode in [-1, 45009, 48002, 60111, 84061, 40058] {
        assert!(!refusal(errcode).stops_the_app(), "{errcode}");
    }
    for errcode in [40001, 40014, 42001] {
        let mut error = refusal(errcode);
        assert!(
            !error.stops_the_app(),
            "{errcode} may be mended by a new token"
        );
        let Error::Api { class, .. } = &mut error else {
            panic!()
        };
        *class = Class::PermanentConfig;
        assert!(error.stops_the_app(), "{errcode} with a fresh token");
    }
}
