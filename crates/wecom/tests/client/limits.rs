//! Documented limits, checked before anything is sent, with the field named. Case 130: characters are not bytes.

use rstest::rstest;
use wecom::Error;
use wecom::client::{
    AddContactWay, AddCorpTag, AppMessage, Attachment, Client, DelCorpTag, EditCorpTag, Image,
    Link, MarkTag, Media, MessageContent, MiniProgram, Recipients, Remark, TextCard,
    TransferCustomer, UpdateContactWay, WayType, WebhookMessage, Welcome,
};
use wecom::error::{Class, FieldProblem, Scope, Unit};

use crate::stub::{Answer, Stub};
use crate::support::client;

fn transfer(customers: usize, message: Option<String>) -> TransferCustomer {
    TransferCustomer {
        handover_userid: "mA".to_owned(),
        takeover_userid: "mB".to_owned(),
        external_userid: (0..customers).map(|number| format!("wm{number}")).collect(),
        transfer_success_msg: message,
    }
}

fn remark(set: impl FnOnce(&mut Remark)) -> Remark {
    let mut request = Remark {
        userid: "mA".to_owned(),
        external_userid: "wm".to_owned(),
        ..Remark::default()
    };
    set(&mut request);
    request
}

fn way(set: impl FnOnce(&mut AddContactWay)) -> AddContactWay {
    let mut request = AddContactWay {
        user: vec!["mA".to_owned()],
        ..AddContactWay::default()
    };
    set(&mut request);
    request
}

fn card(title: &str, description: &str) -> AppMessage {
    let card = TextCard {
        title: title.into(),
        description: description.into(),
        url: "https://example.test/".into(),
        btntxt: None,
    };
    AppMessage::new(Recipients::user("mA"), MessageContent::TextCard(card))
}

fn text(content: &str) -> AppMessage {
    AppMessage::new(
        Recipients::user("mA"),
        MessageContent::Text {
            content: content.into(),
        },
    )
}

fn users(count: usize) -> Recipients {
    Recipients {
        users: (0..count).map(|number| format!("m{number}")).collect(),
        ..Recipients::default()
    }
}

fn mark(add: usize) -> MarkTag {
    MarkTag {
        userid: "mA".to_owned(),
        external_userid: "wm".to_owned(),
        add_tag: (0..add).map(|number| format!("et{number}")).collect(),
        remove_tag: Vec::new(),
    }
}

fn welcome() -> Welcome {
    Welcome::new("WC_1")
}

fn attached(attachment: Attachment) -> Result<(), Error> {
    welcome().attach(attachment).check()
}

fn link(title: usize, desc: usize) -> Attachment {
    Attachment::Link(Link {
        title: "t".repeat(title),
        picurl: None,
        desc: Some("d".repeat(desc)),
        url: "https://example.test/g".to_owned(),
    })
}

fn program(title: usize, page: &str) -> Attachment {
    Attachment::MiniProgram(MiniProgram {
        title: "t".repeat(title),
        pic_media_id: "m".to_owned(),
        appid: "a".to_owned(),
        page: page.to_owned(),
    })
}

fn image() -> Attachment {
    Attachment::Image(Image {
        media_id: Some("m".to_owned()),
        pic_url: None,
    })
}

/// Chinese, and with a four-byte emoji as the last character.
fn chinese(characters: usize) -> String {
    "客".repeat(characters - 1) + "😀"
}

/// At the limit everything passes.
#[test]
fn at_the_limit_everything_passes() {
    transfer(100, Some(chinese(200))).check().unwrap();
    transfer(1, None).check_resigned().unwrap();
    remark(|request| request.remark = Some(chinese(20).into()))
        .check()
        .unwrap();
    remark(|request| request.description = Some(chinese(150).into()))
        .check()
        .unwrap();
    remark(|request| request.remark_company = Some(chinese(20).into()))
        .check()
        .unwrap();
    remark(|request| request.remark = Some("".into()))
        .check()
        .unwrap();
    remark(|request| request.remark_mobiles = Some(vec!["".into()]))
        .check()
        .unwrap();
    way(|request| request.remark = Some(chinese(30)))
        .check()
        .unwrap();
    way(|request| request.state = Some(chinese(30)))
        .check()
        .unwrap();
    way(|request| {
        request.kind = WayType::Multiple;
        request.user = users(100).users;
    })
    .check()
    .unwrap();
    welcome().text("客".repeat(1333) + "x").check().unwrap();
    let nine = (0..9).fold(welcome(), |welcome, _| welcome.attach(image()));
    nine.check().unwrap();
    attached(link(128, 512)).unwrap();
    attached(program(64, "p")).unwrap();
    card(&chinese(128), &chinese(512)).check().unwrap();
    text(&"a".repeat(2048)).check().unwrap();
    AppMessage::new(
        users(1000),
        MessageContent::Markdown {
            content: "a".into(),
        },
    )
    .check()
    .unwrap();
    WebhookMessage::text("a".repeat(2048)).check().unwrap();
    WebhookMessage::markdown("a".repeat(4096)).check().unwrap();
    mark(1000).check().unwrap();
    AddCorpTag::in_group_named(chinese(30), [chinese(30)])
        .check()
        .unwrap();
}

const fn too_many(limit: usize) -> FieldProblem {
    FieldProblem::TooMany {
        limit,
        given: limit + 1,
    }
}

const fn too_long(limit: usize, unit: Unit) -> FieldProblem {
    FieldProblem::TooLong {
        limit,
        given: limit + 1,
        unit,
    }
}

/// One above the limit nothing does.
#[rstest]
#[case(transfer(101, None).check(), "external_userid", too_many(100))]
#[case(transfer(101, None).check_resigned(), "external_userid", too_many(100))]
#[case(transfer(0, None).check(), "external_userid", FieldProblem::Missing)]
#[case(transfer(1, Some(chinese(201))).check(), "transfer_success_msg", too_long(200, Unit::Characters))]
#[case(remark(|r| r.remark = Some(chinese(21).into())).check(), "remark", too_long(20, Unit::Characters))]
#[case(remark(|r| r.description = Some(chinese(151).into())).check(), "description", too_long(150, Unit::Characters))]
#[case(remark(|r| r.remark_company = Some(chinese(21).into())).check(), "remark_company", too_long(20, Unit::Characters))]
#[case(way(|r| r.remark = Some(chinese(31))).check(), "remark", too_long(30, Unit::Characters))]
#[case(way(|r| r.state = Some(chinese(31))).check(), "state", too_long(30, Unit::Characters))]
#[case(way(|r| { r.kind = WayType::Multiple; r.user = users(101).users; }).check(), "user", too_many(100))]
#[case(welcome().text("客".repeat(1333) + "xx").check(), "text.content", too_long(4000, Unit::Bytes))]
#[case((0..10).fold(welcome(), |w, _| w.attach(image())).check(), "attachments", too_many(9))]
#[case(attached(link(129, 1)), "link.title", too_long(128, Unit::Bytes))]
#[case(attached(link(1, 513)), "link.desc", too_long(512, Unit::Bytes))]
#[case(
    attached(program(65, "p")),
    "miniprogram.title",
    too_long(64, Unit::Bytes)
)]
#[case(attached(program(1, "")), "miniprogram.page", FieldProblem::Missing)]
#[case(
    attached(Attachment::Video(Media::default())),
    "video.media_id",
    FieldProblem::Missing
)]
#[case(
    attached(Attachment::File(Media::default())),
    "file.media_id",
    FieldProblem::Missing
)]
#[case(Welcome::new("").text("x").check(), "welcome_code", FieldProblem::Missing)]
#[case(card(&chinese(129), "d").check(), "textcard.title", too_long(128, Unit::Characters))]
#[case(card("t", &chinese(513)).check(), "textcard.description", too_long(512, Unit::Characters))]
#[case(text(&"a".repeat(2049)).check(), "text.content", too_long(2048, Unit::Bytes))]
#[case(AppMessage::new(users(1001), MessageContent::Text { content: "a".into() }).check(), "touser", too_many(1000))]
#[case(WebhookMessage::text("a".repeat(2049)).check(), "text.content", too_long(2048, Unit::Bytes))]
#[case(WebhookMessage::markdown("a".repeat(4097)).check(), "markdown.content", too_long(4096, Unit::Bytes))]
#[case(mark(1001).check(), "add_tag", too_many(1000))]
#[case(AddCorpTag::in_group("g", [chinese(31)]).check(), "tag.name", too_long(30, Unit::Characters))]
#[case(AddCorpTag::in_group_named(chinese(31), ["a".to_owned()]).check(), "group_name", too_long(30, Unit::Characters))]
fn above_the_limit_nothing_passes(
    #[case] outcome: Result<(), Error>,
    #[case] wrong: &str,
    #[case] expected: FieldProblem,
) {
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.class(), error.scope(), error.may_have_acted()),
        (Class::PermanentConfig, Scope::Request, false)
    );
    let Error::Invalid { field, problem, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((field, problem), (wrong, expected));
}

/// Combinations that WeCom refuses, or reads as something else.
#[rstest]
#[case(transfer(1, Some("hello".to_owned())).check_resigned(), "transfer_success_msg")]
#[case(TransferCustomer { external_userid: vec![String::new()], ..transfer(1, None) }.check(), "external_userid")]
#[case(remark(|_| {}).check(), "remark")]
#[case(remark(|r| r.remark_mobiles = Some(Vec::new())).check(), "remark_mobiles")]
#[case(way(|r| r.user = users(2).users).check(), "user")]
#[case(way(|r| r.party = vec![1]).check(), "party")]
#[case(way(|r| { r.kind = WayType::Multiple; r.user.clear(); }).check(), "user")]
#[case(way(|r| r.expires_in = Some(14 * 86_400 + 1)).check(), "expires_in")]
#[case(way(|r| r.unionid = Some("o_1".to_owned())).check(), "unionid")]
#[case(UpdateContactWay { config_id: "cw".to_owned(), user: Some(vec![String::new()]), ..UpdateContactWay::default() }.check(), "user")]
#[case(welcome().check(), "text")]
#[case(attached(Attachment::Image(Image::default())), "image.media_id")]
#[case(AppMessage::new(Recipients::default(), MessageContent::Text { content: "a".into() }).check(), "touser")]
#[case(AppMessage::new(Recipients::user("a|b"), MessageContent::Text { content: "a".into() }).check(), "touser")]
#[case(mark(0).check(), "add_tag")]
#[case(AddCorpTag { tag: Vec::new(), ..AddCorpTag::in_group("g", []) }.check(), "tag")]
#[case(AddCorpTag { group_name: Some("n".to_owned()), ..AddCorpTag::in_group("g", ["a".to_owned()]) }.check(), "group_id")]
#[case(EditCorpTag { id: "et".to_owned(), ..EditCorpTag::default() }.check(), "name")]
#[case(DelCorpTag::default().check(), "tag_id")]
fn impossible_combinations_are_refused(#[case] outcome: Result<(), Error>, #[case] wrong: &str) {
    let error = outcome.unwrap_err();
    let Error::Invalid {
        field,
        problem: FieldProblem::NotAllowed(_),
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(field, wrong);
}

/// The methods check too, before they even ask for a token.
#[tokio::test]
async fn nothing_is_sent_that_is_over_a_limit() {
    let stub = Stub::start(|_| Answer::ok()).await;
    let client: Client = client(&stub);
    let too_many: Vec<String> = (0..101).map(|number| format!("m{number}")).collect();
    let refused = [
        client.transfer_customer(&transfer(101, None)).await.err(),
        client
            .resigned_transfer_customer(&transfer(101, None))
            .await
            .err(),
        client.remark(&remark(|_| {})).await.err(),
        client
            .add_contact_way(&way(|request| request.user.clear()))
            .await
            .err(),
        client
            .update_contact_way(&UpdateContactWay::default())
            .await
            .err(),
        client.send_welcome_msg(&welcome()).await.err(),
        client.send_message(&text("")).await.err(),
        client.mark_tag(&mark(0)).await.err(),
        client.add_corp_tag(&AddCorpTag::default()).await.err(),
        client.edit_corp_tag(&EditCorpTag::default()).await.err(),
        client.del_corp_tag(&DelCorpTag::default()).await.err(),
        client.batch_get_by_user(&too_many, None).await.err(),
        client.batch_get_by_user(&[], None).await.err(),
        client.list_customers("").await.err(),
        client.get_customer("", None).await.err(),
        client.get_user("").await.err(),
        client.get_contact_way("").await.err(),
        client.del_contact_way("").await.err(),
        client.close_temp_chat("", "wm").await.err(),
        client
            .transfer_result(&Default::default(), None)
            .await
            .err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(Error::Invalid { .. })), "{error:?}");
    }
    assert!(stub.received().is_empty());
}
