//! The directory and the range of an app.

use super::*;
use crate::Redacted;

#[test]
fn directory_members() {
    let inside = "<ChangeType>update_user</ChangeType><UserID>zhang</UserID><NewUserID>zhangsan</NewUserID>\
        <Name>张三</Name><Department>1,2, 3</Department><MainDepartment>1</MainDepartment><IsLeaderInDept>1,0,0</IsLeaderInDept>\
        <DirectLeader>li,wang</DirectLeader><Position>p</Position><Mobile>1</Mobile><Gender>1</Gender><Email>e</Email>\
        <BizMail>b</BizMail><Status>1</Status><Avatar>v</Avatar><Alias>a</Alias><Telephone>t</Telephone><Address>d</Address>\
        <ExtAttr><Item><Name>no</Name><Type>0</Type><Text><Value>no</Value></Text></Item></ExtAttr>";
    let [event, _] = both("change_contact", inside);
    let list = |items: &[&str]| {
        items
            .iter()
            .map(|item| (*item).to_owned())
            .collect::<Vec<_>>()
    };
    let secret = |text| Some(Redacted::new(text));
    let user = ContactUser {
        user_id: "zhang".to_owned(),
        new_user_id: Some("zhangsan".to_owned()),
        departments: list(&["1", "2", "3"]),
        main_department: Some("1".to_owned()),
        is_leader_in_department: list(&["1", "0", "0"]),
        direct_leaders: list(&["li", "wang"]),
        status: Some(1),
        gender: Some(1),
        name: secret("张三"),
        alias: secret("a"),
        position: secret("p"),
        mobile: secret("1"),
        telephone: secret("t"),
        email: secret("e"),
        biz_mail: secret("b"),
        address: secret("d"),
        avatar: secret("v"),
    };
    assert_eq!(
        event.body,
        Body::Contact(Contact::UpdateUser(Box::new(user)))
    );
    assert_eq!(event.repeatable(), Some(("member", "zhang".to_owned())));

    let created =
        "<ChangeType>create_user</ChangeType><UserID>u1</UserID><Department></Department>";
    let Body::Contact(Contact::CreateUser(user)) = body("change_contact", created) else {
        panic!()
    };
    assert_eq!(
        (user.user_id.as_str(), user.departments, user.name),
        ("u1", vec![], None)
    );
    assert_eq!(
        repeats("change_contact", created),
        Some(("member", "u1".to_owned()))
    );

    let deleted = "<ChangeType>delete_user</ChangeType><UserID>u1</UserID>";
    assert_eq!(
        body("change_contact", deleted),
        Body::Contact(Contact::DeleteUser("u1".to_owned()))
    );
    assert_eq!(
        repeats("change_contact", deleted),
        Some(("member", "u1".to_owned()))
    );
}

#[test]
fn directory_departments_and_tags() {
    let party = |change: &str| {
        format!(
            "<ChangeType>{change}</ChangeType><Id>2</Id><ParentId>1</ParentId><Name>n</Name><Order>9</Order>"
        )
    };
    let department = Department {
        id: "2".to_owned(),
        parent_id: Some("1".to_owned()),
        name: Some("n".to_owned()),
        order: Some(9),
    };
    let contact = |change: &str| body("change_contact", &party(change));
    assert_eq!(
        contact("create_party"),
        Body::Contact(Contact::CreateParty(department.clone()))
    );
    assert_eq!(
        contact("update_party"),
        Body::Contact(Contact::UpdateParty(department))
    );
    assert_eq!(
        contact("delete_party"),
        Body::Contact(Contact::DeleteParty("2".to_owned()))
    );
    assert_eq!(contact("x"), Body::Contact(Contact::Other("x".to_owned())));
    assert_eq!(repeats("change_contact", &party("update_party")), None);

    let inside = "<ChangeType><![CDATA[update_tag]]></ChangeType><TagId>1</TagId><AddUserItems>a,b</AddUserItems>\
        <DelUserItems>c</DelUserItems><AddPartyItems>1,2</AddPartyItems><DelPartyItems>3,4</DelPartyItems>";
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
    let tag = TagMembers {
        tag_id: "1".to_owned(),
        added_users: list(&["a", "b"]),
        removed_users: list(&["c"]),
        added_departments: list(&["1", "2"]),
        removed_departments: list(&["3", "4"]),
    };
    assert_eq!(
        body("change_contact", inside),
        Body::Contact(Contact::UpdateTag(tag))
    );
}

#[test]
fn app_presence_is_about_the_sender() {
    for (name, presence) in [
        ("subscribe", AppPresence::Subscribe),
        ("unsubscribe", AppPresence::Unsubscribe),
    ] {
        let event = Event::parse(&format!(
            "<xml><ToUserName>{CORP}</ToUserName><FromUserName>staff-07</FromUserName><CreateTime>x</CreateTime>\
             <MsgType>event</MsgType><Event>{name}</Event><AgentID>1000002</AgentID></xml>"
        ))
        .unwrap();
        assert_eq!(event.body, Body::AppPresence(presence));
        assert_eq!(event.repeatable(), Some(("member", "staff-07".to_owned())));
        assert_eq!(
            (event.agent_id.as_deref(), event.create_time),
            (Some("1000002"), None)
        );
    }
}
