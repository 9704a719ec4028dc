//! People come and go: whose seats that confirms.
//!
//! A callback says how many came, and who, but neither their unionid nor the State by which they came: until the group is read
//! they take room as *pending*, and nobody's hold is taken for theirs. So free seats are understated for that time, and never
//! overstated. Whom only a read brings that may be old is *doubted* besides: he may have left, and come once more in what is
//! behind; he takes room, and nobody's hold until that is sure. A read identifies them, and each is matched once: to a seat of one of his names; or else, where nothing names
//! those who hold, to the oldest hold with his State; or else, if he scanned a code without State, to the oldest hold of the
//! group.

use super::group::Person;
use super::{Call, Held, Seat, Taken};
use crate::seats::{
    ChatId, ConfirmSeats, JoinedAs, JoinedPerson, Joining, Leaving, PersonKey, SeatMatch, SeatName,
    SeatState, SeatsConfirmed,
};

impl Call<'_> {
    pub(super) fn confirm(&mut self, change: &ConfirmSeats) -> SeatsConfirmed {
        let chat = &change.chat;
        let Some(group) = self.seats.groups.get(chat) else {
            return SeatsConfirmed::Unknown;
        };
        // What leads to what is known already may be done again: everybody is where it says.
        let follows = group.seen == change.from || group.seen.as_ref() == Some(&change.version);
        if !follows && !change.force {
            return SeatsConfirmed::Stale {
                version: group.seen.clone(),
            };
        }
        let n_before = group.people.len();
        let before = self.lift(chat);
        let mut left = Vec::new();
        for person in &change.left {
            if let Some(Person::Seated(name)) = self.group(chat).people.remove(person)
                && let Some(seat) = self.seats.seats.remove(&name)
            {
                left.push(Leaving {
                    person: *person,
                    seat: seat.id(),
                    campaign: name.campaign,
                    subject: name.subject,
                });
            }
        }
        self.group(chat).seen = Some(change.version.clone());
        let mut joined = Vec::new();
        for (index, person) in (0..).zip(&change.joined) {
            match self.group(chat).people.get(&person.person) {
                Some(Person::Plain | Person::Seated(_)) => continue,
                // That he is in it may be as old as before.
                Some(Person::Pending | Person::Doubted) if person.doubted => continue,
                Some(Person::Pending | Person::Doubted) | None => {}
            }
            let key = person.person;
            if !person.identified {
                let what = match person.doubted {
                    true => Person::Doubted,
                    false => Person::Pending,
                };
                self.group(chat).people.insert(key, what);
                continue;
            }
            let (joined_as, is_now) = self.match_person(chat, person);
            self.group(chat).people.insert(key, is_now);
            joined.push(Joining {
                index,
                joined: joined_as,
            });
        }
        self.put(chat, before);
        let group = &self.seats.groups[chat];
        SeatsConfirmed::Counted {
            count: group.count(),
            grew: group.people.len() > n_before,
            left,
            joined,
        }
    }

    fn group(&mut self, chat: &ChatId) -> &mut super::Group {
        self.seats.groups.get_mut(chat).expect("it was looked up")
    }

    fn match_person(&mut self, chat: &ChatId, person: &JoinedPerson) -> (JoinedAs, Person) {
        let Some((how, name)) = self.find(chat, person) else {
            return (JoinedAs::Direct, Person::Plain);
        };
        let seat = self.seats.seats[&name].clone();
        let id = seat.id();
        let was = seat.state();
        let from = match &seat {
            Seat::Held(held) => {
                self.unhold(&name, held, held.chat == *chat);
                Some(held.chat.clone())
            }
            Seat::Waiting(waiter) => {
                self.stop_waiting(&name, waiter);
                None
            }
            Seat::Expired(expired) => {
                let end = (expired.until_ms, name.to_string());
                self.seats.pasts.remove(&end);
                Some(expired.chat.clone())
            }
            Seat::Taken(taken) => {
                let already = JoinedAs::Already {
                    how,
                    seat: id,
                    campaign: name.campaign,
                    subject: name.subject,
                    was,
                    chat: taken.chat.clone(),
                };
                return (already, Person::Plain);
            }
        };
        self.take(&name, id, chat, person.person, was == SeatState::Expired);
        let joined = JoinedAs::Seat {
            how,
            seat: id,
            campaign: name.campaign.clone(),
            subject: name.subject,
            was,
            from: from.filter(|from| from != chat),
        };
        (joined, Person::Seated(name))
    }

    fn take(
        &mut self,
        name: &SeatName,
        seat: crate::seats::SeatId,
        chat: &ChatId,
        person: PersonKey,
        late: bool,
    ) {
        let taken = Taken {
            seat,
            chat: chat.clone(),
            person,
            late,
        };
        self.seats.seats.insert(name.clone(), Seat::Taken(taken));
    }

    fn find(&self, chat: &ChatId, person: &JoinedPerson) -> Option<(SeatMatch, SeatName)> {
        let named = person.names.iter().filter_map(|candidate| {
            let name = candidate.name();
            let rank = self.rank(chat, self.seats.seats.get(&name)?)?;
            Some((rank, candidate.how, name))
        });
        if let Some((_, how, name)) = named.min_by_key(|(rank, ..)| *rank) {
            return Some((how, name));
        }
        let (way, how) = match &person.state {
            Some(state) => (Some(state.clone()), SeatMatch::State),
            None if person.scanned => (None, SeatMatch::Count),
            None => return None,
        };
        let of_way = self.seats.anonymous.get(&(chat.clone(), way))?;
        let (_, name) = of_way.first()?;
        Some((how, name.clone()))
    }

    /// Which of several seats is meant, the lowest first: one of this group; one of another group, or a place in the waiting
    /// room; one that somebody sits on, if there is nothing else. None: it is over.
    fn rank(&self, chat: &ChatId, seat: &Seat) -> Option<u8> {
        match seat {
            Seat::Held(Held { chat: of, .. }) => Some(u8::from(of != chat)),
            Seat::Expired(expired) if expired.until_ms <= self.now_ms => None,
            Seat::Expired(expired) => Some(u8::from(expired.chat != *chat)),
            Seat::Waiting(_) => Some(1),
            Seat::Taken(_) => Some(2),
        }
    }
}
