//! Everything the pages say, in both languages, side by side. In braces stands what is filled in.

use std::fmt;

macro_rules! texts {
    ($($name:ident: $zh:literal, $en:literal;)*) => {
        /// All texts in one language.
        #[derive(Debug)]
        pub(super) struct Texts {
            $(pub(super) $name: &'static str,)*
        }

        static ZH: Texts = Texts { $($name: $zh,)* };
        static EN: Texts = Texts { $($name: $en,)* };

        /// Name and both texts.
        #[cfg(test)]
        const PAIRS: &[(&str, &str, &str)] = &[$((stringify!($name), $zh, $en),)*];
    };
}

texts! {
    untitled: "添加顾问", "Your contact";
    held: "请添加 {name}", "Please add {name}";
    held_how: "长按二维码，在微信中识别并添加。", "Press and hold the code, then let WeChat scan it.";
    held_until: "为您保留到 {time}（约 {minutes} 分钟），刷新页面仍是同一位顾问。",
        "Kept for you until {time} (about {minutes} min). Refreshing keeps the same person.";
    held_over: "保留时间已过", "The time is over";
    held_again: "重新获取", "Get a contact again";
    qr: "{name} 的微信二维码", "WeChat QR code of {name}";
    drawing: "二维码正在准备", "The QR code is being prepared";
    drawing_text: "{name} 为您保留到 {time}，页面会自动刷新，仍是同一位顾问。",
        "{name} is kept for you until {time}. This page refreshes itself and keeps the same person.";
    waiting: "顾问正忙，请稍候", "Everybody is busy just now";
    waiting_text: "您已在排队，轮到您时本页会自动刷新。刷新不会丢失您的位置。",
        "You are in line. This page refreshes itself when it is your turn; refreshing keeps your place.";
    waiting_over: "您还在等吗？", "Are you still here?";
    waiting_again: "继续等待", "Go on waiting";
    met: "您已添加 {name}", "You have added {name}";
    met_text: "请回到微信，与 {name} 聊天。", "Go back to WeChat and chat with {name}.";
    seat_untitled: "加入群聊", "Join the group";
    seat_held: "请加入「{name}」", "Please join “{name}”";
    seat_held_unnamed: "请加入群聊", "Please join the group";
    seat_how: "长按二维码，在微信中识别并加入群聊。", "Press and hold the code, then let WeChat scan it and join.";
    seat_until: "席位为您保留到 {time}（约 {minutes} 分钟），刷新页面仍是同一个群。",
        "Your seat is kept until {time} (about {minutes} min). Refreshing keeps the same group.";
    seat_again: "重新获取席位", "Get a seat again";
    seat_qr: "入群二维码", "Code of the group";
    seat_drawing_text: "席位为您保留到 {time}，页面会自动刷新，仍是同一个群。",
        "Your seat is kept until {time}. This page refreshes itself and keeps the same group.";
    seat_preparing: "群聊正在准备", "The group is being prepared";
    seat_preparing_text: "页面会自动刷新，请稍候。", "This page refreshes itself in a moment.";
    seat_waiting: "群聊席位暂满，请稍候", "All groups are full just now";
    seat_waiting_text: "您排在第 {position} 位，有席位时本页会自动刷新。刷新不会丢失您的位置。",
        "You are number {position} in line. This page refreshes itself when there is a seat; refreshing keeps your place.";
    seat_waiting_many_text: "您前面约有 {position} 人，有席位时本页会自动刷新。刷新不会丢失您的位置。",
        "About {position} people are before you. This page refreshes itself when there is a seat; refreshing keeps your place.";
    seat_opens: "请扫码加入新群", "Scan to join the next group";
    seat_opens_how: "长按二维码，在微信中识别并加入群聊：当前群已满时，企业微信会为您新建一个群。",
        "Press and hold the code and let WeChat scan it: if the group is full, a new one is opened for you.";
    seat_joined: "您已加入「{name}」", "You have joined “{name}”";
    seat_joined_unnamed: "您已加入群聊", "You have joined the group";
    seat_joined_text: "请回到微信，打开群聊。", "Go back to WeChat and open the group.";
    seat_soon: "活动尚未开始", "It has not begun yet";
    seat_soon_text: "活动将于 {time} 开始，届时请再打开本页。", "It begins on {time}. Please open this page again then.";
    seat_over: "活动已结束", "It is over";
    seat_over_text: "感谢您的关注，群聊席位已不再发放。", "Thank you for coming. No more seats are given.";
    seat_proceed_text: "点按“继续”，为您安排一个群聊席位。", "Tap “Continue” and we find a seat for you.";
    seat_away_text: "系统暂时无法安排席位，页面会自动重试。", "We cannot find you a seat just now. This page tries again by itself.";
    proceed: "您的浏览器没有保存 Cookie", "Your browser keeps no cookies";
    proceed_text: "点按“继续”，为您安排一位顾问。", "Tap “Continue” and we find somebody for you.";
    proceed_button: "继续", "Continue";
    unknown: "没有这个页面", "There is no such page";
    unknown_text: "二维码或链接可能不完整或已失效，请向给您的人索取新的。",
        "The code or link may be incomplete or out of date. Ask whoever gave it to you for a new one.";
    closed: "该页面已关闭", "This page is closed";
    closed_text: "此渠道不再接待访客，请向给您二维码的人索取新的。",
        "It takes no more visitors. Ask whoever gave you the code for a new one.";
    away: "请稍候片刻", "One moment, please";
    away_text: "系统暂时无法安排顾问，页面会自动重试。", "We cannot find you somebody just now. This page tries again by itself.";
    limited: "访问过于频繁", "Too many requests";
    limited_text: "您的网络发来的请求太多，页面会自动重试。", "Too many requests came from your network. This page tries again by itself.";
    method: "不支持这种请求", "This cannot be done here";
    method_text: "请直接打开页面。", "Just open the page.";
    broken: "出错了", "Something went wrong";
    broken_text: "请稍后刷新页面。", "Please refresh the page in a moment.";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Chinese,
    English,
}

impl Language {
    pub(super) const ALL: [Self; 2] = [Self::Chinese, Self::English];

    pub(super) const fn texts(self) -> &'static Texts {
        match self {
            Self::Chinese => &ZH,
            Self::English => &EN,
        }
    }

    /// As `?lang=` and the cookie say it.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Chinese => "zh",
            Self::English => "en",
        }
    }

    /// For the `lang` attribute.
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::Chinese => "zh-CN",
            Self::English => "en",
        }
    }

    /// Its own name, in itself.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Chinese => "中文",
            Self::English => "English",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Chinese => Self::English,
            Self::English => Self::Chinese,
        }
    }

    pub(super) fn of_code(code: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|language| language.code() == code)
    }

    /// The one that `Accept-Language` would rather have. Whoever reads neither gets English, who says nothing Chinese.
    pub(super) fn of_header(header: &str) -> Self {
        let mut best: Option<(f32, Self)> = None;
        for part in header.split(',') {
            let mut words = part.split(';');
            let tag = words.next().unwrap_or_default().trim();
            let language = match tag.split('-').next() {
                Some(tag) if tag.eq_ignore_ascii_case("zh") => Self::Chinese,
                Some(tag) if tag.eq_ignore_ascii_case("en") => Self::English,
                _ => continue,
            };
            let quality = words.find_map(|word| word.trim().strip_prefix("q="));
            let quality = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            if quality > best.map_or(0.0, |(best, _)| best) {
                best = Some((quality, language));
            }
        }
        let nothing = header.trim().is_empty() || header.trim() == "*";
        let neither = if nothing {
            Self::Chinese
        } else {
            Self::English
        };
        best.map_or(neither, |(_, language)| language)
    }
}

/// The text with what stands in braces filled in.
pub(super) fn filled(text: &str, parts: &[(&str, &dyn fmt::Display)]) -> String {
    let mut filled = String::with_capacity(text.len() + 16);
    let mut rest = text;
    // Once through the text: what is filled in may have braces of its own.
    while let Some((before, (name, behind))) = rest
        .split_once('{')
        .and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        if let Some((_, part)) = parts.iter().find(|(it, _)| *it == name) {
            filled.push_str(&part.to_string());
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn braces(text: &str) -> BTreeSet<&str> {
        text.split('{')
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap())
            .collect()
    }

    #[test]
    fn both_languages_have_every_text() {
        for (name, zh, en) in PAIRS {
            assert!(!zh.trim().is_empty() && !en.trim().is_empty(), "{name}");
            assert_eq!(braces(zh), braces(en), "{name}");
            assert!(en.is_ascii() || en.contains(['“', '’']), "{name}: {en}");
            assert!(
                zh.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)),
                "{name}: {zh}"
            );
        }
    }

    #[test]
    fn the_language_is_the_one_that_is_wanted_most() {
        use Language::{Chinese, English};
        for (header, expected) in [
            ("", Chinese),
            ("*", Chinese),
            ("zh-CN,zh;q=0.9,en;q=0.8", Chinese),
            ("en-GB,en;q=0.9,zh;q=0.8", English),
            ("zh;q=0.2, en;q=0.7", English),
            ("EN", English),
            ("fr-FR, fr;q=0.9", English),
            ("fr, zh-TW;q=0.1", Chinese),
            ("en;q=0, zh;q=0", English),
            ("en;q=nonsense, zh;q=0.1", Chinese),
            (";;,,q=1,zh", Chinese),
        ] {
            assert_eq!(Language::of_header(header), expected, "{header}");
        }
    }

    #[test]
    fn what_is_filled_in_is_not_filled_in_again() {
        let name = "{time}";
        assert_eq!(
            filled("a {name} {time} b", &[("name", &name), ("time", &7)]),
            "a {time} 7 b"
        );
        assert_eq!(filled("a {name", &[]), "a {name");
    }
}
