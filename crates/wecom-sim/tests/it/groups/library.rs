//! The client library against the groups of the simulator, as a keeper of groups would use it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use wecom::client::{
    GroupChatFilter, GroupChatStatus, GroupChatStatusFilter, GroupMember, GroupMemberKind,
    JoinScene, JoinWay, MemberNames, TransferGroupChat,
};
use wecom::error::Class;
use wecom::event::{Body, ChatChange, Event};
use wecom_sim::{GroupPerson, GroupRequest, InviteRequest, JoinRequest, LeaveRequest};

use super::{group, scan, small};
use crate::harness::{CORP, Client, DAY, with_gateway};
use crate::library::library;

fn ids(members: &[GroupMember]) -> BTreeSet<String> {
    members.iter().map(|member| member.userid.clone()).collect()
}

#[tokio::test]
async fn a_way_from_its_making_to_its_end() {
    let client = Client::start(small()).await;
    let wecom = library(&client);
    group(&client, "wr1");
    let way = JoinWay {
        remark: Some("spring".to_owned()),
        state: Some("ch_001".to_owned()),
        auto_create_room: true,
        room_base_name: Some("VIP".to_owned()),
        room_base_id: Some(1),
        ..JoinWay::into_groups(["wr1"])
    };
    let config_id = wecom.add_join_way(&way).await.unwrap().config_id;
    let read = wecom.get_join_way(&config_id).await.unwrap();
    assert!(
        read.qr_code
            .as_deref()
            .unwrap()
            .starts_with(&client.sim.base_url())
    );
    let whole = read.configuration().unwrap();
    assert_eq!(
        whole,
        JoinWay {
            mark_source: Some(true),
            ..way
        }
    );

    let lan = GroupPerson::new("wm1").unionid("o1");
    client
        .sim
        .join(&JoinRequest::way(&config_id).person(lan))
        .unwrap();
    let reply = scan(&client, &config_id, 3);
    let room = reply.joins[2].chat_id.clone().unwrap();
    let read = wecom.get_join_way(&config_id).await.unwrap();
    assert_eq!(
        read.chat_id_list.as_deref(),
        Some(["wr1".to_owned(), room.clone()].as_slice())
    );

    let group = wecom
        .get_group_chat("wr1", MemberNames::Hidden)
        .await
        .unwrap();
    let members = group.member_list.unwrap();
    let lan = &members[1];
    assert_eq!(
        (
            lan.kind,
            lan.join_scene,
            lan.unionid.as_deref(),
            lan.state.as_deref()
        ),
        (
            GroupMemberKind::External,
            JoinScene::Scanned,
            Some("o1"),
            Some("ch_001")
        )
    );
    assert!(members.iter().all(|member| member.name.is_none()));
    let named = wecom
        .get_group_chat(&room, MemberNames::Shown)
        .await
        .unwrap();
    assert_eq!((named.name.as_str(), named.owner.as_str()), ("VIP1", "mA"));
    assert!(
        named
            .member_list
            .unwrap()
            .iter()
            .all(|member| member.name.is_some())
    );

    // An update from what was read before the room was opened takes it off.
    wecom.update_join_way(&config_id, &whole).await.unwrap();
    let read = wecom.get_join_way(&config_id).await.unwrap();
    assert_eq!(read.chat_id_list, Some(vec!["wr1".to_owned()]));
    wecom.del_join_way(&config_id).await.unwrap();
    let gone = wecom.get_join_way(&config_id).await.unwrap_err();
    assert_eq!(
        (gone.errcode(), gone.class()),
        (Some(41044), Class::PermanentConfig)
    );
    client.sim.dismiss_group(None, "wr1").unwrap();
    let gone = wecom
        .get_group_chat("wr1", MemberNames::Hidden)
        .await
        .unwrap_err();
    assert_eq!(
        (gone.errcode(), gone.class()),
        (Some(49008), Class::PermanentConfig)
    );
    assert_eq!(wecom.wrong_json_count(), 0);
}

/// Every group of many pages, and each of them once.
#[tokio::test]
async fn all_groups_are_listed() {
    let mut config = small();
    config.paging.cap = 7;
    let client = Client::start(config).await;
    let wecom = library(&client);
    let request = GroupRequest::new("mA").count(40);
    let made = client.sim.make_groups(&request).unwrap().chat_ids;
    let listed = wecom
        .list_group_chat_all(&GroupChatFilter::default())
        .await
        .unwrap();
    assert!(listed.iter().map(|group| &group.chat_id).eq(&made));
    let of_others = GroupChatFilter::of_owners(["mB"]);
    assert!(
        wecom
            .list_group_chat_all(&of_others)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn groups_are_given_to_others() {
    let client = Client::start(small()).await;
    let wecom = library(&client);
    group(&client, "wr1");
    let to = |new_owner: &str| TransferGroupChat {
        chat_id_list: vec!["wr1".to_owned(), "wrX".to_owned()],
        new_owner: new_owner.to_owned(),
    };
    let done = wecom.onjob_transfer_group_chat(&to("mB")).await.unwrap();
    assert_eq!(done.refusal("wr1"), None);
    assert_eq!(done.refusal("wrX").unwrap().class, Class::PermanentConfig);
    let again = wecom.onjob_transfer_group_chat(&to("mB")).await.unwrap();
    assert_eq!(again.refusal("wr1").unwrap().class, Class::AlreadyDone);
    let left = serde_json::json!({"status": 5});
    client.sim.patch_member(None, "mB", &left).unwrap();
    let waiting = GroupChatFilter {
        status: GroupChatStatusFilter::OwnerResigned,
        owners: vec!["mB".to_owned()],
    };
    let listed = wecom.list_group_chat_all(&waiting).await.unwrap();
    assert_eq!(listed[0].status, GroupChatStatus::OwnerResigned);
    let done = wecom.transfer_group_chat(&to("mC")).await.unwrap();
    assert_eq!(done.failed_chat_list.len(), 1);
    let again = wecom.transfer_group_chat(&to("mC")).await.unwrap();
    assert_eq!(again.refusal("wr1").unwrap().class, Class::AlreadyDone);
    client.sim.advance(DAY).await;
    let group = wecom
        .get_group_chat("wr1", MemberNames::Hidden)
        .await
        .unwrap();
    assert_eq!(group.owner, "mC");
}

/// The official way to keep a list of members, over callbacks that are lost, doubled and overtaken, and reads that
/// are behind: whatever version is kept, its list is the one that the group had then.
#[tokio::test]
async fn a_list_kept_by_versions_is_always_one_that_was() {
    let mut config = small();
    (config.groups.scan_cap, config.groups.hard_cap) = (200, 500);
    config.groups.read_lag_ms = 3_000;
    config.callbacks.loss_rate = 0.1;
    config.callbacks.duplicate_rate = 0.1;
    config.callbacks.reorder_rate = 0.3;
    let (client, gateway) = with_gateway(config).await;
    let wecom = library(&client);
    group(&client, "wr1");
    let way = JoinWay::into_groups(["wr1"]);
    let config_id = wecom.add_join_way(&way).await.unwrap().config_id;
    let mut was: HashMap<String, BTreeSet<String>> = HashMap::new();
    let note = |was: &mut HashMap<String, BTreeSet<String>>| {
        let group = client.sim.group(None, "wr1").unwrap();
        let ids = group.members.into_iter().map(|member| member.id);
        was.insert(group.member_version, ids.collect());
    };
    note(&mut was);
    let (mut version, mut list) = (String::new(), BTreeSet::new());
    let (mut seen, mut applied, mut read) = (0, 0, 0);
    for round in 0..100 {
        scan(&client, &config_id, 1);
        note(&mut was);
        if round % 2 == 0 {
            let leave = LeaveRequest {
                chat_id: Some("wr1".to_owned()),
                count: 1,
                removed: round % 4 == 0,
                ..LeaveRequest::default()
            };
            client.sim.leave(&leave).unwrap();
        } else {
            let invite = InviteRequest::new("wr1").count(3);
            client.sim.invite(&invite).unwrap();
        }
        note(&mut was);
        client.sim.advance(Duration::from_secs(2)).await;
        client.sim.idle().await;
        let received = gateway.received();
        for one in &received[seen..] {
            let Body::ExternalChat(chat) = Event::parse(&one.plaintext).unwrap().body else {
                panic!("{}", one.plaintext)
            };
            let ChatChange::Update(update) = chat.change else {
                continue;
            };
            if let Some(diff) = update.diff_after(&version) {
                applied += 1;
                if diff.joined {
                    list.extend(diff.members.iter().cloned());
                } else {
                    list.retain(|id| !diff.members.contains(id));
                }
                version = diff.version.to_owned();
            } else {
                read += 1;
                let names = MemberNames::Hidden;
                let group = wecom.get_group_chat("wr1", names).await.unwrap();
                list = ids(&group.member_list.unwrap());
                version = group.member_version.unwrap();
            }
            assert_eq!(list, was[&version]);
        }
        seen = received.len();
    }
    assert!(applied > 10 && read > 10, "{applied} applied, {read} read");
    // Events may be lost for good: whoever keeps a list reads it now and then.
    client.sim.advance(Duration::from_secs(3)).await;
    let group = wecom.get_group_chat("wr1", MemberNames::Hidden).await;
    let truth = client.sim.group(None, "wr1").unwrap();
    assert_eq!(
        group.unwrap().member_version.as_deref(),
        Some(truth.member_version.as_str())
    );
    assert_eq!(truth.outside, 100 + 50 * 3 - 50);
    assert_eq!(client.sim.counters().corps[CORP].groups.scanned_in, 100);
}
