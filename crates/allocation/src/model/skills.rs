//! What members can do.

use super::{Call, Corp};
use crate::id::{MemberId, Skill};
use crate::op::SetSkills;
use crate::outcome::MemberChange;

impl Corp {
    pub(super) fn is_able(&self, member: &MemberId, needs: &[Skill]) -> bool {
        if needs.is_empty() {
            return true;
        }
        let skills = self.skills.get(member);
        skills.is_some_and(|skills| needs.iter().all(|need| skills.contains(need)))
    }

    /// What a member can do, as the rules know it.
    pub fn skills(&self, member: &MemberId) -> impl Iterator<Item = &Skill> {
        self.skills.get(member).into_iter().flatten()
    }
}

impl Call<'_> {
    pub(super) fn set_skills(&mut self, change: &SetSkills) -> MemberChange {
        let before = self.corp.skills.get(&change.member);
        if before.map_or(change.skills.is_empty(), |before| *before == change.skills) {
            return MemberChange::Same;
        }
        match change.skills.is_empty() {
            true => self.corp.skills.remove(&change.member),
            false => {
                let skills = change.skills.clone();
                self.corp.skills.insert(change.member.clone(), skills)
            }
        };
        // Somebody may wait for what he can do now.
        let places = self.corp.members.get(&change.member);
        let places = places.map_or(Vec::new(), |member| member.places.clone());
        for place in places.iter().filter(|place| place.within) {
            if self.has_waiting(&place.pool) {
                self.touch(&place.pool);
            }
        }
        self.wake();
        MemberChange::Changed
    }
}
