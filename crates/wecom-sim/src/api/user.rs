//! Members.

use serde_json::json;

use super::call::answer;
use super::{Call, Reply};

/// One member. Who left, does not exist or is not visible is 60111 alike.
pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let userid = call.fields.filled("userid").ok_or(40003)?;
        let member = call.corp.member(userid).ok_or(60111)?;
        if !member.in_service() || !call.sees(&member) {
            return Err(60111);
        }
        let def = member.def.get();
        Ok(Reply::ok()
            .with("userid", &*member.userid)
            .with("name", def.name.as_deref().unwrap_or(&member.userid))
            .with("department", json!(def.departments))
            .with(
                "main_department",
                def.departments.first().copied().unwrap_or(1),
            )
            .with("order", json!(vec![0; def.departments.len()]))
            .with("is_leader_in_dept", json!(vec![0; def.departments.len()]))
            .with("direct_leader", json!([]))
            .with("position", "")
            .with("alias", "")
            .with("status", def.status))
    })())
}

/// The members of one department.
pub(crate) fn simplelist(call: &Call<'_>) -> Reply {
    let department = call
        .fields
        .text("department_id")
        .and_then(|id| id.parse::<u32>().ok());
    let Some(department) = department else {
        return Reply::error(60123);
    };
    let members = call.corp.members.get();
    let mut found: Vec<_> = members
        .values()
        .filter(|member| member.in_service() && call.sees(member))
        .map(|member| (member, member.def.get()))
        .filter(|(_, def)| def.departments.contains(&department))
        .collect();
    found.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    let list: Vec<_> = found
        .into_iter()
        .map(|(member, def)| {
            let name = def.name.as_deref().unwrap_or(&member.userid);
            json!({"userid": &*member.userid, "name": name, "department": def.departments})
        })
        .collect();
    Reply::ok().with("userlist", list)
}
